// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which endpoint of which group a packet is for. Built by a control thread, then only read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/stage/running_group.h"
#include "switch/wire/parsed.h"

namespace weft::inc {

class GroupTable {
 public:
  /// @param worker  whose groups packets are looked up for; of all others the addresses are known
  GroupTable(std::span<const std::shared_ptr<RunningGroup>> groups, std::uint16_t worker);

  struct Flow {
    std::uint64_t address_key = 0;
    RunningGroup* group = nullptr;  ///< nullptr: a free place
    wire::Qpn qp{};
    EndpointIndex endpoint = 0;
  };
  /// Whether packets to this address may be for an endpoint.
  [[nodiscard]] bool may_have_v4(std::uint32_t address) const noexcept {
    return (bits_[word(address)] >> bit(address) & 1) != 0;
  }
  [[nodiscard]] bool has_address(const wire::IpAddress& address) const noexcept;
  /// nullptr when the packet is from nobody who is a peer.
  [[nodiscard]] const Flow* find(std::uint64_t address_key, wire::Qpn qp) const noexcept {
    for (std::size_t at = slot(address_key, qp);; at = (at + 1) & mask_) {
      const Flow& flow = flows_[at];
      if (flow.group == nullptr) return nullptr;
      if (flow.address_key == address_key && flow.qp == qp) return &flow;
    }
  }
  /// Calls `f(group, endpoint)` for all endpoints at this address, of all groups, whose peer it is.
  template <class F>
  void for_each_edge(const wire::IpAddress& address, const wire::IpAddress& peer, F&& f) const {
    for (const auto& group : all_) {
      for (std::size_t e = 0; e < group->spec.edges.size(); ++e) {
        if (group->spec.edges[e].address == address && group->spec.edges[e].peer == peer) f(*group, e);
      }
    }
  }
  /// Of this worker.
  [[nodiscard]] std::span<RunningGroup* const> groups() const noexcept { return own_; }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

 private:
  static constexpr std::uint32_t hash(std::uint32_t v) noexcept { return v * 0x9e3779b1u >> 22; }
  static constexpr std::size_t word(std::uint32_t address) noexcept { return hash(address) / 64; }
  static constexpr std::uint32_t bit(std::uint32_t address) noexcept { return hash(address) % 64; }
  [[nodiscard]] std::size_t slot(std::uint64_t key, wire::Qpn qp) const noexcept {
    const std::uint64_t h = (key ^ std::uint64_t{qp.value()} << 40) * 0x9e3779b97f4a7c15ull;
    return static_cast<std::size_t>(h >> 32) & mask_;
  }

  std::vector<std::shared_ptr<RunningGroup>> all_;
  std::vector<RunningGroup*> own_;
  std::vector<wire::IpAddress> addresses_;  ///< of all groups, each once
  std::vector<std::uint64_t> bits_;         ///< 1024 bits by a hash of IPv4 addresses
  std::vector<Flow> flows_;                 ///< a power of two, half empty at least
  std::size_t mask_ = 0;
};

}  // namespace weft::inc
