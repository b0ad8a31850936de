// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <vector>

#include "switch/config/schema/schema.h"

namespace weft::config {

/// Largest values that make sense; larger ones are slips of the pen.
inline constexpr std::int64_t kMaxRateMbps = 1'600'000;
inline constexpr std::int64_t kMinMtu = 68;        ///< RFC 791
inline constexpr std::int64_t kMinIpv6Mtu = 1280;  ///< RFC 8200
inline constexpr std::int64_t kMaxMtu = 9216;
inline constexpr std::int64_t kMaxDelayNs = 10'000'000'000;
inline constexpr std::int64_t kMaxCpu = 1023;
inline constexpr std::int64_t kMaxNumaNode = 255;

inline constexpr std::int64_t kMaxQpn = 0xffffff;

/// IPv6, UDP, BTH, the largest extension headers, and the ICRC.
inline constexpr std::int64_t kRoceOverheadBytes = 40 + 8 + 12 + 28 + 4;

/// MTU of ports whose device has none.
inline constexpr std::uint32_t kDefaultMtu = 4200;

/// The whole file.
[[nodiscard]] Schema config_schema();

/// One item of `switches`.
[[nodiscard]] Schema switch_schema();

/// The `qos` section of a switch.
[[nodiscard]] Schema qos_schema();

/// Keys of a port that every type has, without `type`.
[[nodiscard]] std::vector<Schema::Key> common_port_keys();

}  // namespace weft::config
