// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/reorder/stage.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "switch/base/counter_news.h"
#include "switch/pipeline/find.h"
#include "switch/stages/lb/go_on.h"
#include "switch/wire/headers.h"

namespace weft::stages {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::Context;
using pipeline::PacketMeta;

namespace {

constexpr auto kAcknowledge = static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE);
constexpr auto kReadRequest = static_cast<std::uint8_t>(wire::Opcode::RC_RDMA_READ_REQUEST);

ReorderRules rules_of(const Value& options, std::uint32_t flows) {
  return {.bound_ns = options["bound_us"].unsigned_integer() * 1000,
          .flows = flows,
          .max_packets = static_cast<std::uint32_t>(options["max_packets"].unsigned_integer()),
          .max_flow_packets = static_cast<std::uint32_t>(options["max_qp_packets"].unsigned_integer()),
          .max_bytes = options["max_kb"].unsigned_integer() * 1024};
}

constexpr Follows<ReorderCounter, ReorderCounts> kFollows[] = {
    {ReorderCounter::packets_held, &ReorderCounts::held}, {ReorderCounter::expired, &ReorderCounts::expired},
    {ReorderCounter::late, &ReorderCounts::late},         {ReorderCounter::overflowed, &ReorderCounts::overflowed},
    {ReorderCounter::leaps, &ReorderCounts::leaps},       {ReorderCounter::went_back, &ReorderCounts::went_back},
};
constexpr Follows<ReorderCounter, HeldRoomCounts> kRoomFollows[] = {
    {ReorderCounter::port_full, &HeldRoomCounts::port_full},
    {ReorderCounter::buffer_full, &HeldRoomCounts::group_full},
};

}  // namespace

ReorderStage::ReorderStage(const pipeline::StageBuild& build)
    : known_(build),
      buffer_(rules_of(build.options, known_.tracker().table().slots())),
      room_(build.info.ports.size(), most_port_bytes(build.options)),
      names_(known_.tracker().table().slots()),
      is_uplink_(build.info.ports.size()) {
  rules_ = rules_of(build.options, known_.tracker().table().slots());
  for (const Value& uplink : build.options["uplinks"].list()) {
    for (const pipeline::PortInfo& port : build.info.ports) {
      if (port.name == uplink.string()) is_uplink_[port.index] = true;
    }
  }
}

bool ReorderStage::may_wait(const PacketMeta& pm) const noexcept {
  return pm.parsed.kind == wire::FrameKind::roce && kRcRequests[pm.parsed.opcode] && pm.in_port < is_uplink_.size() &&
         is_uplink_[pm.in_port] && known_.known(pm);
}

// What the receiver of a flow, a host of ours, says to its sender.
void ReorderStage::hear(const PacketMeta& pm, ReorderSink& sink) noexcept {
  const wire::Syndrome syndrome(pm.parsed.syndrome);
  if (syndrome.is_ack() && !buffer_.follows_acks()) return;
  if (pm.in_port >= is_uplink_.size() || is_uplink_[pm.in_port]) return;
  const tables::QpEntry* const entry = known_.entry(pm);
  if (entry == nullptr) return;
  const std::uint32_t flow = entry->peer;
  if (names_[flow].dest_qp != known_.tracker().table().entry(flow).dest_qp().value()) return;
  if (syndrome.is_ack()) return buffer_.on_ack(flow, pm.parsed.psn, sink);
  if (syndrome.is_sequence_nak() || syndrome.is_rnr_nak()) buffer_.on_nak(flow, pm.parsed.psn);
}

void ReorderStage::take(TimeNs now, rte_mbuf* m, ReorderSink& sink) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  if (!may_wait(pm)) {
    sink.deliver(number_of(m));
    if (pm.parsed.kind == wire::FrameKind::roce && pm.parsed.opcode == kAcknowledge) hear(pm, sink);
    return;
  }
  const std::uint32_t flow = pm.qp_handle - 1;
  const Name name{pm.parsed.address_key, pm.parsed.dest_qp.value()};
  if (names_[flow] != name) {
    buffer_.forget(flow, sink);
    names_[flow] = name;
  }
  if (pm.parsed.opcode == kReadRequest) {
    counters_.add(ReorderCounter::reads);
    buffer_.forget(flow, sink);
    return sink.deliver(number_of(m));
  }
  const bool starts = wire::opcode_info(pm.parsed.opcode).starts_message();
  buffer_.on_packet(now, flow, pm.parsed.psn, starts, m->pkt_len, number_of(m), sink);
}

void ReorderStage::ingress(Context& context, Batch& batch) {
  ReorderGoOn sink(context, &room_);
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const std::uint32_t handle = pipeline::meta(batch.packet[i]).qp_handle;
    if (handle == 0 || handle > names_.size()) continue;
    __builtin_prefetch(&names_[handle - 1]);
    buffer_.prefetch(handle - 1);
  }
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    sink.begin(batch.packet[i]);
    take(context.now, batch.packet[i], sink);
    if (!sink.in_place()) batch.remove(i);
  }
  publish();
  context.at(deadline(0));
}

void ReorderStage::on_timer(Context& context, std::uint32_t) {
  ReorderGoOn sink(context, &room_);
  buffer_.on_timer(context.now, sink);
  publish();
  context.at(deadline(0));
}

void ReorderStage::flush(Context& context) {
  ReorderGoOn sink(context, &room_);
  buffer_.flush(sink);
  publish();
}

void ReorderStage::for_each_charged(const std::function<void(rte_mbuf*)>& use) const {
  buffer_.for_each([&](std::uint64_t packet) { use(packet_of(packet)); });
}

void ReorderStage::adopt(Context&, pipeline::Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<ReorderStage&>(old_stage);
  // The positions of queue pairs hold as long as the table has its size; names tell where they do not.
  if (!adoption.same_options || !adoption.ports.identity() || names_.size() != old.names_.size()) return;
  std::swap(buffer_, old.buffer_);
  std::swap(room_, old.room_);
  std::swap(names_, old.names_);
  std::swap(told_, old.told_);
  std::swap(room_told_, old.room_told_);
}

// The unit's counts begin anew with each unit; ours go on.
void ReorderStage::publish() noexcept {
  const ReorderCounts& now = buffer_.counts();
  add_news(counters_, kFollows, now, told_);
  add_news(counters_, kRoomFollows, room_.counts(), room_told_);
  counters_.set(ReorderCounter::held, buffer_.held());
  counters_.set(ReorderCounter::held_bytes, buffer_.held_bytes());
  counters_.set(ReorderCounter::peak_packets, now.peak_packets);
  counters_.set(ReorderCounter::peak_bytes, now.peak_bytes);
  counters_.set(ReorderCounter::peak_port_bytes, room_.counts().peak_port_bytes);
}

nlohmann::ordered_json ReorderStage::rows(std::string_view, std::uint64_t& cursor, std::size_t) const {
  cursor = pipeline::StageShared::kEnd;
  const ReorderCounts& counts = buffer_.counts();
  return nlohmann::ordered_json::array({{{"held", buffer_.held()},
                                         {"max_packets", rules_.max_packets},
                                         {"held_bytes", buffer_.held_bytes()},
                                         {"max_bytes", rules_.max_bytes},
                                         {"bound_us", rules_.bound_ns / 1000},
                                         {"peak_packets", counts.peak_packets},
                                         {"peak_bytes", counts.peak_bytes}}});
}

namespace {

Schema reorder_options() {
  using Key = Schema::Key;
  return Schema::map({
      Key::required_key("uplinks", Schema::list(Schema::name(), 1),
                        "Ports that lead to other switches; what comes in through them may have been overtaken."),
      Key::with_default("bound_us", Schema::integer(1, 1'000'000), Value(200),
                        "A packet waits no longer: at least the difference in delay of two paths, and less than the "
                        "retransmission timeout of the senders."),
      Key::with_default("max_packets", Schema::integer(1, 1 << 20), Value(4096),
                        "Packets that may wait at once, of each worker. What does not fit goes on at once."),
      Key::with_default("max_qp_packets", Schema::integer(1, 1 << 20), Value(512), "The same for one queue pair."),
      Key::with_default("max_kb", Schema::integer(1, 1 << 22), Value(1024), "KiB of frames that may wait at once."),
      Key::optional_key("max_port_kb", Schema::integer(1, 1 << 22),
                        "KiB of frames that came in by one port and may wait at once; default: max_kb."),
      accept_option(),
  });
}

void check_reorder(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  pipeline::check_uplink_names(options["uplinks"], info, diagnostics);
}

}  // namespace

pipeline::StageType reorder_stage_type() {
  pipeline::StageType type;
  type.name = "reorder";
  type.summary = "Puts packets of known queue pairs that overtook each other on their way back in order.";
  type.needs = {"parsed", "qp"};
  type.before = {{"l2", "what it holds has not been forwarded yet"},
                 {"l3", "what it holds has not been forwarded yet"}};
  type.holds_packets = true;
  type.options = reorder_options();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/reorder/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_reorder;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<ReorderStage>(build);
  };
  return type;
}

}  // namespace weft::stages
