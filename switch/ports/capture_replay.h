// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A capture file that is received at its own times, or at a rate of the user's. DPDK's net_pcap can only do it as fast
// as the switch takes it.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "switch/base/time.h"

namespace weft::ports {

/// What examining a capture file found.
struct CaptureSummary {
  std::uint64_t packets = 0;
  std::uint32_t longest = 0;  ///< bytes, as captured
  std::uint64_t bytes = 0;    ///< of all packets, as captured
  std::string error{};        ///< why it cannot be received
  std::vector<std::string> warnings{};
};

/// Reads a whole capture: pcap or pcapng, Ethernet, times in micro- or nanoseconds.
[[nodiscard]] CaptureSummary examine_capture(const std::string& file);

/// When packets come.
struct ReplayPace {
  std::uint64_t rate_pps = 0;  ///< evenly, so many in a second; 0: at the capture's times
  double speed = 1;            ///< of those times: 2 takes half as long. Over 0
  std::uint64_t loops = 1;     ///< how often the capture is received; 0: for ever
};

/// The packets and times of a capture, in memory: a file is too slow to be read between two packets. Times that go
/// back are taken as no gap. Another round begins one mean gap behind the last packet of the round before. receive()
/// is for one thread, the rest for any.
class CaptureReplay {
 public:
  /// Captures with more bytes of packets than this are refused.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

  /// `error` is empty on success. A capture without packets has ended before it begins, and cannot be repeated for
  /// ever.
  [[nodiscard]] static std::unique_ptr<CaptureReplay> load(const std::string& file, const ReplayPace& pace,
                                                           rte_mempool* pool, std::vector<std::string>& warnings,
                                                           std::string& error);

  /// Up to `max` packets that are due; the clock starts with the first call. A packet for which there is no buffer
  /// waits.
  std::uint16_t receive(TimeNs now, rte_mbuf** packets, std::uint16_t max) noexcept;

  /// When the next packet is due; kNever before the first call of receive() and after the last packet.
  [[nodiscard]] TimeNs next() const noexcept { return next_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool finite() const noexcept { return pace_.loops != 0; }
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t packets() const noexcept { return packets_.size(); }

 private:
  struct Packet {
    TimeNs time;          ///< after the first one of the round, in nanoseconds
    std::uint64_t start;  ///< in bytes_
    std::uint32_t captured;
  };

  CaptureReplay(const ReplayPace& pace, rte_mempool* pool) : pace_(pace), pool_(pool) {}
  void set_times(std::vector<std::string>& warnings);
  [[nodiscard]] rte_mbuf* make(const Packet& packet) noexcept;
  void advance() noexcept;

  ReplayPace pace_;
  rte_mempool* pool_;
  std::vector<Packet> packets_;
  std::vector<std::uint8_t> bytes_;
  TimeNs round_ns_ = 0;  ///< from the first packet of a round to that of the next
  std::size_t at_ = 0;   ///< the packet that is next
  std::uint64_t round_ = 0;
  TimeNs round_began_ = 0;
  bool started_ = false;
  std::atomic<TimeNs> next_{kNever};
  std::atomic<bool> ended_{false};
};

}  // namespace weft::ports
