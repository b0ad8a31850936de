// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who sees everything, as no switch or RNIC can: which packets were lost, and so which NACKs are false. Devices of a
// partition tell its witness, and the observer hears all witnesses when partitions meet.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "switch/base/time.h"
#include "switch/wire/ib.h"

namespace weft::sim {

struct ObserverCounters {
  std::uint64_t nacks_at_sender = 0;  ///< NACKs that arrived at a sender
  std::uint64_t nacks_false = 0;      ///< of these, for a packet that was not lost
  std::uint64_t nacks_missed = 0;     ///< lost packets whose receiver asked, by a NACK that was not lost itself and
                                      ///< while the sender had not repeated them, and whose sender was never told
  std::uint64_t packets_lost = 0;     ///< request packets, anywhere
};

/// What devices have seen of requests and NACKs, each in the order of its time.
class Witness {
 public:
  enum class Kind : std::uint8_t { lost_request, lost_nack, sent_request, sent_nack, got_request, got_nack };
  struct Note {
    TimeNs at;
    std::uint32_t device;
    std::uint32_t address;  ///< the queue pair that the packet is for
    std::uint32_t qpn;
    std::uint32_t psn : 24;
    Kind kind : 8;
  };

  /// A packet was dropped by a switch or a link; not a NACK that a switch has blocked.
  /// @param device  where, as in the two below
  void lost(TimeNs now, std::uint32_t device, const rte_mbuf* m);
  /// A packet leaves a host, and arrives at one.
  void host_sent(TimeNs now, std::uint32_t device, const rte_mbuf* m);
  void host_received(TimeNs now, std::uint32_t device, const rte_mbuf* m);

  [[nodiscard]] const std::vector<Note>& notes() const noexcept { return notes_; }
  [[nodiscard]] bool any_lost() const noexcept { return any_lost_; }
  /// NACKs among the notes that arrived at a sender.
  [[nodiscard]] std::uint64_t nacks() const noexcept { return nacks_; }
  void forget() noexcept {
    notes_.clear();
    any_lost_ = false;
    nacks_ = 0;
  }

 private:
  void note(TimeNs now, std::uint32_t device, Kind kind, const rte_mbuf* m, const wire::Bth& bth);

  std::vector<Note> notes_;
  std::uint64_t nacks_ = 0;
  bool any_lost_ = false;
};

class Observer {
 public:
  /// Both ends of a queue pair, so that a NACK is known to speak of a packet.
  void add_pair(std::uint32_t address_a, std::uint32_t qpn_a, std::uint32_t address_b, std::uint32_t qpn_b);

  /// Hears all witnesses up to the same time, and has them forget. What happened at one time goes by devices.
  void hear(const std::vector<Witness*>& witnesses);

  [[nodiscard]] const ObserverCounters& counters() const noexcept { return counters_; }

 private:
  struct Lost {
    bool repeated = false;  ///< the sender has sent it again
    bool asked = false;     ///< the receiver sent a NACK for it before that
    bool told = false;      ///< and one arrived, or was lost
  };
  /// The queue pair that a packet is for, and its peer.
  struct Ends {
    std::uint32_t id = 0;
    std::uint32_t peer = 0;
  };
  void apply(const Witness::Note& note);
  void apply_nack(Witness::Kind kind, Lost* lost) noexcept;

  std::unordered_map<std::uint64_t, Ends> ends_;  ///< by address and QPN
  std::uint32_t last_id_ = 0;
  std::unordered_map<std::uint64_t, Lost> lost_;  ///< by receiving queue pair and PSN
  ObserverCounters counters_;
  std::vector<Witness::Note> heard_;  ///< of all witnesses, since the last time
};

}  // namespace weft::sim
