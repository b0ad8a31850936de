// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What tells trp of congestion near its receivers where these send no CNPs, because their RNICs have HPCC or TIMELY
// (section VIII of the long-haul paper). No DPDK. What is found here counts as a CNP of the flow, at most one per
// interval, so that all else is as with DCQCN.
//
// With HPCC: the records that a receiver sends back (switch/wire/telemetry.h). Those of ports in front of this switch,
// which the packets have with them when they come, are not counted: the source's own data centre and the long link are
// nothing that slowing down here would help.
//
// With TIMELY or Swift: the time from a request that asks for an ACK to its ACK, both seen here. It begins when the
// request leaves the stage, so that what trp itself holds does not count. The receiver's own time is in it, as it is in
// the sender's round trips.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/stages/trp/store.h"
#include "switch/wire/telemetry.h"
#include "switch/wire/types.h"

namespace weft::stages {

struct TrpSignalSettings {
  std::uint32_t flows = 1024;           ///< that there is room for; rounded up to a power of two of at least four
  std::uint32_t queue_bytes = 100'000;  ///< a port's queue of at least so much is congestion
  TimeNs rtt_ns = 50'000;               ///< a round trip of at least so long is congestion
  TimeNs interval_ns = 5'000;           ///< least time between two signals of a flow: the receiver's for CNPs (DCQCN)
};

/// What is remembered of a flow's way behind this switch.
struct TrpWay {
  wire::FlowName name{};
  bool used = false;      ///< false: the place is free
  bool has_hops = false;  ///< `hops` is known
  bool timing = false;    ///< the ACK of `psn` is awaited
  bool told = false;      ///< there was a signal, at `told_at`
  std::uint8_t hops = 0;  ///< records that its packets have when they come
  wire::Psn psn{};        ///< of the request that is timed
  TimeNs left_at = 0;     ///< when that left
  TimeNs told_at = 0;
  TimeNs seen_at = 0;
};

/// Sets of four flows, where the one that was seen longest ago leaves for another.
class TrpSignals {
 public:
  static constexpr std::uint32_t kWays = 4;
  /// An ACK that is not there after so long is lost, or the queue pair is gone: another request is timed.
  static constexpr TimeNs kLostAfter = 100'000'000;

  explicit TrpSignals(const TrpSignalSettings& settings);

  /// A packet with so many records comes.
  void on_records(TimeNs now, const wire::FlowName& name, std::uint8_t hops) noexcept;
  /// The receiver sends back what ports have said.
  /// @return true: it counts as a CNP
  [[nodiscard]] bool on_echo(TimeNs now, const wire::FlowName& name, const wire::IntPath& path) noexcept;
  /// A request leaves this stage. One that is sent again ends the timing, whose ACK could be that of either (Karn).
  void on_left(TimeNs now, const wire::FlowName& name, wire::Psn psn, bool ack_req) noexcept;
  /// The receiver answers: an ACK, or a NAK of any kind, which says nothing of the way.
  /// @return true: it counts as a CNP
  [[nodiscard]] bool on_answer(TimeNs now, const wire::FlowName& name, wire::Psn psn, bool ack) noexcept;

  [[nodiscard]] const std::vector<TrpWay>& ways() const noexcept { return ways_; }
  /// Round trips that were measured, and the newest of them.
  [[nodiscard]] std::uint64_t round_trips() const noexcept { return round_trips_; }
  [[nodiscard]] TimeNs last_rtt_ns() const noexcept { return last_rtt_; }

 private:
  [[nodiscard]] TrpWay* set_of(const wire::FlowName& name) noexcept;
  [[nodiscard]] TrpWay* find(const wire::FlowName& name) noexcept;
  [[nodiscard]] TrpWay& find_or_add(TimeNs now, const wire::FlowName& name) noexcept;
  [[nodiscard]] bool tell(TimeNs now, TrpWay& way) const noexcept;

  TrpSignalSettings settings_;
  std::vector<TrpWay> ways_;
  std::uint64_t round_trips_ = 0;
  TimeNs last_rtt_ = 0;
};

}  // namespace weft::stages
