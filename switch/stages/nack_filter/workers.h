// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What workers tell each other: the one that owns an egress port records what leaves, the one that owns the queue pair
// judges.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/spsc_ring.h"
#include "switch/pipeline/stage.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// What one worker tells another of a packet of the other's queue pair.
struct NackMail {
  std::uint64_t address_key;
  std::uint32_t handle;  ///< PacketMeta::qp_handle
  std::uint32_t dest_qp;
  std::uint32_t psn;
  std::uint32_t read_bytes;  ///< of a READ request: what it asks for; 0 for all other packets
  std::uint8_t uplink;
  bool dropped;
};

/// Rings between the workers of a switch, one for every ordered pair.
class NackFilterShared : public pipeline::StageShared {
 public:
  static constexpr std::uint32_t kCapacity = 4096;

  explicit NackFilterShared(const pipeline::StageBuild& build);

  /// The worker that owns a queue pair.
  [[nodiscard]] std::uint16_t owner(const wire::Parsed& parsed) const noexcept;
  /// When there is no room, the receiver finds out by lost().
  void push(std::uint16_t from, std::uint16_t to, const NackMail& mail) noexcept {
    static_cast<void>(rings_.ring(from, to).push_or_lose(mail));
  }
  [[nodiscard]] bool pop(std::uint16_t from, std::uint16_t to, NackMail& mail) noexcept {
    return rings_.ring(from, to).pop(mail);
  }
  [[nodiscard]] bool pending(std::uint16_t to) const noexcept { return rings_.pending(to); }
  /// How much mail from one worker to another found no room. Goes on over a reload, as the mail does.
  [[nodiscard]] std::uint64_t lost(std::uint16_t from, std::uint16_t to) const noexcept {
    return rings_.ring(from, to).lost();
  }
  /// Takes over the rings: what left before the reload has left, and its mail holds no ports but uplinks by their place
  /// in the options.
  void adopt(pipeline::StageShared& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::uint16_t workers() const noexcept { return workers_; }
  /// The uplinks.
  [[nodiscard]] std::vector<pipeline::PathSet> path_sets() const override { return {uplinks_}; }

 private:
  using Rings = SpscMesh<NackMail, kCapacity>;

  std::uint16_t workers_;
  const pipeline::OwnerTable* owners_;
  pipeline::PathSet uplinks_;
  Rings rings_;  ///< none where there is one worker
};

}  // namespace weft::stages
