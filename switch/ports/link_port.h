// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A cable between two switches of the same process.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "switch/ports/port.h"

namespace weft::ports {

/// One direction of a cable: a ring with one sending and one receiving worker, which may be the same.
class Lane {
 public:
  static constexpr std::uint32_t kCapacity = 1024;

  /// Number of packets taken.
  std::uint16_t push(rte_mbuf** packets, std::uint16_t count) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t room = kCapacity - (tail - head_.load(std::memory_order_acquire));
    if (count > room) count = static_cast<std::uint16_t>(room);
    for (std::uint16_t i = 0; i < count; ++i) items_[(tail + i) % kCapacity] = packets[i];
    tail_.store(tail + count, std::memory_order_release);
    return count;
  }
  std::uint16_t pop(rte_mbuf** packets, std::uint16_t max) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t ready = tail_.load(std::memory_order_acquire) - head;
    const auto count = static_cast<std::uint16_t>(ready < max ? ready : max);
    for (std::uint16_t i = 0; i < count; ++i) packets[i] = items_[(head + i) % kCapacity];
    head_.store(head + count, std::memory_order_release);
    return count;
  }
  [[nodiscard]] std::uint32_t size() const noexcept {
    // head first: it can only grow towards tail, so the difference is never negative.
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }

 private:
  alignas(64) std::atomic<std::uint32_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> tail_{0};
  alignas(64) std::array<rte_mbuf*, kCapacity> items_{};
};

/// One end of a cable. Packets move by pointer; rate and delay are the egress queue's business.
class LinkPort : public Port {
 public:
  /// Both ends of a new cable.
  static std::pair<std::unique_ptr<LinkPort>, std::unique_ptr<LinkPort>> make_pair(std::string first_name,
                                                                                  std::string second_name);
  ~LinkPort() override;

  std::uint16_t receive(pipeline::TimeNs now, std::uint16_t queue, rte_mbuf** packets,
                        std::uint16_t max) noexcept override;
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override;
  [[nodiscard]] bool exhausted() const noexcept override { return true; }
  [[nodiscard]] bool finite() const noexcept override { return true; }
  /// Packets on the way to this end.
  [[nodiscard]] std::uint64_t in_flight() const noexcept override { return incoming_->size(); }
  [[nodiscard]] std::string description() const override { return "link to " + peer_; }

 private:
  LinkPort(std::string peer, std::shared_ptr<Lane> incoming, std::shared_ptr<Lane> outgoing);
  std::string peer_;
  std::shared_ptr<Lane> incoming_;
  std::shared_ptr<Lane> outgoing_;
};

}  // namespace weft::ports
