// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Looking on while packets pass: what captures and traces attach to a pipeline. Without them it costs one test per
// burst.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/base/time.h"
#include "switch/pipeline/drop_reason.h"
#include "switch/pipeline/packet.h"
#include "switch/pipeline/port_map.h"

namespace weft::pipeline {

/// Sees packets where a worker has them in its hands; changes nothing. Called on the worker of the pipeline; the rules
/// of the packet path hold: no log, allocation, lock or system call.
class Tap {
 public:
  virtual ~Tap() = default;

  /// False: nothing but dropped() and ports_renamed() is to be called, and packets that pass cost nothing. Constant.
  [[nodiscard]] virtual bool sees_traffic() const noexcept { return true; }

  /// Packets that arrived at `port`, before any stage. Their PacketMeta::parsed is not filled in.
  virtual void received(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept = 0;

  /// Packets that the device of `port` is about to be offered, perhaps not for the first time.
  virtual void sending(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept = 0;

  /// What the device did with the packets of the last sending(): it took the first `taken`, and of those it refused
  /// `rejected`, nobody knows which. They may be gone already.
  virtual void sent(std::uint16_t taken, std::uint16_t rejected) noexcept = 0;

  /// A reload gave the ports of the switch other indexes, while the worker stood still.
  virtual void ports_renamed(const PortMap& /*ports*/) {}

  /// A packet is dropped; it is freed afterwards. Not called for what a device refused, see sent().
  virtual void dropped(TimeNs now, const rte_mbuf* packet, DropReason reason) noexcept = 0;
};

/// What became of a traced packet in one place.
enum class TraceVerdict : std::uint8_t {
  received,     ///< came in at `port`
  passed,       ///< the stage left it alone
  forwarded,    ///< the stage chose `port`
  grouped,      ///< the stage chose the equal-cost group `detail`
  held,         ///< the stage keeps it for now
  consumed,     ///< it was for the switch itself
  dispatched,   ///< the stage put it into the queue of `port`, past the stages that follow
  handed_over,  ///< goes on at worker `detail`
  queued,       ///< in the egress queue of `port`, with `detail` packets before it
  dropped,      ///< reason: `detail`
  sent,         ///< the device of `port` took it
  lost_sight,   ///< it went a way that traces do not know
};

/// Why a stage sent a packet over the path that it took.
struct PathReason {
  static constexpr std::size_t kPaths = 8;
  struct Path {
    PortIndex port = kNoPort;
    std::uint64_t value = 0;
  };

  const char* rule = nullptr;    ///< in words, static; nullptr: nothing was said
  const char* values = nullptr;  ///< what the values are, static; nullptr: the paths have none
  std::uint32_t count = 0;       ///< paths that were compared; only the first kPaths are in `path`
  std::array<Path, kPaths> path{};

  void add(PortIndex port, std::uint64_t value = 0) noexcept {
    if (count < kPaths) path[count] = {port, value};
    ++count;
  }
};

/// The place where something happened: a stage by its position, or one of the places that are no stage.
struct TracePlace {
  static constexpr std::uint8_t kPort = 0xff;
  static constexpr std::uint8_t kAdmission = 0xfe;
  std::uint8_t stage = kPort;
  bool egress = false;
};

/// One line of a trace.
struct TraceEvent {
  TimeNs time = 0;
  std::uint64_t counted = 0;  ///< bit i: the stage's counter i went up while it had the packet
  std::uint32_t detail = 0;
  PortIndex port = kNoPort;
  TracePlace place{};
  TraceVerdict verdict = TraceVerdict::passed;
  std::uint8_t switch_index = 0;
  std::uint16_t worker = 0;
  std::uint16_t copies = 0;     ///< made of it meanwhile
  std::uint16_t generated = 0;  ///< packets that the switch made meanwhile
  PathReason reason{};
};

/// Follows chosen packets through the stages. A pipeline that has one runs these packets alone, which changes nothing
/// for them: a burst of one is the scalar case.
class Tracer : public Tap {
 public:
  static constexpr int kNone = -1;

  /// Handle of a packet that is followed, kNone for all others.
  [[nodiscard]] virtual int find(const rte_mbuf* m) const noexcept = 0;
  /// False once the packet's way has ended.
  [[nodiscard]] virtual bool open(int handle) const noexcept = 0;
  /// The packet enters a place; drops that follow happened there.
  virtual void enter(int handle, TracePlace place) noexcept = 0;
  virtual void note(int handle, const TraceEvent& event) noexcept = 0;
  /// The packet goes on in another buffer.
  virtual void moved(int handle, rte_mbuf* to) noexcept = 0;
  /// The packet's way has ended.
  virtual void close(int handle) noexcept = 0;
};

}  // namespace weft::pipeline
