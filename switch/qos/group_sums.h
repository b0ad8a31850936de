// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <vector>

namespace weft::qos {

/// The bytes of one burst by priority group, in whatever order its packets come. One thread's; it is used burst after
/// burst, because setting it up takes memory for every group.
class GroupSums {
 public:
  /// Most packets of a burst.
  static constexpr std::uint32_t kMostPackets = 64;

  /// @param groups  of the switch
  explicit GroupSums(std::size_t groups) : bytes_(groups, 0) {}

  /// A packet, or several, of `length` bytes. At most kMostPackets calls between two of clear().
  /// @param group  below `groups`
  void add(std::uint16_t group, std::uint64_t length) noexcept {
    assert(count_ < kMostPackets);
    // Without a branch, because whether a packet is the first of its group is hard to predict.
    touched_[count_] = group;
    count_ += bytes_[group] == 0 ? 1 : 0;
    bytes_[group] += length;
    all_ += length;
  }
  /// Of all groups together.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return all_; }

  /// Calls f(group, bytes) once for every group that has any.
  template <typename F>
  void for_each(F&& f) const noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) f(touched_[i], bytes_[touched_[i]]);
  }
  void clear() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) bytes_[touched_[i]] = 0;
    count_ = 0;
    all_ = 0;
  }

 private:
  std::vector<std::uint64_t> bytes_;  ///< by group; zero where the burst has none
  std::array<std::uint16_t, kMostPackets + 1> touched_{};
  std::uint32_t count_ = 0;  ///< in touched_
  std::uint64_t all_ = 0;
};

}  // namespace weft::qos
