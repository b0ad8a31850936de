// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/pauses.h"

#include "switch/qos/class_map.h"
#include "switch/wire/headers.h"

namespace weft::nic {
namespace {

constexpr std::uint64_t kSpeedMbps = 100;

qos::PortSettings settings() noexcept {
  qos::PortSettings settings;
  settings.pfc_enable = 0xff;
  settings.flow_control = true;
  settings.speed_mbps = kSpeedMbps;
  return settings;
}

}  // namespace

Pauses::Pauses() noexcept : receiver_(settings()) {}

bool Pauses::is_pause(std::span<const std::uint8_t> frame) noexcept {
  return frame.size() >= sizeof(wire::EthernetHeader) &&
         wire::header_at<wire::EthernetHeader>(frame.data()).ethertype.value() == wire::EtherType::mac_control;
}

void Pauses::on_frame(Time now, std::span<const std::uint8_t> frame) noexcept {
  receiver_.on_frame(static_cast<TimeNs>(now), frame);
}

std::uint64_t Pauses::paused_dscps(Time now) noexcept {
  static const qos::ClassMap kMap = qos::ClassMap::defaults();
  return qos::dscps_of(kMap, receiver_.paused(static_cast<TimeNs>(now)));
}

Time Pauses::next_end() const noexcept {
  const TimeNs end = receiver_.next_end();
  return end == weft::kNever ? nic::kNever : static_cast<Time>(end);
}

}  // namespace weft::nic
