// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/class_map.h"

namespace weft::qos {
namespace {

// One past the last kind of frame: no frame is classified by DSCP.
constexpr auto kNoKind = static_cast<wire::FrameKind>(0xff);

}  // namespace

ClassMap ClassMap::defaults() noexcept {
  ClassMap map;
  for (unsigned dscp = 0; dscp < 64; ++dscp) map.dscp_to_tc[dscp] = static_cast<std::uint8_t>(dscp >> 3);
  map.dscp_to_tc[3] = 3;
  map.dscp_to_tc[4] = 4;
  for (unsigned i = 0; i < kClasses; ++i) {
    map.dot1p_to_tc[i] = map.tc_to_queue[i] = static_cast<std::uint8_t>(i);
    map.tc_to_group[i] = i == 3 || i == 4 || i == 7 ? static_cast<std::uint8_t>(i) : 0;
  }
  return map;
}

std::uint64_t dscps_of(const ClassMap& map, std::uint8_t classes) noexcept {
  std::uint64_t dscps = 0;
  for (std::size_t dscp = 0; dscp < map.dscp_to_tc.size(); ++dscp) {
    if ((classes >> map.dscp_to_tc[dscp] & 1) != 0) dscps |= std::uint64_t{1} << dscp;
  }
  return dscps;
}

Classifier::Classifier(const ClassMap& map) noexcept : first_ip_(map.trust_dscp ? wire::FrameKind::ipv4 : kNoKind) {
  static_assert(wire::FrameKind::ipv4 > wire::FrameKind::arp && wire::FrameKind::roce > wire::FrameKind::ipv4);
  const auto place = [&](unsigned tc) { return PacketClass::of(map.tc_to_queue[tc & 7], map.tc_to_group[tc & 7]); };
  for (unsigned dscp = 0; dscp < 64; ++dscp) table_[dscp] = place(map.dscp_to_tc[dscp]);
  for (unsigned pcp = 0; pcp < kClasses; ++pcp) table_[64 + pcp] = place(map.dot1p_to_tc[pcp]);
  table_[kUntagged] = place(0);
}

}  // namespace weft::qos
