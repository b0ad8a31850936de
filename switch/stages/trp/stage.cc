// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/stage.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "switch/base/counter_news.h"
#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/made_frame.h"
#include "switch/pipeline/set_words.h"
#include "switch/wire/headers.h"
#include "switch/wire/packet_addresses.h"
#include "switch/wire/source_cnp.h"
#include "switch/wire/telemetry.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PacketMeta;

namespace {

constexpr auto kCnp = static_cast<std::uint8_t>(wire::Opcode::CNP);
constexpr std::uint32_t kWireOverhead = 24;  // preamble, FCS, gap
// Of CNPs, as ConnectX sends them: DSCP 48.
constexpr std::uint8_t kCnpTos = wire::make_tos(48, wire::Ecn::ect0);

// Held are requests and all responses: an ACK must not overtake the READ responses before it.
constexpr std::array<bool, 256> kRcPackets = [] {
  std::array<bool, 256> packets{};
  for (unsigned i = 0; i < packets.size(); ++i) packets[i] = kRcRequests[i] || kRcResponses[i];
  return packets;
}();

constexpr Follows<TrpCounter, TrpCounters> kFollows[] = {
    {TrpCounter::flows_throttled, &TrpCounters::throttled}, {TrpCounter::flows_recovered, &TrpCounters::recovered},
    {TrpCounter::packets_held, &TrpCounters::held},         {TrpCounter::loops, &TrpCounters::loops},
    {TrpCounter::flushed, &TrpCounters::flushed},
};

TrpPacket number_of(const rte_mbuf* m) noexcept {
  return reinterpret_cast<TrpPacket>(m);
}
rte_mbuf* packet_of(TrpPacket number) noexcept {
  return reinterpret_cast<rte_mbuf*>(number);
}

// Requests whose acknowledgement is an ACK, by opcode: the answer to a READ or an atomic brings data.
constexpr std::array<bool, 256> kSends = [] {
  std::array<bool, 256> packets = kRcRequests;
  using wire::Opcode;
  for (const Opcode answered : {Opcode::RC_RDMA_READ_REQUEST, Opcode::RC_CMP_SWAP, Opcode::RC_FETCH_ADD}) {
    packets[static_cast<std::uint8_t>(answered)] = false;
  }
  return packets;
}();

constexpr auto kAck = static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE);

class Resume final : public TrpSink {
 public:
  Resume(Context& context, TrpStage& stage) : context_(context), stage_(stage) {}
  [[nodiscard]] bool reserve(TrpPacket packet) noexcept override {
    return stage_.charge().take(context_, packet_of(packet));
  }
  void release(TrpPacket packet) noexcept override {
    stage_.on_left(context_.now, packet_of(packet));
    stage_.charge().go_on(context_, packet_of(packet));
  }
  void passed_loop(TrpPacket packet, TrpFlow& flow, std::uint64_t queued) noexcept override {
    stage_.on_passed_loop(context_, packet_of(packet), flow, queued);
  }

 private:
  Context& context_;
  TrpStage& stage_;
};

class Append final : public TrpSink {
 public:
  explicit Append(std::vector<TrpPacket>& list) : list_(list) {}
  void release(TrpPacket packet) noexcept override { list_.push_back(packet); }

 private:
  std::vector<TrpPacket>& list_;
};

// The option of telemetry of a packet's IP header; nullptr: none.
const std::uint8_t* int_option_of(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (!parsed.has(wire::ParsedFlag::ip_options) || parsed.has(wire::ParsedFlag::ipv6)) return nullptr;
  return wire::find_int_option(static_cast<const std::uint8_t*>(pipeline::frame(m)) + parsed.l3_offset);
}

}  // namespace

TrpStage::TrpStage(const pipeline::StageBuild& build)
    : options_(trp_options(build.options)),
      unit_(options_.settings),
      signals_(options_.signals),
      known_(build),
      worker_(build.worker),
      charge_(options_.charge) {}

// Resumed packets follow the batch, so once one has been resumed, all that come behind it are resumed as well.
void TrpStage::ingress(Context& context, Batch& batch) {
  if (!options_.enabled && released_.empty()) return;
  const bool was_busy = unit_.busy();
  bool resuming = !released_.empty();
  resume_released(context);
  Resume sink(context, *this);
  const bool watches = options_.sources.telemetry || options_.sources.rtt;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    TrpVerdict verdict = TrpVerdict::pass;
    if (options_.enabled && parsed.kind == wire::FrameKind::roce) {
      if (parsed.opcode == kCnp || unit_.busy() || watches) [[unlikely]]
        verdict = on_roce(context, m, sink);
    }
    if (verdict == TrpVerdict::pass && !resuming) [[likely]]
      continue;
    batch.remove(i);
    if (verdict == TrpVerdict::held) continue;
    resuming = true;
    context.resume(m);
  }
  if (!was_busy && !unit_.busy()) return;
  publish();
  context.at(deadline(0));
}

TrpVerdict TrpStage::on_roce(Context& context, rte_mbuf* m, TrpSink& sink) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (parsed.opcode == kCnp) [[unlikely]] {
    if (options_.sources.cnp) on_cnp(context, m);
    return TrpVerdict::pass;
  }
  if (options_.sources.telemetry || options_.sources.rtt) {
    if (parsed.opcode == kAck) on_answer(context, m);
    if (options_.sources.telemetry && kSends[parsed.opcode]) {
      const std::uint8_t* option = int_option_of(m);
      const bool collects = option != nullptr && wire::int_kind(option) == wire::IntKind::collects;
      if (collects && from_remote(m)) signals_.on_records(context.now, name_of(parsed), wire::int_hops(option));
    }
  }
  TrpVerdict verdict = TrpVerdict::pass;
  if (unit_.busy() && kRcPackets[parsed.opcode] && (options_.hold_acks || parsed.opcode != kAck)) {
    verdict = unit_.on_data(context.now, name_of(parsed), number_of(m), m->pkt_len + kWireOverhead, sink);
  }
  if (verdict != TrpVerdict::held) on_left(context.now, m);
  return verdict;
}

bool TrpStage::to_remote(const rte_mbuf* m) const noexcept {
  return options_.remote.entered_by(pipeline::meta(m).parsed, pipeline::frame(m));
}
bool TrpStage::from_remote(const rte_mbuf* m) const noexcept {
  return options_.remote.left_by(pipeline::meta(m).parsed, pipeline::frame(m));
}

wire::FlowName TrpStage::name_of(const wire::Parsed& parsed) const noexcept {
  wire::FlowName name = wire::flow_name(parsed);
  if (options_.by_pair) name.dest_qp = 0;
  return name;
}

void TrpStage::on_left(TimeNs now, const rte_mbuf* m) noexcept {
  if (!options_.sources.rtt) return;
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (!kSends[parsed.opcode] || !from_remote(m)) return;
  signals_.on_left(now, name_of(parsed), parsed.psn, parsed.has(wire::ParsedFlag::ack_req));
}

// A mark that the packet has already says no more than another one would.
void TrpStage::on_passed_loop(Context& context, rte_mbuf* m, TrpFlow& flow, std::uint64_t queued) noexcept {
  const TrpLoopEcn& ecn = options_.loop_ecn;
  if (!wire::is_ect(pipeline::meta(m).parsed.tos) || !ecn.mark.hit(queued, context.rng.next())) return;
  count(TrpCounter::loop_marked);
  if (!ecn.notify) return pipeline::mark_ce(m);
  if (context.now < flow.told_until) return;
  if (!tell_source(context, m)) return pipeline::mark_ce(m);
  flow.told_until = context.now + ecn.cnp_interval_ns;
}

// False: its source's queue pair is not known, or there is no buffer.
bool TrpStage::tell_source(Context& context, const rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const QpView qp = known_.tracker().view(pm.qp_handle, pm.parsed, pipeline::frame(m) + pm.parsed.l3_offset);
  if (!qp || qp.peer == nullptr || !known_.counts(*qp.entry)) return false;
  rte_mbuf* const made = pipeline::make_frame(context, wire::kMaxEmittedBytes, [&](std::span<std::uint8_t> out) {
    const auto to = wire::source_cnp_addressing(pipeline::frame(m), pm.parsed, kCnpTos);
    return wire::write_cnp(out, to, qp.peer->dest_qp());
  });
  if (made == nullptr) return false;
  count(TrpCounter::loop_cnps_sent);
  context.resume(made);
  return true;
}

void TrpStage::on_cnp(Context& context, const rte_mbuf* m) noexcept {
  if (!to_remote(m)) return;
  count(TrpCounter::cnps_seen);
  wire::FlowName name;
  if (!find_flow(m, name)) return count(TrpCounter::cnps_unpaired);
  if (!unit_.on_cnp(context.now, name)) count(TrpCounter::cnps_no_room);
}

// An ACK or NAK of a receiver here. Of a flow that is not known nothing is slowed down.
void TrpStage::on_answer(Context& context, const rte_mbuf* m) noexcept {
  wire::FlowName name;
  if (!to_remote(m) || !find_flow(m, name)) return;
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  bool congested = false;
  if (options_.sources.telemetry) {
    const std::uint8_t* option = int_option_of(m);
    if (option != nullptr && wire::int_kind(option) == wire::IntKind::echo) {
      congested = signals_.on_echo(context.now, name, wire::read_int(option));
    }
  }
  if (options_.sources.rtt) {
    const bool ack = wire::Syndrome(parsed.syndrome).is_ack();
    congested = signals_.on_answer(context.now, name, parsed.psn, ack) || congested;
  }
  if (!congested) return;
  count(TrpCounter::signals_seen);
  if (!unit_.on_cnp(context.now, name)) count(TrpCounter::cnps_no_room);
}

// The flow that a CNP or an answer is about: data to the queue pair whose peer that goes to.
bool TrpStage::find_flow(const rte_mbuf* answer, wire::FlowName& name) const noexcept {
  const PacketMeta& pm = pipeline::meta(answer);
  name = wire::answered_flow_name(pm.parsed, pipeline::frame(answer), 0);
  if (options_.by_pair) return true;
  const QpView qp = known_.tracker().view(pm.qp_handle, pm.parsed, pipeline::frame(answer) + pm.parsed.l3_offset);
  if (!qp || qp.peer == nullptr || !known_.counts(*qp.entry)) return false;
  name.dest_qp = qp.peer->dest_qp().value();
  return true;
}

void TrpStage::on_timer(Context& context, std::uint32_t) {
  resume_released(context);
  Resume sink(context, *this);
  unit_.on_timer(context.now, sink);
  publish();
  context.at(deadline(0));
}

void TrpStage::resume_released(Context& context) noexcept {
  for (const TrpPacket packet : released_) charge_.go_on(context, packet_of(packet));
  released_.clear();
}

void TrpStage::for_each_charged(const std::function<void(rte_mbuf*)>& use) const {
  if (!charge_.charges()) return;
  unit_.for_each([&](TrpPacket packet) { use(packet_of(packet)); });
  for (const TrpPacket packet : released_) use(packet_of(packet));
}

// The unit's counters begin anew with each unit; ours go on.
void TrpStage::publish() noexcept {
  const TrpCounters& now = unit_.counters();
  add_news(counters_, kFollows, now, told_);
  count(TrpCounter::flows_evicted, unit_.store().evicted() - evicted_told_);
  evicted_told_ = unit_.store().evicted();
  counters_.set(TrpCounter::held_bytes, unit_.held_bytes());
  counters_.set(TrpCounter::most_held_bytes, std::max(value(TrpCounter::most_held_bytes), now.most_bytes));
  counters_.set(TrpCounter::longest_hold_ns, std::max(value(TrpCounter::longest_hold_ns), now.longest_hold_ns));
}

void TrpStage::flush(Context& context) {
  resume_released(context);
  Resume sink(context, *this);
  unit_.release_all(sink);
  publish();
}

void TrpStage::adopt(Context& context, pipeline::Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<TrpStage&>(old_stage);
  if (!adoption.same_options) return;
  std::swap(unit_, old.unit_);
  std::swap(signals_, old.signals_);
  std::swap(told_, old.told_);
  std::swap(evicted_told_, old.evicted_told_);
  std::swap(released_, old.released_);
  if (adoption.ports.identity()) return;
  // Of a flow that came in through a port that is gone nothing stays; the others keep their places.
  unit_.remove_if([&](TrpPacket packet) { return !charge_.take_along(context, packet_of(packet), adoption); },
                  [](TrpPacket /*packet*/) {});
  std::erase_if(released_, [&](TrpPacket packet) { return !charge_.take_along(context, packet_of(packet), adoption); });
}

void TrpStage::set_options(TrpOptions& options, TrpUnit& unit, TrpSignals& signals,
                           std::vector<TrpPacket>& room) noexcept {
  room.assign(released_.begin(), released_.end());
  std::swap(released_, room);
  Append sink(released_);
  unit_.release_all(sink);
  publish();
  std::swap(options_, options);
  std::swap(unit_, unit);
  std::swap(signals_, signals);
  told_ = unit_.counters();
  evicted_told_ = unit_.store().evicted();
  counters_.set(TrpCounter::held_bytes, 0);
}

namespace {

pipeline::OptionChange set_trp(const config::Value& options, const pipeline::SwitchInfo& info,
                               const std::vector<std::string>& words, std::uint16_t workers) {
  pipeline::OptionChange change =
      pipeline::set_by_words("trp", trp_options_schema(), check_trp_options, options, info, words);
  if (!change.error.empty()) return change;
  change.remake = false;
  struct New {
    TrpOptions options;
    TrpUnit unit;
    TrpSignals signals;
    std::vector<TrpPacket> room{};
  };
  const TrpOptions read = trp_options(change.options);
  if (read.charge != trp_options(options).charge) {
    change.error = "charge: what is held was charged by it; it changes with a reload alone";
    return change;
  }
  const std::size_t most = 2 * std::size_t{trp_options(options).settings.max_packets};
  for (std::uint16_t w = 0; w < workers; ++w) {
    // The exchange leaves the old options and unit in `made`: they are freed with this function, not on the worker.
    auto made = std::make_shared<New>(New{read, TrpUnit(read.settings), TrpSignals(read.signals)});
    made->room.reserve(most);
    change.apply.push_back([made](pipeline::Stage& stage) {
      static_cast<TrpStage&>(stage).set_options(made->options, made->unit, made->signals, made->room);
    });
  }
  return change;
}

}  // namespace

pipeline::StageType trp_stage_type() {
  pipeline::StageType type;
  type.name = "trp";
  type.summary =
      "Slows flows from other data centres down near their destination while their sources have not heard of "
      "congestion (long-haul THEMIS).";
  type.needs = {"parsed", "qp"};
  type.before = {{"l2", "what it holds has not been forwarded yet"},
                 {"l3", "what it holds has not been forwarded yet"}};
  type.holds_packets = true;
  type.options = trp_options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/trp/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_trp_options;
  type.set = set_trp;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<TrpStage>(build);
  };
  return type;
}

}  // namespace weft::stages
