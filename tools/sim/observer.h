// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who sees everything, as no switch or RNIC can: which packets were lost, and so which NACKs are false; and the hash
// of all that happened.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>

#include "switch/base/time.h"

namespace weft::sim {

struct ObserverCounters {
  std::uint64_t nacks_at_sender = 0;  ///< NACKs that arrived at a sender
  std::uint64_t nacks_false = 0;      ///< of these, for a packet that was not lost
  std::uint64_t nacks_missed = 0;     ///< lost packets whose receiver asked, by a NACK that was not lost itself and
                                      ///< while the sender had not repeated them, and whose sender was never told
  std::uint64_t packets_lost = 0;     ///< request packets, anywhere
};

class Observer {
 public:
  /// A packet is about to arrive at the end of link `link`.
  void on_arrival(TimeNs now, std::uint32_t link, const rte_mbuf* m) noexcept {
    hash_ = (hash_ ^ (now + (std::uint64_t{link} << 44) + m->pkt_len)) * 0x9e3779b97f4a7c15ull;
    hash_ ^= hash_ >> 29;
    if (link == captured_) [[unlikely]]
      capture(now, m);
  }
  /// Both ends of a queue pair, so that a NACK is known to speak of a packet.
  void add_pair(std::uint32_t address_a, std::uint32_t qpn_a, std::uint32_t address_b, std::uint32_t qpn_b);

  /// A packet was dropped by a switch or a link; not a NACK that a switch has blocked.
  void on_lost(const rte_mbuf* m) noexcept;
  /// A packet leaves a host, and arrives at one.
  void on_host_sent(const rte_mbuf* m) noexcept;
  void on_host_received(const rte_mbuf* m) noexcept;

  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] const ObserverCounters& counters() const noexcept { return counters_; }

  /// Writes what arrives over a link as a capture file. "" or why the file cannot be written.
  [[nodiscard]] std::string start_capture(std::uint32_t link, const std::string& path);
  /// Ends the capture. "" or why not all of it was written; also when there was none.
  [[nodiscard]] std::string finish_capture();

  ~Observer() { static_cast<void>(finish_capture()); }

 private:
  struct Lost {
    bool repeated = false;  ///< the sender has sent it again
    bool asked = false;     ///< the receiver sent a NACK for it before that
    bool told = false;      ///< and one arrived, or was lost
  };
  void capture(TimeNs now, const rte_mbuf* m) noexcept;

  std::uint64_t hash_ = 0x6a09e667f3bcc908ull;
  std::uint32_t captured_ = ~0u;
  std::FILE* file_ = nullptr;
  std::string path_;
  std::uint64_t captured_packets_ = 0;
  int capture_error_ = 0;  ///< errno; the capture ends with the first
  /// The queue pair that a packet is for, and its peer.
  struct Ends {
    std::uint32_t id = 0;
    std::uint32_t peer = 0;
  };
  [[nodiscard]] const Ends* ends_of(const rte_mbuf* m) const;
  [[nodiscard]] static bool is_nack(const rte_mbuf* m) noexcept;

  std::unordered_map<std::uint64_t, Ends> ends_;  ///< by address and QPN
  std::uint32_t last_id_ = 0;
  std::unordered_map<std::uint64_t, Lost> lost_;  ///< by receiving queue pair and PSN
  ObserverCounters counters_;
};

}  // namespace weft::sim
