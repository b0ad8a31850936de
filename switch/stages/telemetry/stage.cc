// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/telemetry/stage.h"

#include <algorithm>
#include <string>

#include "switch/pipeline/edit_int.h"
#include "switch/wire/hash.h"

namespace weft::stages {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::Context;
using pipeline::PortIndex;

namespace {

constexpr std::uint32_t kSlowestMbps = wire::kIntSpeedsMbps[1];

std::uint64_t speed_of(const pipeline::PortInfo& port, const Value& options) {
  if (port.rate_mbps != 0) return port.rate_mbps;
  return options.has("link_mbps") ? options["link_mbps"].unsigned_integer() : 1;
}

void check_telemetry(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  for (const pipeline::PortInfo& port : info.ports) {
    if (port.rate_mbps == 0 && !options.has("link_mbps")) {
      diagnostics.error(options.mark(),
                        "telemetry: port '" + port.name + "' has no rate_mbps: 'link_mbps' says what such links carry");
    }
    if (port.rate_mbps != 0 && wire::int_speed_code(port.rate_mbps) == 0) {
      diagnostics.note(options.mark(), "telemetry: port '" + port.name + "' has rate_mbps " +
                                           std::to_string(port.rate_mbps) + ": RNICs do not heed ports below " +
                                           std::to_string(kSlowestMbps) + " Mbit/s");
    }
  }
}

}  // namespace

TelemetryStage::TelemetryStage(const pipeline::StageBuild& build) {
  for (const pipeline::PortInfo& port : build.info.ports) {
    const std::uint64_t mbps = speed_of(port, build.options);
    const auto path = static_cast<std::uint8_t>(wire::mix64(build.info.seed, port.index + 0x9e3779b97f4a7c15) >> 40);
    // Whose queues, rate or delay the switch itself makes has one owner, which alone sends.
    const bool owned = build.workers == 1 || build.info.qos || port.rate_mbps != 0 || port.delay_ns != 0;
    ports_.push_back({SlotClock(mbps), port.framing, wire::int_speed_code(mbps), path, owned});
  }
}

void TelemetryStage::egress(Context& context, PortIndex port, Batch& batch) {
  Port& p = ports_[port];
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* const m = batch.packet[i];
    p.sent += p.framing.bytes_of(m->pkt_len);
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    if (!parsed.has(wire::ParsedFlag::ip_options) || parsed.kind != wire::FrameKind::roce) [[likely]]
      continue;
    if (!parsed.has(wire::ParsedFlag::ipv6)) stamp(context, port, m);
  }
}

void TelemetryStage::stamp(const Context& context, PortIndex port, rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  std::uint8_t* const option = wire::find_int_option(pipeline::frame(m) + parsed.l3_offset);
  if (option == nullptr) return count(TelemetryCounter::other_options);
  if (wire::int_kind(option) != wire::IntKind::collects) return;
  const Port& p = ports_[port];
  if (!p.owned) return count(TelemetryCounter::not_owned);
  if ((option[2] & 15) >= wire::kIntHops) return count(TelemetryCounter::full);
  const std::uint64_t queue = context.queued_bytes(port) / wire::kIntQueueBytes;
  const wire::IntHop hop{p.speed, p.clock.at(context.now), static_cast<std::uint16_t>(p.sent / wire::kIntSlotBytes),
                         static_cast<std::uint16_t>(std::min<std::uint64_t>(queue, wire::kIntMaxQueue))};
  const bool done =
      pipeline::edit_int(m, option, [&](std::uint8_t* at) { static_cast<void>(wire::append_int(at, hop, p.path)); });
  count(done ? TelemetryCounter::records : TelemetryCounter::no_buffer);
}

void TelemetryStage::adopt(Context& /*context*/, pipeline::Stage& old, const pipeline::Adoption& adoption) {
  const auto& before = dynamic_cast<const TelemetryStage&>(old);
  for (std::size_t i = 0; i < before.ports_.size(); ++i) {
    const PortIndex now = adoption.ports(static_cast<PortIndex>(i));
    if (now != pipeline::kNoPort) ports_[now].sent = before.ports_[i].sent;
  }
}

pipeline::StageType telemetry_stage_type() {
  pipeline::StageType type;
  type.name = "telemetry";
  type.summary = "Writes into RoCE packets that ask for it how busy the ports are through which they leave (HPCC).";
  type.has_ingress = false;
  type.has_egress = true;
  type.needs = {"parsed"};
  type.options = Schema::map({Schema::Key::optional_key("link_mbps", Schema::integer(kSlowestMbps, 10'000'000),
                                                        "What links carry whose ports have no rate_mbps, in Mbit/s.")});
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/telemetry/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_telemetry;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* /*shared*/) {
    return std::make_unique<TelemetryStage>(build);
  };
  return type;
}

}  // namespace weft::stages
