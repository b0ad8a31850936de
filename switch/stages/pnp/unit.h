// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PNP, the Proactive Notification Point of the long-haul paper (section IV): what an edge switch between data centres
// does with a packet that was marked on its way. No DPDK.
//
// The paper's words and ours: QP_field is the table of PnpUnit, its match fields srcIP, dstIP and sQPN are PnpName, its
// action parameter cQPN is PnpFlow::client_qp, the register with the time of the last CNP is PnpFlow::notified_at, and
// cnp_interval the `interval` of on_marked().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

/// One direction of a queue pair, as its packets name it.
struct PnpName {
  std::uint64_t addresses = 0;  ///< Parsed::address_key: source and destination
  std::uint32_t dest_qp = 0;    ///< sQPN: the queue pair that the packets go to
  bool ipv6 = false;

  friend constexpr bool operator==(const PnpName&, const PnpName&) noexcept = default;
};

/// What is known of one direction.
struct PnpFlow {
  PnpName name{};
  std::uint32_t client_qp = 0;  ///< cQPN: the queue pair at the packets' source, which CNPs are sent to
  bool known = false;           ///< false: the place is free
  bool notified = false;        ///< a CNP was sent; notified_at is when
  TimeNs notified_at = 0;
  TimeNs used = 0;  ///< when it was last learned or marked
  std::uint32_t marked = 0, cnps = 0;
};

/// What becomes of a marked packet.
enum class PnpVerdict : std::uint8_t {
  pass,    ///< nothing is known of its flow: it goes on with its mark
  clear,   ///< its sender was told within the interval: the mark is cleared
  notify,  ///< a CNP is sent to its sender, and the mark is cleared
};

/// A table of flows of fixed size: sets of kWays, where the flow that was used longest ago leaves for a new one. One
/// whose interval is not over stays, so that it gets no second CNP within it.
class PnpUnit {
 public:
  static constexpr std::uint32_t kWays = 4;
  enum class Learned : std::uint8_t { known, added, evicted, full };

  /// @param max_flows  rounded up to a power of two of at least kWays
  explicit PnpUnit(std::uint32_t max_flows);

  /// The queue pair at the source of this flow is `client_qp`. A flow whose source has another queue pair than before
  /// begins anew: it is another connection.
  /// @param interval  as in on_marked()
  /// @return added, evicted: it is new here, and another one had to leave; full: there is no room, and it stays unknown
  Learned learn(TimeNs now, TimeNs interval, const PnpName& name, std::uint32_t client_qp) noexcept {
    Learned learned{};
    static_cast<void>(learn(now, interval, name, client_qp, learned));
    return learned;
  }
  /// The same for a caller that goes on with the flow, so that it need not find() it again.
  /// @param learned  out: what the other learn() returns
  /// @return nullptr when there was no room for the flow
  [[nodiscard]] PnpFlow* learn(TimeNs now, TimeNs interval, const PnpName& name, std::uint32_t client_qp,
                               Learned& learned) noexcept;
  /// The queue pair at its source is not known any more.
  void forget(const PnpName& name) noexcept;
  /// A packet with a mark leaves. After `notify` the flow counts as told now.
  /// @param interval   least time between two CNPs of a flow: the receiver's RNIC has one (DCQCN, SIGCOMM 2015, section
  ///                   3.3), and the paper aligns with it
  /// @param client_qp  out: whom a CNP goes to
  [[nodiscard]] PnpVerdict on_marked(TimeNs now, TimeNs interval, const PnpName& name,
                                     std::uint32_t& client_qp) noexcept {
    PnpFlow* flow = find(name);
    return flow == nullptr ? PnpVerdict::pass : on_marked(now, interval, *flow, client_qp);
  }
  /// The same for a flow that find() or learn() has given.
  [[nodiscard]] PnpVerdict on_marked(TimeNs now, TimeNs interval, PnpFlow& flow, std::uint32_t& client_qp) noexcept;
  /// nullptr: nothing is known of it. Good until the next call that learns or forgets.
  [[nodiscard]] PnpFlow* find(const PnpName& name) noexcept;
  /// A packet of this flow is looked at soon. Of its set the first two places are fetched, where most flows are.
  [[gnu::always_inline]] void prefetch(const PnpName& name) const noexcept {
    const auto* const set = reinterpret_cast<const char*>(&sets_[set_of(name)]);
    for (std::size_t at = 0; at < 2 * sizeof(PnpFlow); at += kLine) __builtin_prefetch(set + at, 1);
  }
  /// The CNP that on_marked() asked for could not be sent: the flow may be told by the next mark.
  void not_notified(const PnpName& name) noexcept;

  /// Index of the set that a flow belongs to: all calls with names of different sets touch different memory.
  [[nodiscard]] std::uint32_t set_of(const PnpName& name) const noexcept;
  [[nodiscard]] std::uint32_t sets() const noexcept { return static_cast<std::uint32_t>(sets_.size()); }
  /// The places of a set, free ones too.
  [[nodiscard]] std::span<const PnpFlow, kWays> flows(std::uint32_t set) const noexcept { return sets_[set].ways; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return sets_.size() * sizeof(Set); }
  /// What is learned and remembered of another unit with a table of the same size.
  void adopt(PnpUnit& old) noexcept { sets_.swap(old.sets_); }

 private:
  static constexpr std::size_t kLine = 64;  // of the cache
  struct alignas(kLine) Set {
    PnpFlow ways[kWays]{};
  };
  static_assert(sizeof(Set) == kWays * sizeof(PnpFlow));
  std::vector<Set> sets_;
};

}  // namespace weft::stages
