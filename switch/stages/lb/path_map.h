// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PathMap of Themis (3.2): which change of the UDP source port moves a flow to which other path, when the switches
// above choose paths by a linear hash (Zhang et al., "Hashing Linearity Enables Relative Path Control in Data Centers",
// USENIX ATC 2021). Linear means hash(a xor b) = hash(a) xor hash(b): then a change of the source port changes the
// choice of a switch with 2^k members by an exclusive or that does not depend on the flow.
//
// All switches of one tier must use the same hash, with weft's `ecmp` the same `seed`; then every path has its own
// change, whichever switch of the tier the packet comes to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace weft::stages {

/// One tier of switches above.
struct HashTier {
  std::uint32_t members = 2;  ///< that its switches choose from: a power of two
  /// By how much (exclusive or) the index of the chosen member changes when the source port changes by `change`
  /// (exclusive or). Must be linear.
  std::function<std::uint32_t(std::uint16_t change)> choice_change{};
};

/// The tier of switches with weft's `ecmp` and this seed.
[[nodiscard]] HashTier ecmp_tier(std::uint64_t seed, std::uint32_t members);

class PathMap {
 public:
  /// Bits of the source port that changes may use: ports of RoCEv2 are 0xc000 to 0xffff, and stay so.
  static constexpr unsigned kPortBits = 14;

  /// @return nullopt when changes of the source port do not reach all paths: the hashes of two tiers depend on each
  ///         other there, or there are more than 2^kPortBits paths
  [[nodiscard]] static std::optional<PathMap> build(std::span<const HashTier> tiers);

  /// Paths above one uplink.
  [[nodiscard]] std::uint32_t paths() const noexcept { return static_cast<std::uint32_t>(deltas_.size()); }
  /// The change of the source port that changes the choice of the first tier by the lowest bits of `path`, that of the
  /// second by the next ones, and so on. 0 for path 0.
  [[nodiscard]] std::uint16_t delta(std::uint32_t path) const noexcept { return deltas_[path]; }

 private:
  std::vector<std::uint16_t> deltas_;
};

}  // namespace weft::stages
