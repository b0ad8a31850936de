// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/bicc/stage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "switch/base/counter_news.h"
#include "switch/pipeline/set_words.h"
#include "switch/wire/hash.h"
#include "switch/wire/headers.h"
#include "switch/wire/packet_addresses.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PacketMeta;

namespace {

constexpr std::uint32_t kFrameOverhead = 24;  // preamble, FCS, gap
constexpr auto kReadRequest = static_cast<std::uint8_t>(wire::Opcode::RC_RDMA_READ_REQUEST);
constexpr auto kAcknowledge = static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE);
constexpr Follows<BiccCounter, BiccCounters> kBiccFollows[] = {
    {BiccCounter::packets_held, &BiccCounters::held},
    {BiccCounter::untracked, &BiccCounters::untracked},
    {BiccCounter::flushed, &BiccCounters::flushed},
    {BiccCounter::written_off, &BiccCounters::written_off},
};

rte_mbuf* mbuf_of(BiccPacket number) noexcept {
  return reinterpret_cast<rte_mbuf*>(number);
}

class ResumeInTurn final : public BiccSink {
 public:
  ResumeInTurn(Context& context, BiccStage& stage) : context_(context), stage_(stage) {}
  [[nodiscard]] bool reserve(BiccPacket packet) noexcept override {
    return stage_.charge().take(context_, mbuf_of(packet));
  }
  void release(BiccPacket packet) noexcept override {
    stage_.charge().go_on(context_, mbuf_of(packet));
    any_ = true;
  }
  [[nodiscard]] bool any() const noexcept { return any_; }

 private:
  Context& context_;
  BiccStage& stage_;
  bool any_ = false;
};

// A receiver's address as one word that is not 0: of an IPv6 address a hash.
std::uint64_t receiver_of(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (!parsed.has(wire::ParsedFlag::ipv6)) return parsed.address_key & 0xffffffff;
  const std::uint8_t* destination = pipeline::frame(m) + parsed.l3_offset + tables::QpTable::kV6Addresses + 16;
  return wire::hash_v6(destination, destination).ordered | std::uint64_t{1} << 63;
}

}  // namespace

BiccStage::BiccStage(const pipeline::StageBuild& build)
    : options_(bicc_options(build.options)),
      unit_(options_.settings),
      known_(build),
      worker_(build.worker),
      charge_(options_.charge) {}

// Resumed packets follow the batch, so once one has been resumed, all that come behind it are resumed as well.
void BiccStage::ingress(Context& context, Batch& batch) {
  if (!options_.enabled && !releasing_) return;
  ResumeInTurn sink(context, *this);
  let_go(sink);
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    BiccVerdict verdict = BiccVerdict::pass;
    if (options_.enabled && pipeline::meta(m).parsed.kind == wire::FrameKind::roce) verdict = on_roce(context, m, sink);
    if (verdict == BiccVerdict::pass && !sink.any()) [[likely]]
      continue;
    batch.remove(i);
    if (verdict != BiccVerdict::held) context.resume(m);
  }
  publish();
  context.at(deadline(0));
}

BiccVerdict BiccStage::on_roce(Context& context, const rte_mbuf* m, BiccSink& sink) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (kRcRequests[parsed.opcode] && options_.remote.left_by(parsed, pipeline::frame(m))) {
    return on_request(context, m, sink);
  }
  if (kRcResponses[parsed.opcode] && options_.remote.entered_by(parsed, pipeline::frame(m))) {
    on_answer(context, m, sink);
  }
  return BiccVerdict::pass;
}

// A READ request brings no data here, and takes PSNs for what comes back: it does not count, but keeps its place.
BiccVerdict BiccStage::on_request(Context& context, const rte_mbuf* m, BiccSink& sink) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  count(BiccCounter::requests);
  const bool known = known_.known(pm);
  if (!known) count(BiccCounter::unknown_qp);
  return unit_.on_request(context.now,
                          {.destination = receiver_of(m),
                           .name = wire::flow_name(pm.parsed),
                           .acknowledged = known && pm.parsed.opcode != kReadRequest,
                           .psn = pm.parsed.psn,
                           .bytes = m->pkt_len + kFrameOverhead,
                           .packet = reinterpret_cast<BiccPacket>(m)},
                          sink);
}

// READ and ATOMIC responses acknowledge what they answer, and all before it.
void BiccStage::on_answer(Context& context, const rte_mbuf* m, BiccSink& sink) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const QpView qp = known_.tracker().view(pm.qp_handle, pm.parsed, pipeline::frame(m) + pm.parsed.l3_offset);
  if (!qp || qp.peer == nullptr || !known_.counts(*qp.entry)) return;
  const wire::FlowName name = wire::answered_flow_name(pm.parsed, pipeline::frame(m), qp.peer->dest_qp().value());
  if (pm.parsed.opcode != kAcknowledge || wire::Syndrome(pm.parsed.syndrome).is_ack()) {
    unit_.on_ack(context.now, name, pm.parsed.psn, sink);
  } else {
    unit_.on_nak(context.now, name, sink);
  }
}

void BiccStage::on_timer(Context& context, std::uint32_t) {
  ResumeInTurn sink(context, *this);
  let_go(sink);
  unit_.on_timer(context.now, sink);
  publish();
  context.at(deadline(0));
}

// What is held when the stage was told to stop.
void BiccStage::let_go(BiccSink& sink) noexcept {
  if (!releasing_) return;
  unit_.release_all(sink);
  releasing_ = false;
}

// The unit's counters begin anew with each unit; ours go on.
void BiccStage::publish() noexcept {
  const BiccCounters& now = unit_.counters();
  add_news(counters_, kBiccFollows, now, told_);
  counters_.set(BiccCounter::held_bytes, unit_.held_bytes());
  counters_.set(BiccCounter::most_held_bytes, std::max(value(BiccCounter::most_held_bytes), now.most_bytes));
  counters_.set(BiccCounter::longest_hold_ns, std::max(value(BiccCounter::longest_hold_ns), now.longest_hold_ns));
}

void BiccStage::flush(Context& context) {
  ResumeInTurn sink(context, *this);
  unit_.release_all(sink);
  releasing_ = false;
  publish();
}

void BiccStage::adopt(Context& context, pipeline::Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<BiccStage&>(old_stage);
  if (!adoption.same_options) return;
  std::swap(unit_, old.unit_);
  std::swap(told_, old.told_);
  std::swap(releasing_, old.releasing_);
  if (adoption.ports.identity()) return;
  // Of a flow that came in through a port that is gone nothing stays; the others keep their places.
  unit_.remove_if([&](BiccPacket packet) { return !charge_.take_along(context, mbuf_of(packet), adoption); },
                  [](BiccPacket /*packet*/) {});
}

void BiccStage::for_each_charged(const std::function<void(rte_mbuf*)>& use) const {
  if (charge_.charges()) unit_.for_each([&](BiccPacket packet) { use(mbuf_of(packet)); });
}

void BiccStage::set_options(bool enabled, std::uint64_t limit_bytes, TimeNs stale_ns) noexcept {
  options_.enabled = enabled;
  unit_.set_limits(limit_bytes, stale_ns);
  options_.settings = unit_.settings();
  releasing_ = !enabled && unit_.held() != 0;
}

namespace {

pipeline::OptionChange set_bicc(const config::Value& options, const pipeline::SwitchInfo& info,
                                const std::vector<std::string>& words, std::uint16_t workers) {
  pipeline::OptionChange change =
      pipeline::set_by_words("bicc", bicc_options_schema(), check_bicc_options, options, info, words);
  if (!change.error.empty()) return change;
  change.remake = false;
  const BiccOptions before = bicc_options(options), after = bicc_options(change.options);
  const BiccSettings &a = before.settings, &b = after.settings;
  if (a.buffer_bytes != b.buffer_bytes || a.max_packets != b.max_packets || a.destinations != b.destinations ||
      a.flows != b.flows || before.charge != after.charge || before.remote.prefixes != after.remote.prefixes ||
      options["accept"].string() != change.options["accept"].string()) {
    change.error = "bicc: enabled, in_flight_kb and stale_us change while it works, all else by a reload";
    return change;
  }
  for (std::uint16_t w = 0; w < workers; ++w) {
    change.apply.push_back([enabled = after.enabled, b](pipeline::Stage& stage) {
      static_cast<BiccStage&>(stage).set_options(enabled, b.limit_bytes, b.stale_ns);
    });
  }
  return change;
}

}  // namespace

pipeline::StageType bicc_stage_type() {
  pipeline::StageType type;
  type.name = "bicc";
  type.summary =
      "Lets no more of what comes from other data centres be under way to a host than a round trip inside carries "
      "(BiCC).";
  type.needs = {"parsed", "qp"};
  type.before = {{"l2", "what it holds has not been forwarded yet"},
                 {"l3", "what it holds has not been forwarded yet"}};
  type.holds_packets = true;
  type.options = bicc_options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/bicc/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_bicc_options;
  type.set = set_bicc;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<BiccStage>(build);
  };
  return type;
}

}  // namespace weft::stages
