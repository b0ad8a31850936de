// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/inc_run.h"

#include <algorithm>
#include <cassert>

namespace weft::sim {

using inc::ControlMessage;

Plan inc_transfers(const IncSpec& spec) {
  Plan plan;
  plan.groups = static_cast<std::uint32_t>(spec.groups.size());
  for (std::uint32_t g = 0; g < plan.groups; ++g) {
    for (const std::uint32_t host : spec.groups[g].hosts) {
      for (std::uint32_t k = 0; k < spec.times; ++k) {
        plan.transfers.push_back({.from = host, .to = host, .bytes = spec.groups[g].bytes, .group = g});
      }
    }
  }
  return plan;
}

IncRun::IncRun(const IncSpec& spec, const Topology& topology, bool values, IncListener& listener)
    : spec_(spec), topology_(topology), values_(values), listener_(listener) {}

void IncRun::connect(const std::vector<std::unique_ptr<Host>>& hosts,
                     const std::function<nic::QpConfig(std::uint32_t)>& qp) {
  message_bytes_ = spec_.message_packets * qp(spec_.groups[0].hosts[0]).path_mtu;
  for (std::uint32_t g = 0; g < spec_.groups.size(); ++g) {
    const auto& members = spec_.groups[g].hosts;
    const std::size_t first = ranks_.size();
    std::vector<IncRankQp> known;
    for (std::uint32_t r = 0; r < members.size(); ++r) {
      nic::QpConfig config = qp(members[r]);
      config.send_queue_depth = spec_.window + 1;
      config.receive_queue_depth = receives();
      make_rank(g, r, *hosts[members[r]], config);
      nic::Device& device = hosts[members[r]]->device();
      const std::uint32_t sends = device.pick_psn().value(), receives_from = device.pick_psn().value();
      known.push_back(
          {ranks_.back()->qp->qpn().value(), sends, receives_from, std::string(nic::name(config.loss_recovery))});
    }
    trees_.push_back(inc_tree(topology_, members, g, known));
    for (std::uint32_t r = 0; r < members.size(); ++r) {
      const IncEnd& end = inc_end_of_rank(trees_.back(), r);
      const HostPlan& own = topology_.hosts()[members[r]];
      nic::Path path;
      path.source_mac = own.mac;
      path.destination_mac = topology_.switches()[own.tor].ports[own.port].mac;
      path.source = own.address;
      path.destination = end.address;
      path.source_port = 0;
      Rank& rank = *ranks_[first + r];
      if (const auto late = spec_.late.find(members[r]); late != spec_.late.end()) rank.begins = late->second;
      rank.qp->connect({.qpn = wire::Qpn(end.qp),
                        .path = path,
                        .send_psn = wire::Psn(end.first_rx),
                        .receive_psn = wire::Psn(end.first_tx)});
      for (std::uint32_t i = 0; i < receives(); ++i) post_receive(rank, i);
    }
  }
}

void IncRun::make_rank(std::uint32_t group, std::uint32_t rank, Host& host, const nic::QpConfig& config) {
  auto r = std::make_unique<Rank>();
  r->host = &host;
  r->group = group;
  r->rank = rank;
  r->transfer = static_cast<std::uint32_t>(ranks_.size()) * spec_.times;
  for (std::uint32_t k = 0; k < spec_.times; ++k) {
    const auto more = invocations_of(spec_, group, static_cast<std::uint16_t>(r->program.size()));
    r->program.insert(r->program.end(), more.begin(), more.end());
    r->per_operation = static_cast<std::uint32_t>(more.size());
  }
  r->progress.emplace(rank, spec_.window, message_bytes_, r->program);
  const std::uint32_t slot = values_ ? message_bytes_ : static_cast<std::uint32_t>(inc::kControlPayloadBytes);
  r->memory.resize(std::size_t{slots()} * slot + (values_ ? std::size_t{receives()} * slot : 0));
  r->small = host.device().reg_mr_iova({1}, r->memory.data(), r->memory.size(), nic::Access::all, 0);
  r->large =
      values_ ? r->small : host.device().reg_virtual_mr({1}, std::uint64_t{1} << 32, message_bytes_, nic::Access::all);
  r->qp = &host.device().create_qp({1}, host.cq(), host.cq(), config);
  by_qp_[{&host, r->qp->qpn().value()}] = r.get();
  qps_.push_back(r->qp);
  ranks_.push_back(std::move(r));
}

config::Value::List IncRun::groups_at(std::uint32_t sw, std::uint32_t mtu) const {
  config::Value::List out;
  for (std::uint32_t g = 0; g < trees_.size(); ++g) {
    for (const IncNode& node : trees_[g]) {
      if (node.at == sw) out.push_back(inc_group_value(spec_, g, node, mtu));
    }
  }
  return out;
}

TimeNs IncRun::start(TimeNs now) {
  TimeNs next = kNever;
  for (auto& rank : ranks_) {
    if (rank->begins > now) next = std::min(next, rank->begins);
    work(now, *rank);
  }
  return next;
}

void IncRun::work(TimeNs now, Rank& r) {
  if (now < r.begins) return;
  while (const auto message = r.progress->post()) post(now, r, *message);
  note_operations(now, r);
}

void IncRun::post(TimeNs now, Rank& r, const inc::RankMessage& m) {
  const ControlMessage& c = r.program[m.collective];
  const std::uint64_t at = r.sent++ % slots() * (r.memory.size() / (slots() + (values_ ? receives() : 0)));
  nic::SendWr wr;
  if (m.is_control()) {
    const auto payload = inc::control_payload(c);
    std::copy(payload.begin(), payload.end(), r.memory.begin() + static_cast<std::ptrdiff_t>(at));
    wr.opcode = nic::WrOpcode::send_imm;
    wr.immediate = inc::control_immediate(c);
    wr.with({at, inc::kControlPayloadBytes, r.small.key});
  } else if (values_) {
    inc::fill_test_vector(r.rank, c, m.offset, {r.memory.data() + at, m.bytes});
    wr.with({at, m.bytes, r.large.key});
  } else {
    wr.with({r.large.address, m.bytes, r.large.key});
  }
  const auto posted = r.qp->post_send(wr);
  assert(posted == nic::PostResult::ok);
  static_cast<void>(posted);
  r.under_way.push_back(m.collective);
  r.host->kick(now);
}

void IncRun::post_receive(Rank& r, std::uint32_t slot) {
  nic::RecvWr wr;
  wr.wr_id = slot;
  const std::uint64_t at = values_ ? (std::uint64_t{slots()} + slot) * message_bytes_ : r.large.address;
  wr.with({at, message_bytes_, r.large.key});
  const auto posted = r.qp->post_recv(wr);
  assert(posted == nic::PostResult::ok);
  static_cast<void>(posted);
}

void IncRun::completed(TimeNs now, Host& host, const nic::Wc& wc) {
  Rank& r = *by_qp_.at({&host, wc.qpn.value()});
  if (wc.status != nic::WcStatus::success) {
    if (wc.status != nic::WcStatus::flushed) listener_.rank_failed(r.transfer);
    return;
  }
  if (wc.opcode == nic::WcOpcode::receive) {
    received(r, wc);
  } else {
    r.progress->sent();
    r.under_way.pop_front();
  }
  work(now, r);
}

void IncRun::received(Rank& r, const nic::Wc& wc) {
  const auto m = r.progress->arrived();
  const auto say = [&](const std::string& what) {
    if (r.wrong.empty())
      r.wrong = "rank " + std::to_string(r.rank) + " of group " + std::to_string(r.group) + ": " + what;
  };
  if (!m) return say("a message that nobody was to send");
  if (values_ && !m->is_control()) {
    ++r.compared;
    const std::uint8_t* at = r.memory.data() + (std::uint64_t{slots()} + wc.wr_id) * message_bytes_;
    const auto immediate = wc.with_immediate ? std::optional(wc.immediate) : std::nullopt;
    const auto ranks = static_cast<std::uint32_t>(spec_.groups[r.group].hosts.size());
    if (const auto what = inc::test_difference(r.program, ranks, *m, immediate, {at, wc.byte_length}); !what.empty())
      say(what);
  } else {
    const std::uint32_t bytes = m->is_control() ? static_cast<std::uint32_t>(inc::kControlPayloadBytes) : m->bytes;
    if (wc.byte_length != bytes || wc.with_immediate != m->is_control()) say("another message than was to come");
  }
  post_receive(r, static_cast<std::uint32_t>(wc.wr_id));
}

std::string IncRun::wrong() const {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return !r->wrong.empty(); });
  return found == ranks_.end() ? "" : (*found)->wrong;
}

std::uint64_t IncRun::compared() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& r : ranks_) sum += r->compared;
  return sum;
}

/// Operations that the rank has begun, those of which it has all, and those whose messages are acknowledged, too.
void IncRun::note_operations(TimeNs now, Rank& r) {
  const std::size_t passed = r.progress->passed();
  while (r.started < spec_.times && std::size_t{r.started} * r.per_operation <= passed) {
    listener_.operation_started(now, r.transfer + r.started++);
  }
  while (r.received < spec_.times && (std::size_t{r.received} + 1) * r.per_operation <= passed) {
    listener_.operation_received(now, r.transfer + r.received++);
  }
  const std::size_t answered = r.under_way.empty() ? passed : std::min(passed, r.under_way.front());
  while (r.ended < spec_.times && (std::size_t{r.ended} + 1) * r.per_operation <= answered) {
    listener_.operation_ended(now, r.transfer + r.ended++);
  }
}

}  // namespace weft::sim
