// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/stage.h"

#include <sys/random.h>

#include <array>
#include <cstdlib>
#include <string>

#include "switch/pipeline/edit_int.h"
#include "switch/pipeline/made_frame.h"
#include "switch/pipeline/set_words.h"
#include "switch/wire/checksum.h"
#include "switch/wire/qcn_cnp.h"
#include "switch/wire/rtt_echo.h"
#include "switch/wire/source_cnp.h"
#include "switch/wire/telemetry_cnp.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PacketMeta;
using pipeline::PortIndex;

namespace {

constexpr wire::IpAddress kLimitedBroadcast = wire::IpAddress::v4(0xffffffff);
constexpr auto kCe = static_cast<std::uint8_t>(wire::Ecn::ce);

// Requests and responses carry data, and whoever receives a marked one sends a CNP to its sender.
constexpr std::array<bool, 256> kRcPackets = [] {
  std::array<bool, 256> packets{};
  for (unsigned i = 0; i < packets.size(); ++i) packets[i] = kRcRequests[i] || kRcResponses[i];
  return packets;
}();

PnpName name_of(const wire::Parsed& parsed) noexcept {
  return {parsed.address_key, parsed.dest_qp.value(), parsed.has(wire::ParsedFlag::ipv6)};
}

const wire::Bth& bth_of(const rte_mbuf* m) noexcept {
  return wire::header_at<wire::Bth>(pipeline::frame(m) + pipeline::meta(m).parsed.l4_offset + sizeof(wire::UdpHeader));
}

// A group has no connections (RFC 9293 3.10.7.2), and its address is not one to send from. A frame to a group may carry
// the IP address of a host all the same (RFC 1122 3.3.6). One from a group does not get past `parse`.
bool has_group_address(const rte_mbuf* m) noexcept {
  if (wire::header_at<wire::EthernetHeader>(pipeline::frame(m)).destination.is_multicast()) return true;
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const auto is_group = [](const wire::IpAddress& address) {
    return address.is_multicast() || address == kLimitedBroadcast;
  };
  return is_group(wire::source_address(parsed, pipeline::frame(m))) ||
         is_group(wire::destination_address(parsed, pipeline::frame(m)));
}

}  // namespace

PnpStage::PnpStage(const pipeline::StageBuild& build, PnpShared& shared)
    : options_(pnp_options(build.options)), known_(build), shared_(shared), worker_(build.worker) {
  if (options_.trigger == PnpTrigger::qcn) samplers_.assign(build.info.ports.size(), QcnSampler(options_.qcn));
  if (options_.monitor == PnpMonitor::passive) monitor_.emplace(options_.max_pairs);
  if (options_.monitor == PnpMonitor::cookie) {
    std::array<std::uint64_t, 2> key{};  // not from the seed, which anybody may know
    if (getrandom(key.data(), sizeof key, 0) != sizeof key) std::abort();
    cookies_.emplace(key[0], key[1]);
  }
}

void PnpStage::ingress(Context& context, Batch& batch) {
  if (!options_.enabled) return;
  if (shared_.workers() > 1) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      const rte_mbuf* m = batch.packet[i];
      const wire::Parsed& parsed = pipeline::meta(m).parsed;
      if (parsed.kind != wire::FrameKind::roce || !kRcPackets[parsed.opcode]) continue;
      const PnpName name = name_of(parsed);
      static_cast<void>(
          shared_.use(name, [&](PnpUnit& unit) { static_cast<void>(learn(context.now, m, name, unit)); }));
    }
  }
  if (options_.monitor == PnpMonitor::off) return;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    if (pipeline::meta(batch.packet[i]).parsed.kind == wire::FrameKind::tcp) on_tcp(context, batch, i);
  }
}

void PnpStage::on_tcp(Context& context, Batch& batch, std::uint16_t i) noexcept {
  const rte_mbuf* m = batch.packet[i];
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (m->data_len < parsed.l4_offset + sizeof(wire::TcpHeader)) return;
  const auto& tcp = wire::header_at<wire::TcpHeader>(pipeline::frame(m) + parsed.l4_offset);
  TcpSegment segment;
  segment.pair = unordered_pair(parsed, pipeline::frame(m) + parsed.l3_offset, segment.from_lower);
  segment.source_port = parsed.source_port;
  segment.destination_port = parsed.destination_port;
  segment.flags = tcp.flags;
  segment.sequence = tcp.sequence.value();
  segment.acknowledgement = tcp.acknowledgement.value();
  if (cookies_) {
    if (challenge(context, m, segment)) context.consume(batch, i);
    return;
  }
  const std::uint64_t evicted = monitor_->evicted();
  const bool ended = monitor_->on_segment(context.now, segment);
  count(PnpCounter::handshakes_evicted, monitor_->evicted() - evicted);
  if (ended) add_pair(context.now, segment.pair);
}

void PnpStage::add_pair(TimeNs now, std::uint64_t pair) noexcept {
  count(PnpCounter::handshakes);
  count(PnpCounter::pairs_evicted, shared_.pairs().add(now, pair) ? 1 : 0);
}

// Where there is no buffer for an answer the segment goes on. A SYN then opens its connection, and the pair stays
// unknown until the next one; an ACK reaches the server, which resets what it does not know.
bool PnpStage::challenge(Context& context, const rte_mbuf* m, const TcpSegment& s) noexcept {
  using Tcp = wire::TcpHeader;
  const int flags = s.flags & (Tcp::kSyn | Tcp::kAck | Tcp::kRst);
  if (flags != Tcp::kSyn && flags != Tcp::kAck) return false;
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  // The other data centre's switch has asked its own hosts.
  if (options_.remote.contains(wire::source_address(parsed, pipeline::frame(m)))) return false;
  if (shared_.pairs().contains(context.now, s.pair)) return false;
  if (flags == Tcp::kAck && !cookies_->answered_by(context.now, s)) return false;
  if (has_group_address(m)) {
    count(PnpCounter::group_addresses);
    return false;
  }
  if (flags == Tcp::kSyn) {
    if (!answer(context, m, Tcp::kSyn | Tcp::kAck, cookies_->of_syn(context.now, s), s.sequence + 1)) return false;
    count(PnpCounter::cookies_sent);
    return true;
  }
  add_pair(context.now, s.pair);
  if (!answer(context, m, Tcp::kRst, s.acknowledgement, 0)) return false;
  count(PnpCounter::connections_reset);
  return true;
}

bool PnpStage::answer(Context& context, const rte_mbuf* m, std::uint8_t flags, std::uint32_t sequence,
                      std::uint32_t acknowledgement) noexcept {
  rte_mbuf* made = pipeline::make_frame(context, kMaxTcpAnswerBytes, [&](std::span<std::uint8_t> out) {
    return write_tcp_answer(out, pipeline::frame(m), pipeline::meta(m).parsed, flags, sequence, acknowledgement);
  });
  if (made == nullptr) return false;
  context.resume(made);
  return true;
}

// What is known of a packet's flow lies in places of its own, which the packets of a burst wait for together. Inlined
// always: gcc takes a function that does nothing but fetch ahead for one without any effect, and leaves out its calls.
[[gnu::always_inline]] inline void PnpStage::prefetch(const rte_mbuf* m) const noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const tables::QpTable& table = known_.tracker().table();
  __builtin_prefetch(pipeline::frame(m));
  if (pm.qp_handle != 0 && pm.qp_handle <= table.slots()) __builtin_prefetch(&table.entry(pm.qp_handle - 1));
  shared_.unit().prefetch(name_of(pm.parsed));
}

// The same for the queue pair at the packet's source, of which its own entry tells.
[[gnu::always_inline]] inline void PnpStage::prefetch_peer(const rte_mbuf* m) const noexcept {
  const tables::QpEntry* const entry = known_.entry(pipeline::meta(m));
  if (entry != nullptr) __builtin_prefetch(&known_.tracker().table().entry(entry->peer));
}

void PnpStage::egress(Context& context, PortIndex port, Batch& batch) {
  if (!options_.enabled) return;
  if (options_.trigger == PnpTrigger::qcn) sample(context, port, batch);
  std::array<std::uint16_t, Batch::kCapacity> looked_at;
  std::uint16_t found = 0;
  const bool every = options_.rtt_echo, marks = options_.trigger == PnpTrigger::mark;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const wire::Parsed& parsed = pipeline::meta(batch.packet[i]).parsed;
    const bool marked = marks && (parsed.tos & kCe) == kCe;
    if ((!marked && !every && !parsed.has(wire::ParsedFlag::ip_options)) || parsed.kind != wire::FrameKind::roce)
        [[likely]]
      continue;
    looked_at[found++] = i;
    prefetch(batch.packet[i]);
  }
  if (found == 0) [[likely]]
    return;
  for (std::uint16_t n = 0; n < found; ++n) prefetch_peer(batch.packet[looked_at[n]]);
  Notices notices;
  for (std::uint16_t n = 0; n < found; ++n) leave(context, batch.packet[looked_at[n]], notices);
  carry_out(context, notices);
}

// To an RNIC that knows nothing of QCN the CNP says that there is congestion, and how often it comes how much. Of a
// packet whose source was told within the interval nothing becomes.
void PnpStage::sample(Context& context, PortIndex port, Batch& batch) noexcept {
  const std::uint64_t queue = context.queued_bytes(port);
  QcnSampler& sampler = samplers_[port];
  const std::uint64_t samples = sampler.samples();
  Notices notices;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const unsigned feedback = sampler.on_packet(m->pkt_len, queue, context.rng);
    if (feedback == 0) [[likely]]
      continue;
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    if (parsed.kind != wire::FrameKind::roce || !is_inter_dc(context.now, m)) continue;
    if (!kRcPackets[parsed.opcode]) {
      count(PnpCounter::not_rc);
      continue;
    }
    count(PnpCounter::congested_samples);
    now_ = context.now;
    std::uint32_t client_qp = 0;
    if (judge(context.now, m, client_qp) != PnpVerdict::notify) continue;
    const auto told = static_cast<std::uint8_t>(options_.qcn_feedback ? feedback : 0);
    notices.notice[notices.size++] = {m, nullptr, client_qp, told, false, true};
    ++notices.cnps;
  }
  carry_out(context, notices);
  count(PnpCounter::samples, sampler.samples() - samples);
}

void PnpStage::leave(Context& context, rte_mbuf* m, Notices& notices) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const bool marked = options_.trigger == PnpTrigger::mark && (parsed.tos & kCe) == kCe;
  std::uint8_t* const option = collecting_option(m);
  if (options_.rtt_echo && kRcRequests[parsed.opcode] && wire::is_rtt_echo(bth_of(m))) echo(context, m);
  if (marked || option != nullptr) on_feedback(context, m, marked, option, notices);
}

// Notes the queue pair at the source of a packet that belongs to this worker. The tracker says who that is now: between
// the two halves of the pipeline its entry may have gone, or become another one's.
PnpFlow* PnpStage::learn(TimeNs now, const rte_mbuf* m, const PnpName& name, PnpUnit& unit) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const QpView qp = known_.tracker().view(pm.qp_handle, pm.parsed, pipeline::frame(m) + pm.parsed.l3_offset);
  if (!qp || qp.peer == nullptr || !known_.counts(*qp.entry)) {
    unit.forget(name);
    return nullptr;
  }
  PnpUnit::Learned learned{};
  PnpFlow* const flow = unit.learn(now, options_.cnp_interval_ns, name, qp.peer->dest_qp().value(), learned);
  if (learned == PnpUnit::Learned::evicted) count(PnpCounter::flows_evicted);
  if (learned == PnpUnit::Learned::full) count(PnpCounter::table_full);
  return flow;
}

// What is known of the flow of a packet that leaves; nullptr: nothing.
PnpFlow* PnpStage::flow_of(TimeNs now, const rte_mbuf* m, const PnpName& name, PnpUnit& unit) noexcept {
  return shared_.owner(pipeline::meta(m).parsed) == worker_ ? learn(now, m, name, unit) : unit.find(name);
}

bool PnpStage::leaves_own_dc(const rte_mbuf* m) const noexcept {
  return options_.remote.entered_by(pipeline::meta(m).parsed, pipeline::frame(m));
}

// What ports have said that lie between here and a source in this data centre.
std::uint8_t* PnpStage::collecting_option(rte_mbuf* m) const noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (!options_.telemetry || !parsed.has(wire::ParsedFlag::ip_options) || parsed.has(wire::ParsedFlag::ipv6)) {
    return nullptr;
  }
  std::uint8_t* const option = wire::find_int_option(pipeline::frame(m) + parsed.l3_offset);
  if (option == nullptr || wire::int_kind(option) != wire::IntKind::collects) return nullptr;
  return wire::int_hops(option) != 0 && leaves_own_dc(m) ? option : nullptr;
}

// A request that asks for an echo leaves. What becomes of its mark is not asked here, and no interval either: sources
// ask once per round trip, and one that asks more often gets no more than it has sent.
void PnpStage::echo(Context& context, const rte_mbuf* m) noexcept {
  if (!leaves_own_dc(m)) return;
  const PnpName name = name_of(pipeline::meta(m).parsed);
  std::uint32_t client_qp = 0;
  bool known = false;
  const bool done = shared_.use(name, [&](PnpUnit& unit) {
    PnpFlow* const flow = flow_of(context.now, m, name, unit);
    known = flow != nullptr;
    if (!known) return;
    flow->used = context.now;
    client_qp = flow->client_qp;
  });
  if (!done) return count(PnpCounter::busy);
  if (!known) return count(PnpCounter::unknown_qp);
  rte_mbuf* const made = pipeline::make_frame(context, wire::kMaxEmittedBytes, [&](std::span<std::uint8_t> out) {
    return wire::write_rtt_echo(out, reply_to(m), wire::Qpn(client_qp), pipeline::meta(m).parsed.psn);
  });
  if (made == nullptr) return count(PnpCounter::no_buffer);
  context.resume(made);
  count(PnpCounter::echoes_sent);
}

bool PnpStage::is_inter_dc(TimeNs now, const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const std::uint8_t* const frame = pipeline::frame(m);
  if (options_.remote.entered_by(parsed, frame)) return true;
  if (options_.remote.left_by(parsed, frame)) return options_.any_source;
  if (options_.monitor == PnpMonitor::off) return false;
  bool from_lower = false;
  return shared_.pairs().contains(now, unordered_pair(parsed, frame + parsed.l3_offset, from_lower));
}

PnpVerdict PnpStage::judge(TimeNs now, const rte_mbuf* m, std::uint32_t& client_qp) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const PnpName name = name_of(parsed);
  PnpVerdict verdict = PnpVerdict::pass;
  const bool done = shared_.use(name, [&](PnpUnit& unit) {
    PnpFlow* const flow = flow_of(now, m, name, unit);
    if (flow != nullptr) verdict = unit.on_marked(now, options_.cnp_interval_ns, *flow, client_qp);
  });
  if (!done) {
    count(PnpCounter::busy);
  } else if (verdict == PnpVerdict::pass) {
    count(PnpCounter::unknown_qp);
  }
  return verdict;
}

void PnpStage::on_feedback(Context& context, rte_mbuf* m, bool marked, std::uint8_t* option,
                           Notices& notices) noexcept {
  if (!is_inter_dc(context.now, m)) return;
  if (!kRcPackets[pipeline::meta(m).parsed.opcode]) return count(PnpCounter::not_rc);
  count(PnpCounter::marked, marked ? 1 : 0);
  now_ = context.now;
  std::uint32_t client_qp = 0;
  const PnpVerdict verdict = judge(context.now, m, client_qp);
  if (verdict == PnpVerdict::pass) return;
  const bool notify = verdict == PnpVerdict::notify;
  const Notice notice{m, option, client_qp, 0, marked, notify};
  // Only a CNP of the same burst can fail to be sent.
  if (!notify && notices.cnps == 0) return take_feedback(notice);
  notices.notice[notices.size++] = notice;
  notices.cnps = static_cast<std::uint16_t>(notices.cnps + (notify ? 1 : 0));
}

// All packets of a flow lose their records, not only those whose records are sent back: HPCC compares what a port says
// packet by packet, as long as the ports are the same.
void PnpStage::take_feedback(const Notice& notice) noexcept {
  if (notice.marked && options_.clear_to != wire::Ecn::ce) {
    clear_mark(notice.packet);
    count(PnpCounter::marks_cleared);
  }
  if (notice.option == nullptr) return;
  const bool taken = pipeline::edit_int(notice.packet, notice.option,
                                        [](std::uint8_t* at) { wire::begin_int(at, wire::IntKind::collects); });
  count(taken ? PnpCounter::records_taken : PnpCounter::no_buffer);
}

void PnpStage::carry_out(Context& context, Notices& notices) noexcept {
  std::array<rte_mbuf*, Batch::kCapacity> made;
  // When the pool has fewer, those that it has go to the first.
  const bool enough = notices.cnps != 0 && context.generate(made.data(), notices.cnps);
  std::uint16_t used = 0;
  for (std::uint16_t i = 0; i < notices.size; ++i) {
    const Notice& n = notices.notice[i];
    if (n.notify) {
      rte_mbuf* const cnp = enough ? made[used++] : context.generate();
      if (cnp == nullptr || !write_cnp(cnp, n)) {
        if (cnp != nullptr) context.consume(cnp);
        take_back(notices, i);
        continue;
      }
      context.resume(cnp);
    }
    take_feedback(n);
  }
}

// While another worker uses the set the flow stays noted as told until its interval ends.
void PnpStage::take_back(Notices& notices, std::uint16_t at) noexcept {
  const PnpName name = name_of(pipeline::meta(notices.notice[at].packet).parsed);
  static_cast<void>(shared_.use(name, [&](PnpUnit& unit) { unit.not_notified(name); }));
  count(PnpCounter::no_buffer);
  // Packets behind it count on this CNP, up to the next one of their flow.
  for (std::uint16_t i = at + 1; i < notices.size; ++i) {
    Notice& n = notices.notice[i];
    if (name_of(pipeline::meta(n.packet).parsed) != name) continue;
    if (n.notify) break;
    n.marked = false;
    n.option = nullptr;
    count(PnpCounter::no_buffer);
  }
}

// A simulation's buffers are for headers alone: no more room is asked for than the packet needs.
bool PnpStage::write_cnp(rte_mbuf* made, const Notice& notice) noexcept {
  const wire::Parsed& parsed = pipeline::meta(notice.packet).parsed;
  wire::Parsed& cnp = pipeline::meta(made).parsed;
  const wire::Qpn qp(notice.client_qp);
  const bool plain = notice.option == nullptr && notice.feedback == 0 && !parsed.has(wire::ParsedFlag::ipv6);
  if (plain) [[likely]] {
    auto* const at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(made, wire::kSourceCnpBytes));
    if (at == nullptr) return false;
    const std::uint8_t tos = wire::make_tos(options_.cnp_dscp, wire::Ecn::ect0);
    wire::write_source_cnp({at, wire::kSourceCnpBytes}, pipeline::frame(notice.packet), parsed, tos, qp, cnp);
    count(PnpCounter::cnps_sent);
    return true;
  }
  const std::size_t room = notice.option != nullptr ? wire::kMirrorBytes : wire::kMaxEmittedBytes;
  const bool written = pipeline::write_frame(made, room, [&](std::span<std::uint8_t> out) {
    const wire::RoceAddressing to = reply_to(notice.packet);
    if (notice.option != nullptr) return wire::write_mirror(out, to, qp, wire::read_int(notice.option));
    return notice.feedback != 0 ? wire::write_qcn_cnp(out, to, qp, notice.feedback) : wire::write_cnp(out, to, qp);
  });
  if (written) count(notice.option != nullptr ? PnpCounter::mirrors_sent : PnpCounter::cnps_sent);
  return written;
}

// As the receiver's RNIC would have sent it (annex A17.9.3), from the receiver's address: ConnectX sends CNPs with UDP
// source port 0 and ECT(0).
wire::RoceAddressing PnpStage::reply_to(const rte_mbuf* m) const noexcept {
  return wire::source_cnp_addressing(pipeline::frame(m), pipeline::meta(m).parsed,
                                     wire::make_tos(options_.cnp_dscp, wire::Ecn::ect0));
}

// ECN is not covered by the ICRC.
void PnpStage::clear_mark(rte_mbuf* m) const noexcept {
  wire::Parsed& parsed = pipeline::meta(m).parsed;
  std::uint8_t* ip = pipeline::frame(m) + parsed.l3_offset;
  const auto ecn = static_cast<std::uint8_t>(options_.clear_to);
  parsed.tos = static_cast<std::uint8_t>((parsed.tos & ~kCe) | ecn);
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    // The traffic class lies across the first two bytes: its lowest two bits are bits 4 and 5 of the second.
    ip[1] = static_cast<std::uint8_t>((ip[1] & ~0x30) | ecn << 4);
  } else {
    wire::rewrite_tos(wire::header_at<wire::Ipv4Header>(ip), parsed.tos);
  }
}

void PnpStage::adopt(Context& /*context*/, pipeline::Stage& old, const pipeline::Adoption& adoption) {
  auto& before = dynamic_cast<PnpStage&>(old);
  if (adoption.same_options) std::swap(monitor_, before.monitor_);
  if (cookies_ && before.cookies_) cookies_ = before.cookies_;
}

pipeline::StageType pnp_stage_type() {
  pipeline::StageType type;
  type.name = "pnp";
  type.summary = "Sends CNPs for marks of inter-DC flows near their sources, and clears the marks (long-haul THEMIS).";
  type.has_egress = true;
  type.needs = {"parsed", "qp"};
  type.before = {{.stage = "l3", .why = "its CNPs are routed by it", .required = true}};
  type.options = pnp_options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/pnp/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_pnp_options;
  type.set = [](const config::Value& options, const pipeline::SwitchInfo& info, const std::vector<std::string>& words,
                std::uint16_t /*workers*/) {
    auto change = pipeline::set_by_words("pnp", pnp_options_schema(), check_pnp_options, options, info, words);
    for (const char* fixed : {"max_flows", "max_pairs"}) {
      if (!change.error.empty() || change.options[fixed].integer() == options[fixed].integer()) continue;
      change.error = std::string("pnp: ") + fixed + ": only a reload changes the size of a table";
    }
    return change;
  };
  type.make_shared = [](const pipeline::StageBuild& build) {
    const PnpOptions options = pnp_options(build.options);
    return std::make_unique<PnpShared>(build, options.max_flows, options.max_pairs);
  };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<PnpStage>(build, dynamic_cast<PnpShared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
