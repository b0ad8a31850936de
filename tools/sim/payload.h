// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What messages consist of, where a workload wants more than their lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nic/rnic/device.h"
#include "tools/sim/workload.h"

namespace weft::sim {

/// Says what a workload's transfers carry, and what has to arrive.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  /// Writes what a transfer sends.
  virtual void fill(std::uint32_t transfer, std::span<std::uint8_t> out) const = 0;
  /// The first byte that is wrong in what a transfer has brought; nullopt when all are right.
  [[nodiscard]] virtual std::optional<std::uint64_t> first_wrong(std::uint32_t transfer,
                                                                 std::span<const std::uint8_t> got) const = 0;
};

/// Pseudo-random bytes that differ between transfers, places and seeds.
class RandomPayload final : public PayloadSource {
 public:
  explicit RandomPayload(std::uint64_t seed) : seed_(seed) {}
  void fill(std::uint32_t transfer, std::span<std::uint8_t> out) const override;
  [[nodiscard]] std::optional<std::uint64_t> first_wrong(std::uint32_t transfer,
                                                         std::span<const std::uint8_t> got) const override;

 private:
  std::uint64_t seed_;
};

/// The memory that transfers are sent from and written to: that of every host in one piece, registered with its RNIC.
class PayloadMemory {
 public:
  /// Both copies of every transfer together may take this many bytes.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  [[nodiscard]] static std::uint64_t bytes_of(const Plan& plan) noexcept { return 2 * plan.bytes(); }

  PayloadMemory(const Plan& plan, std::uint32_t hosts, const PayloadSource& source);

  /// The region that has all of a host's transfers.
  [[nodiscard]] nic::Mr register_with(std::uint32_t host, nic::Device& device);
  /// Where a transfer is sent from and written to, as addresses in the regions of the two hosts.
  [[nodiscard]] std::uint64_t sent_from(std::uint32_t transfer) const noexcept { return places_[transfer].from; }
  [[nodiscard]] std::uint64_t written_to(std::uint32_t transfer) const noexcept { return places_[transfer].to; }

  // Different transfers may be filled and checked at the same time.

  /// A transfer is about to be sent.
  void fill(std::uint32_t transfer);
  /// A transfer has been received completely: compares it.
  void check(std::uint32_t transfer);
  /// Compares everything that was received again, since something may have been written to it later. "" when all that
  /// was ever compared was right; otherwise what was not.
  [[nodiscard]] std::string check_all();
  /// Transfers that have been compared at least once.
  [[nodiscard]] std::uint64_t checked() const noexcept;
  /// A byte of what a transfer has brought: tests change it, to see that it is noticed.
  [[nodiscard]] std::uint8_t& received(std::uint32_t transfer, std::uint64_t offset) {
    return memory_[plan_.transfers[transfer].to][places_[transfer].to + offset];
  }

 private:
  struct Place {
    std::uint64_t from = 0, to = 0;
    bool received = false;
    std::optional<std::uint64_t> wrong{};  ///< the first byte that was, when it was first compared and one was
  };
  void compare(std::uint32_t transfer);

  const Plan& plan_;
  const PayloadSource& source_;
  std::vector<std::vector<std::uint8_t>> memory_;  ///< by host
  std::vector<Place> places_;                      ///< by transfer
};

}  // namespace weft::sim
