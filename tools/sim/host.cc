// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/host.h"

#include <algorithm>
#include <cstring>

#include "switch/qos/defaults.h"
#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"

namespace weft::sim {
namespace {

nic::DeviceConfig device_config(const HostPlan& plan, std::uint64_t seed, bool values) {
  // The wire paces frames: exactly, where a link speed of the device would round each to a nanosecond.
  return {.mac = plan.mac, .address = plan.address, .link_bps = 0, .check_icrc = values, .seed = seed, .cm = {}};
}

qos::PortSettings pause_settings(const HostPlan& plan) {
  qos::PortSettings settings;
  settings.pfc_enable = qos::kLosslessClasses;
  settings.speed_mbps = plan.wire.rate_mbps;
  return settings;
}

}  // namespace

Host::Host(const Parts& parts, std::uint64_t seed, Witness& witness)
    : HostWire(parts),
      witness_(witness),
      device_(device_config(parts.plan, seed, parts.values)),
      pauses_(pause_settings(parts.plan)) {}

Host::~Host() = default;

void Host::send(const nic::TxFrame& frame) noexcept {
  rte_mbuf* m = make_packet(frame.bytes());
  if (m->data_len == m->pkt_len || frame.payload->bytes == 0 || carries_values()) {
    // It is all there, and a switch may want to see that the ICRC is right.
    nic::copy_frame(frame, {pipeline::frame(m), m->data_len});
  } else {
    std::memcpy(pipeline::frame(m), frame.head.data(), frame.head.size());
  }
  witness_.host_sent(events_.now(), device_number(), m);
  transmit(m);
}

void Host::run(TimeNs now) {
  carry_due(now);
  if (paused_ != 0 && pauses_.next_end() <= now) set_paused(pauses_.paused(now));
  if (device_.next_deadline() <= static_cast<nic::Time>(now)) {
    device_.on_timer(static_cast<nic::Time>(now), *this);
    if (cq_->size() != 0) reap(now);
  }
  reschedule(now);
}

void Host::receive(TimeNs now, PortIndex /*port*/, rte_mbuf* m) {
  count_received(m);
  const std::uint8_t* frame = pipeline::frame(m);
  if (wire::header_at<wire::EthernetHeader>(frame).ethertype.value() == wire::EtherType::mac_control) [[unlikely]] {
    take_pause(now, m);
  } else {
    witness_.host_received(now, device_number(), m);
    // A payload of a few bytes that were never written is elided as well.
    constexpr std::size_t kIp = sizeof(wire::EthernetHeader);
    const std::size_t bth =
        kIp + std::size_t{wire::header_at<wire::Ipv4Header>(frame + kIp).ihl()} * 4 + sizeof(wire::UdpHeader);
    std::size_t there = m->data_len;
    if (m->data_len == m->pkt_len && !carries_values())
      there = bth + wire::opcode_info(static_cast<wire::Opcode>(frame[bth])).header_bytes;
    device_.on_packet(static_cast<nic::Time>(now), {frame, std::min<std::size_t>(there, m->data_len)}, m->pkt_len,
                      *this);
  }
  rte_pktmbuf_free(m);
  if (cq_->size() != 0) reap(now);
  reschedule(now);
}

void Host::take_pause(TimeNs now, const rte_mbuf* m) {
  ++counters_.pauses;
  pauses_.on_frame(now, {pipeline::frame(m), m->data_len});
  set_paused(pauses_.paused(now));
}

void Host::set_paused(std::uint8_t priorities) noexcept {
  static const qos::ClassMap kMap = qos::ClassMap::defaults();
  if (priorities == paused_) return;
  paused_ = priorities;
  device_.set_paused(qos::dscps_of(kMap, priorities));
}

void Host::reap(TimeNs now) {
  nic::Wc wc[16];
  while (const std::size_t count = cq_->poll(wc)) {
    for (std::size_t i = 0; i < count; ++i) sink_->completed(now, *this, wc[i]);
  }
}

void Host::reschedule(TimeNs now) {
  TimeNs next = wire_.line_deadline();
  if (const nic::Time due = device_.next_deadline(); due != nic::kNever) {
    // What is due now and has not left waits for the wire.
    const auto at = static_cast<TimeNs>(std::max<nic::Time>(due, 0));
    next = std::min(next, at <= now ? std::max(now + 1, wire_.wire_deadline()) : at);
  }
  if (paused_ != 0) next = std::min(next, pauses_.next_end());
  wake_at(next);
}

}  // namespace weft::sim
