// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lldp/stage.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/wire/headers.h"
#include "switch/wire/parse.h"

namespace weft::stages {

using config::Schema;
using config::Value;
using nlohmann::ordered_json;
using pipeline::Batch;
using pipeline::Context;
using pipeline::PortIndex;

namespace {

/// One that is never wrong, whichever port is first: as lldpd, a switch is called by one of its own addresses.
wire::MacAddress chassis_of(const pipeline::SwitchInfo& info) {
  wire::MacAddress least = wire::MacAddress::from_u64(0xffffffffffff);
  for (const pipeline::PortInfo& port : info.ports) {
    if (!port.mac.is_zero() && port.mac.to_u64() < least.to_u64()) least = port.mac;
  }
  return least;
}

void check_lldp(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  if (info.kernel) {
    diagnostics.error(options.mark(),
                      "lldp: the kernel has interfaces of these ports (kernel:): lldpd speaks LLDP there, and two that "
                      "do contradict each other");
  }
}

}  // namespace

LldpStage::LldpStage(const pipeline::StageBuild& build)
    : info_(build.info),
      sends_(build.worker == 0),
      interval_ns_(build.options["interval_s"].integer() * 1'000'000'000),
      // As clause 9.2.5.22: one more than what was held for, so that the last moment counts.
      ttl_s_(static_cast<std::uint16_t>(
          std::min<std::int64_t>(65'535, build.options["interval_s"].integer() * build.options["hold"].integer() + 1))),
      chassis_(chassis_of(build.info)),
      up_(build.info.ports.size(), true),
      neighbours_(build.info.ports.size()) {}

TimeNs LldpStage::deadline(std::uint32_t token) const {
  if (token == kExpire) return neighbours_.next_deadline();
  return sends_ ? next_send_ : kNever;
}

void LldpStage::on_timer(Context& context, std::uint32_t token) {
  if (token == kExpire) {
    neighbours_.on_timer(context.now);
    counters_.set(LldpCounter::neighbours, neighbours_.count());
    return context.at(neighbours_.next_deadline(), kExpire);
  }
  for (const pipeline::PortInfo& port : info_.ports) say(context, port.index);
  next_send_ = context.now + interval_ns_;
  context.at(next_send_, kSend);
}

/// Who comes up is told at once; who went down is nobody's neighbour.
void LldpStage::on_links(Context& context) {
  for (const pipeline::PortInfo& port : info_.ports) {
    const bool up = context.link_up(port.index);
    if (up == up_[port.index]) continue;
    up_[port.index] = up;
    if (!up) neighbours_.forget(port.index);
    if (up && sends_) say(context, port.index);
  }
  counters_.set(LldpCounter::neighbours, neighbours_.count());
}

void LldpStage::say(Context& context, PortIndex port) noexcept {
  if (!context.link_up(port)) return;
  rte_mbuf* m = context.generate();
  if (m == nullptr) return count(LldpCounter::no_buffer);
  const pipeline::PortInfo& info = info_.ports[port];
  std::uint8_t frame[wire::kLldpFrameBytes];
  const std::size_t bytes = wire::write_lldp(frame, {chassis_, info.mac, ttl_s_, info.name, info_.name});
  std::copy_n(frame, bytes, reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes))));
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
  count(LldpCounter::sent);
  context.send(m, port);
}

void LldpStage::ingress(Context& context, Batch& batch) {
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* const m = batch.packet[i];
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    if (parsed.kind != wire::FrameKind::other || parsed.has(wire::ParsedFlag::vlan_tagged)) [[likely]]
      continue;
    if (m->data_len < sizeof(wire::EthernetHeader)) continue;
    const auto& eth = wire::header_at<wire::EthernetHeader>(pipeline::frame(m));
    if (eth.ethertype.value() == wire::EtherType::lldp) hear(context, batch, i);
  }
}

void LldpStage::hear(Context& context, Batch& batch, std::uint16_t i) noexcept {
  rte_mbuf* const m = batch.packet[i];
  const PortIndex port = pipeline::meta(m).in_port;
  const auto unit = wire::read_lldp({pipeline::frame(m), m->data_len});
  if (!unit || port >= info_.ports.size()) {
    count(LldpCounter::malformed);
    return context.consume(batch, i);
  }
  count(LldpCounter::received);
  const auto heard = neighbours_.on_unit(context.now, port, *unit);
  if (heard == LldpNeighbours::Heard::no_room) count(LldpCounter::no_room);
  counters_.set(LldpCounter::neighbours, neighbours_.count());
  context.at(neighbours_.next_deadline(), kExpire);
  // A newcomer does not know us, and would wait for a whole interval.
  if (heard == LldpNeighbours::Heard::fresh) say(context, port);
  context.consume(batch, i);
}

void LldpStage::adopt(Context& /*context*/, pipeline::Stage& old, const pipeline::Adoption& adoption) {
  const auto& before = dynamic_cast<const LldpStage&>(old);
  for (std::size_t i = 0; i < before.neighbours_.ports(); ++i) {
    const PortIndex now = adoption.ports(static_cast<PortIndex>(i));
    if (now == pipeline::kNoPort) continue;
    neighbours_.take(now, before.neighbours_, i);
    up_[now] = before.up_[i];
  }
  // Its name, addresses or interval may be others: neighbours hear of it at once.
  next_send_ = 0;
}

ordered_json LldpStage::neighbour_row(std::size_t port, const LldpNeighbour& n) const {
  return {{"port", info_.ports[port].name},
          {"system", lldp_plain_text(n.system.view())},
          {"chassis", lldp_chassis_text(n.chassis_kind, n.chassis.view())},
          {"peer_port", lldp_port_text(n.port_kind, n.port.view())},
          {"peer_description", lldp_plain_text(n.port_description.view())},
          {"ttl_s", (n.until - n.heard) / 1'000'000'000}};
}

ordered_json LldpStage::port_row(std::size_t port) const {
  ordered_json addresses = ordered_json::array();
  for (const pipeline::InterfaceAddress& a : info_.addresses) {
    if (a.port == port) addresses.push_back(a.prefix.to_string());
  }
  return {{"port", info_.ports[port].name},
          {"mac", info_.ports[port].mac.to_string()},
          {"chassis", "mac " + chassis_.to_string()},
          {"rate_mbps", info_.ports[port].rate_mbps},
          {"addresses", std::move(addresses)}};
}

ordered_json LldpStage::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  ordered_json out = ordered_json::array();
  const std::size_t places = neighbours_.ports() * LldpNeighbours::kPerPort;
  // Of what all workers would say alike, one does.
  const std::size_t end = table == "lldp" ? places : sends_ ? info_.ports.size() : 0;
  for (; cursor < end && out.size() < max; ++cursor) {
    if (table != "lldp") {
      out.push_back(port_row(cursor));
      continue;
    }
    const std::size_t port = cursor / LldpNeighbours::kPerPort;
    const LldpNeighbour& n = neighbours_.of(port)[cursor % LldpNeighbours::kPerPort];
    if (n.until != 0) out.push_back(neighbour_row(port, n));
  }
  if (cursor >= end) cursor = pipeline::StageShared::kEnd;
  return out;
}

pipeline::StageType lldp_stage_type() {
  using Key = Schema::Key;
  pipeline::StageType type;
  type.name = "lldp";
  type.summary = "Says at each port who the switch is, and hears who is at the other end (IEEE 802.1AB).";
  type.needs = {"parsed"};
  for (const char* forwarder : {"l2", "l3"}) {
    type.before.push_back({forwarder, "it takes frames that are not forwarded"});
  }
  type.options = Schema::map({
      Key::with_default("interval_s", Schema::integer(1, 3600), Value(30), "Seconds from one frame to the next."),
      Key::with_default("hold", Schema::integer(2, 10), Value(4),
                        "A neighbour forgets the switch when it has heard nothing for so many intervals."),
  });
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/lldp/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_lldp;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* /*shared*/) {
    return std::make_unique<LldpStage>(build);
  };
  return type;
}

}  // namespace weft::stages
