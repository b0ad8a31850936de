// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The way of packets between the workers of a switch and the kernel that is its control plane. No system calls here:
// rings lead to a thread that does them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "switch/pipeline/batch.h"
#include "switch/pipeline/context.h"
#include "switch/pipeline/packet_ring.h"
#include "switch/pipeline/port_map.h"
#include "switch/pipeline/stage.h"
#include "switch/pipeline/switch_info.h"

namespace weft::stages {

/// One per switch. Each worker has its own rings; the thread at their other ends is one at a time.
///
/// Bounds: a port passes on KernelInfo::packets_per_s, a twentieth of it at once, so that a flood on one port leaves
/// the sessions on others alone; kMostWaiting packets of a worker wait for the thread; a worker sends kSendAtOnce
/// packets of the kernel between two bursts.
class L3Kernel {
 public:
  static constexpr std::uint32_t kMostWaiting = 256;
  static constexpr std::uint16_t kSendAtOnce = 32;

  /// A neighbour that a worker wants resolved, or checked if its MAC address is known.
  struct Question {
    pipeline::PortIndex port = 0;
    wire::IpAddress address{};
    bool known = false;
  };
  /// Of one port.
  struct PortCounters {
    std::atomic<std::uint64_t> to_kernel{0};    ///< packets that the thread has written
    std::atomic<std::uint64_t> from_kernel{0};  ///< packets that a worker has put into the egress queue
    std::atomic<std::uint64_t> over_rate{0};    ///< dropped as kernel_rate
    std::atomic<std::uint64_t> queue_full{0};   ///< dropped as kernel_queue_full
    std::atomic<std::uint64_t> refused{0};      ///< packets that the kernel or the switch did not take
  };

  L3Kernel(const pipeline::SwitchInfo& info, std::uint16_t workers);
  /// Frees what is still in the rings. No user may be left.
  ~L3Kernel();
  /// A reload puts this in the place of `old`, while all users of both stand still: what waits in the rings and
  /// counters go on. Questions do not: who waits asks again.
  void adopt(L3Kernel& old, const pipeline::PortMap& ports) noexcept;
  L3Kernel(const L3Kernel&) = delete;
  L3Kernel& operator=(const L3Kernel&) = delete;

  // Workers.

  /// Gives a packet to the kernel, or drops it when its port has had its share.
  void punt(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  /// Packets of the kernel wait for this worker.
  [[nodiscard]] bool waiting(std::uint16_t worker) const noexcept { return lanes_[worker].down.size() != 0; }
  /// Sends some of them through the port in their PacketMeta::out_port.
  void send_waiting(pipeline::Context& context) noexcept;
  /// Asks about a neighbour. Forgotten when too many are asked for at once: who waits asks again.
  void ask(std::uint16_t worker, const Question& question) noexcept;

  // The thread that talks to the kernel.

  /// Packets of a worker, which the caller frees; PacketMeta::in_port says where they came in.
  [[nodiscard]] std::uint16_t take(std::uint16_t worker, rte_mbuf** packets, std::uint16_t max) noexcept {
    return static_cast<std::uint16_t>(lanes_[worker].up.pop(packets, max));
  }
  /// Passes on a packet with its PacketMeta::out_port set. False when there is no room: it stays the caller's.
  [[nodiscard]] bool give(std::uint16_t worker, rte_mbuf* m) noexcept { return lanes_[worker].down.push(m); }
  [[nodiscard]] bool next_question(std::uint16_t worker, Question& question) noexcept;
  [[nodiscard]] std::uint16_t workers() const noexcept { return workers_; }

  // Any thread.
  [[nodiscard]] PortCounters& counters(pipeline::PortIndex port) noexcept { return counters_[port]; }
  /// Rows of the table `kernel`, one for each port.
  [[nodiscard]] nlohmann::ordered_json rows(const pipeline::SwitchInfo& info, std::uint64_t& cursor,
                                            std::size_t max) const;

 private:
  static constexpr std::uint32_t kQuestions = 256;

  // Packets that may go to the kernel, in units of 1 / 10^9 of a packet.
  struct Bucket {
    std::uint64_t tokens = 0;
    TimeNs updated = 0;
  };
  struct Lane {
    pipeline::PacketRing up, down;
    SpscRing<Question, kQuestions> questions;
    std::vector<Bucket> buckets{};  // by port
  };
  [[nodiscard]] bool allowed(Bucket& bucket, TimeNs now) const noexcept;

  std::uint16_t workers_;
  std::uint64_t per_second_;  ///< of one worker and port
  std::uint64_t most_;        ///< tokens of a full bucket
  std::size_t ports_;
  std::unique_ptr<Lane[]> lanes_;
  std::unique_ptr<PortCounters[]> counters_;
};

}  // namespace weft::stages
