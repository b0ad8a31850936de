// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How much of its link a collective takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tools/weft-inc/perf.h"

namespace weft::inc_tool {

/// Who runs a collective.
enum class PerfWay : std::uint8_t { switches, ring, tree };

/// Bytes of vectors that cross the busiest link between a rank and its switch, in its busier direction.
/// @param count  elements, of one block for ReduceScatter and AllGather
[[nodiscard]] std::uint64_t busiest_link_bytes(const PerfOptions& options, PerfWay way, std::uint64_t count,
                                               std::uint32_t element_bytes);

/// The share of the link's rate that they use, with all headers of Ethernet, IPv4, UDP and RoCE, and the gaps between
/// frames: 1 is a link that is full. Acknowledgements and control messages are not counted.
/// @param link_gbps  above 0
[[nodiscard]] double link_share(std::uint64_t bytes, std::uint32_t mtu, double microseconds, double link_gbps);

/// What Linux says of a link in Gbit/s; nullopt: nothing.
/// @param device     of libibverbs, as mlx5_0 or mlx5_0:2; empty: none
/// @param interface  where there is no device; the one that has `address` when it is empty
/// @param sys        where /sys is
[[nodiscard]] std::optional<double> link_gbps(const std::string& device, const std::string& interface,
                                              const std::string& address, const std::filesystem::path& sys = "/sys");

}  // namespace weft::inc_tool
