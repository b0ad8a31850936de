// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the egress of a switch behaves, as configuration resolved it: one entry per port, with everything filled in.
// The names are SONiC's (CONFIG_DB) where it has one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "switch/qos/class_map.h"
#include "switch/qos/types.h"

namespace weft::qos {

/// How a queue gets its turns.
struct SchedulerSettings {
  enum class Type : std::uint8_t {
    strict,  ///< before every other queue with a lower number, and before all that are dwrr
    dwrr,    ///< shares what the strict queues leave, by weight
  };
  Type type = Type::dwrr;
  std::uint32_t weight = 1;       ///< dwrr: 1 to 100
  std::uint64_t pir_bytes_s = 0;  ///< shaper: peak rate in bytes of frames a second; 0: none
  std::uint64_t pbs_bytes = 0;    ///< shaper: bytes that may go at once after a rest
  bool operator==(const SchedulerSettings&) const = default;
};

/// A probability that grows linearly from 0 at min_bytes to `probability` at max_bytes, and is 1 beyond.
struct CurveSettings {
  std::uint64_t min_bytes = 0;  ///< Kmin
  std::uint64_t max_bytes = 0;  ///< Kmax, at least Kmin
  double probability = 0;       ///< Pmax, 0 to 1
  bool operator==(const CurveSettings&) const = default;
};

/// WRED and ECN of a queue, by the bytes in it. Colours are not known.
struct WredSettings {
  enum class Point : std::uint8_t { dequeue, enqueue };
  bool ecn = true;  ///< ECN-capable packets are marked by the curve `mark`; otherwise they count as not-ECT
  CurveSettings mark{};
  Point mark_at = Point::dequeue;  ///< where the depth is looked at and the mark is set
  bool drop_by_curve = false;      ///< not-ECT packets are dropped on arrival by `drop`; otherwise at the limit only
  CurveSettings drop{};
  bool operator==(const WredSettings&) const = default;
};

/// What a priority group or a queue may take of the shared buffer.
struct BufferShare {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
  std::uint64_t reserve_bytes = 0;             ///< its own, nobody else gets it (size)
  std::optional<int> dynamic_th{};             ///< threshold: free shared bytes times 2^dynamic_th, -8 to 8
  std::uint64_t static_th_bytes = kUnlimited;  ///< threshold without dynamic_th
  std::uint64_t headroom_bytes = 0;            ///< groups: for what arrives between XOFF and its effect (xoff)
  std::uint64_t xon_offset_bytes = 3072;       ///< groups: so far below the threshold the sender may go on
  bool operator==(const BufferShare&) const = default;
};

/// What watches over queues that the peer pauses.
struct WatchdogSettings {
  enum class Action : std::uint8_t {
    drop,     ///< what waits in the queue, and what comes, is dropped until the peer stops pausing
    forward,  ///< the queue sends in spite of the pause
  };
  bool enabled = true;
  TimeNs detection_ns = 200'000'000;
  TimeNs restoration_ns = 200'000'000;
  Action action = Action::drop;
  bool operator==(const WatchdogSettings&) const = default;
};

struct PortSettings {
  ClassMap map{};
  std::array<SchedulerSettings, kClasses> scheduler{};  ///< by queue
  std::uint64_t pir_bytes_s = 0;                        ///< shaper of the port, as in SchedulerSettings
  std::uint64_t pbs_bytes = 0;
  std::array<std::optional<WredSettings>, kClasses> wred{};  ///< by queue
  std::array<BufferShare, kClasses> group{};                 ///< by priority group, of what comes in here
  std::array<BufferShare, kClasses> queue{};                 ///< by queue
  std::uint8_t pfc_enable = 0;          ///< bit i: traffic class i is lossless here by PFC, both ways
  bool flow_control = false;            ///< 802.3x in both directions; not together with pfc_enable
  std::uint64_t speed_mbps = 100'000;   ///< what pause quanta are counted in
  std::uint16_t pause_quanta = 0xffff;  ///< of XOFF; sent again after half of that time
  WatchdogSettings watchdog{};
  bool operator==(const PortSettings&) const = default;
};

/// Which public simulator's admission it is.
enum class BufferModel : std::uint8_t {
  hpcc,      ///< ingress thresholds alone: a queue may take what its packets' groups may
  conweave,  ///< ingress thresholds, and egress thresholds of lossy queues, as in Broadcom's switches
};

struct Settings {
  BufferModel model = BufferModel::conweave;
  std::uint64_t pool_bytes = 0;       ///< all of the packet memory: reserves, headroom and what is shared
  std::vector<PortSettings> ports{};  ///< by port
};

}  // namespace weft::qos
