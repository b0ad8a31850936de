// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/defaults.h"

#include <algorithm>

namespace weft::qos {
namespace {

constexpr std::uint32_t kFrameOverhead = 18;  // Ethernet header and tag
constexpr std::uint32_t kBurst = 64;          // most packets that a port receives at once

}  // namespace

WredSettings default_wred(std::uint64_t speed_mbps) noexcept {
  const std::uint64_t kmin = std::max<std::uint64_t>(4 * speed_mbps, 4000);
  WredSettings wred;
  wred.mark = wred.drop = {kmin, 4 * kmin, 0.2};
  return wred;
}

HeadroomParts headroom_parts(const PortFacts& facts) noexcept {
  const std::uint64_t frame = facts.mtu_bytes + kFrameOverhead;
  HeadroomParts parts{.on_the_link = 2 * facts.speed_mbps * facts.delay_ns / 8000,
                      .frames = 2 * frame,
                      .bursts = std::uint64_t{kBurst} * facts.workers * frame,
                      .kept = facts.speed_mbps * facts.away_ns / 8000};
  if (facts.rx_packets != 0) parts.kept = std::min(parts.kept, facts.rx_packets * frame);
  return parts;
}

std::uint64_t default_headroom(const PortFacts& facts) noexcept {
  return headroom_parts(facts).sum();
}

BufferShare lossless_group(const PortFacts& facts) noexcept {
  return {.reserve_bytes = 4000, .dynamic_th = -3, .headroom_bytes = default_headroom(facts)};
}
BufferShare lossy_group() noexcept {
  return {.dynamic_th = 3};
}
BufferShare lossless_queue() noexcept {
  return {};
}
BufferShare lossy_queue() noexcept {
  return {.reserve_bytes = 1500, .dynamic_th = 0};
}

void set_shares(PortSettings& port, const PortFacts& facts, std::uint8_t lossless) noexcept {
  for (unsigned i = 0; i < kClasses; ++i) {
    port.group[i] = lossy_group();
    port.queue[i] = lossy_queue();
    port.wred[i].reset();
  }
  for (unsigned tc = 0; tc < kClasses; ++tc) {
    if ((lossless >> tc & 1) == 0) continue;
    port.group[port.map.tc_to_group[tc]] = lossless_group(facts);
    port.queue[port.map.tc_to_queue[tc]] = lossless_queue();
    port.wred[port.map.tc_to_queue[tc]] = default_wred(facts.speed_mbps);
  }
}

PortSettings default_port(const PortFacts& facts) noexcept {
  PortSettings port;
  port.map = ClassMap::defaults();
  port.speed_mbps = facts.speed_mbps;
  port.pfc_enable = kLosslessClasses;
  for (unsigned i = 0; i < kClasses; ++i) {
    port.scheduler[i].type = i >= 6 ? SchedulerSettings::Type::strict : SchedulerSettings::Type::dwrr;
    port.scheduler[i].weight = 15;
  }
  set_shares(port, facts, kLosslessClasses);
  return port;
}

std::uint64_t own_bytes(const Settings& settings) noexcept {
  std::uint64_t own = 0;
  for (const PortSettings& port : settings.ports) {
    for (const BufferShare& share : port.group) own += share.reserve_bytes + share.headroom_bytes;
  }
  return own;
}

std::uint64_t default_pool_bytes(const Settings& settings) noexcept {
  return own_bytes(settings) + kDefaultSharedBytes;
}

}  // namespace weft::qos
