// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which two directions belong to one queue pair. RoCEv2 packets name the destination QP only, so A -> (B, qpn b) and
// B -> (A, qpn a) have to be brought together: by CM or configuration, which know, or by inference from traffic.
//
// Inference. All packets between two hosts pass here, so a responder cannot acknowledge a PSN that has not passed: an
// ACK, NAK or READ response on R excludes every opposite direction F whose requests have not reached that PSN, or
// passed it long ago. What is excluded stays excluded, both ways; when one F is left, R and F are paired. UDP source
// ports decide between several, and add to the confidence: Linux derives them from the QPNs (a hash of the product of
// both for mlx5, of the sender's own QPN for rxe), and a network card may use one port for both directions.
//
// Confidence, in percent, that two directions belong together:
//   +60  they are the only unpaired ones between the two hosts; else +50 if PSNs leave no other choice;
//        else +35 if only ports do.
//        +25 when the ports are those that Linux derives from the two QPNs.
//   +7   for every further acknowledged PSN that fits and no other candidate does; +2 while not all unpaired directions
//        of the two hosts could be compared.
//   -25  for every PSN that does not fit.
//   -20  when another direction has only this partner left.
//        Below 30 the pairing is given up.
// At kSettled (or kSettledPartial) the pairing is final and costs nothing any more. Only CM and configuration reach
// 100.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "switch/stages/rdma_track/counters.h"
#include "switch/tables/qp_table.h"

namespace weft::stages {

class QpPairing {
 public:
  static constexpr std::uint8_t kSettled = 95;
  static constexpr std::uint8_t kSettledPartial = 80;
  /// Unpaired directions that are compared at a time, per pair of hosts and way.
  static constexpr std::uint32_t kCandidates = 32;
  /// Acknowledgements that are looked at per tick (about a millisecond), so that pairing never takes more than a few
  /// percent of a core.
  static constexpr std::uint32_t kEvidencePerTick = 32;
  /// An acknowledged PSN at most this far behind the newest request fits.
  static constexpr std::int32_t kOutstanding = 1 << 14;

  /// @param infer  false: only link() pairs
  QpPairing(tables::QpTable& table, TrackCounters& counters, bool infer);

  /// A new RC entry without a peer. `source_port` is that of its first packet.
  void want(std::uint32_t position, std::uint16_t source_port, std::uint32_t tick) noexcept;

  /// Pairs two entries, overriding what either was paired with. `confidence` up to 100.
  void link(std::uint32_t a, std::uint32_t b, tables::PairSource source, std::uint8_t confidence) noexcept;

  /// The entry is about to be erased or reset: it leaves its pair and the candidates.
  void forget(std::uint32_t position) noexcept;

  /// The table moved an entry.
  void moved(std::uint32_t from, std::uint32_t to) noexcept;

  /// A packet on an entry with ResponseFlag::evidence that answers requests of the opposite direction. `with_psn`: its
  /// PSN is one of those requests' (ACK, NAK, response).
  void on_evidence(std::uint32_t position, wire::Psn psn, bool with_psn, std::uint16_t source_port,
                   std::uint32_t tick) noexcept;

  /// Called now and then for every entry: finds a place among the candidates for those that had none.
  void revisit(std::uint32_t position, std::uint32_t tick) noexcept;

  [[nodiscard]] std::size_t memory_bytes() const noexcept { return groups_.size() * sizeof(Group); }

 private:
  static constexpr std::size_t kWays = 4;
  // A group of candidates that had no evidence for this many ticks may be replaced.
  static constexpr std::uint32_t kIdleTicks = 2000;
  static constexpr std::uint32_t kNobody = tables::QpTable::kNone;

  struct Candidate {
    std::uint32_t entry;
    std::uint32_t possible;  // bit i: candidate i of the other way may be its partner
    std::uint32_t last_psn;  // of the last evidence; kNobody when there was none
    std::uint16_t source_port;
    std::uint16_t unused;
  };
  // The unpaired directions between two hosts. Side 1 is the one whose address word is the larger.
  struct Group {
    std::uint64_t addresses;  // the smaller word of the two directions
    std::uint32_t family;     // QpEntry::kV6 or 0
    std::uint32_t last_used;
    std::array<std::uint32_t, 2> occupied;  // bit i: candidate i is in use
    bool partial;                           // a direction found no place
    std::array<std::array<Candidate, kCandidates>, 2> candidate;
  };
  struct Place {
    Group* group;
    unsigned side;
    unsigned slot;
  };
  enum class Fit : std::uint8_t { yes, no, unknown };

  [[nodiscard]] bool locate(std::uint32_t position, Place& place) noexcept { return locate(position, position, place); }
  [[nodiscard]] bool locate(std::uint32_t position, std::uint32_t listed_as, Place& place) noexcept;
  [[nodiscard]] Group* group_of(const tables::QpKey& key, unsigned& side) noexcept;
  [[nodiscard]] Group* group_for(const tables::QpKey& key, unsigned& side, std::uint32_t tick) noexcept;
  void empty(Group& group) noexcept;
  bool enlist(std::uint32_t position, std::uint16_t source_port, std::uint32_t tick) noexcept;
  void withdraw(std::uint32_t position) noexcept;
  void unlink(std::uint32_t position) noexcept;
  void settle(std::uint32_t position) noexcept;

  [[nodiscard]] Fit fit(std::uint32_t requests, wire::Psn psn) const noexcept;
  [[nodiscard]] bool derived_ports(const Place& a, unsigned other) const noexcept;
  [[nodiscard]] std::uint32_t mutual(const Place& at) const noexcept;
  [[nodiscard]] std::uint32_t same_ports(const Place& at, std::uint32_t among) const noexcept;
  std::uint32_t exclude(const Place& at, wire::Psn psn) noexcept;
  void confirm(const Place& at, std::uint32_t left, std::uint32_t fitting) noexcept;
  void choose(const Place& at, std::uint32_t left, std::uint32_t fitting, bool with_psn) noexcept;
  void weaken(std::uint32_t position, std::uint8_t by) noexcept;

  tables::QpTable& table_;
  TrackCounters& counters_;
  bool infer_;
  std::uint32_t budget_tick_ = 0;
  std::uint32_t budget_ = kEvidencePerTick;
  std::vector<Group> groups_;  // sets of kWays
};

/// UDP source port that Linux gives packets between two RC queue pairs of a hardware device by default (the flow label
/// of include/rdma/ib_verbs.h, folded to 14 bits). Symmetric in the QPNs.
[[nodiscard]] constexpr std::uint16_t linux_flow_port(wire::Qpn a, wire::Qpn b) noexcept {
  std::uint64_t v = std::uint64_t{a.value()} * b.value();
  v ^= v >> 20;
  v ^= v >> 40;
  return static_cast<std::uint16_t>(((v ^ (v >> 14 & 0x3f)) & 0x3fff) | 0xc000);
}

/// UDP source port of packets that a Linux rdma_rxe queue pair sends.
[[nodiscard]] constexpr std::uint16_t rxe_port(wire::Qpn sender) noexcept {
  return static_cast<std::uint16_t>(0xc000 + ((sender.value() * 0x61c88647u) >> 18));
}

}  // namespace weft::stages
