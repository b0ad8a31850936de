// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// telemetry: in-band network telemetry for HPCC. RoCE packets that have the option of switch/wire/telemetry.h get a
// record of the port through which they leave: its speed, the time, what it has sent and what waits behind them. Header
// checksum and ICRC follow, so that RNICs and switches behind find a packet that is right.
//
// It acts in its egress half, behind the queue. What it does not know it does not say: the packet goes on as it is.
#pragma once

#include <vector>

#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"
#include "switch/wire/telemetry.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class TelemetryCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/telemetry/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Counts the time of a port in slots of kIntSlotBytes at its speed.
class SlotClock {
 public:
  /// @param mbps  at least 1
  explicit SlotClock(std::uint64_t mbps) noexcept
      : per_ns_(static_cast<std::uint64_t>((static_cast<unsigned __int128>(mbps) << kShift) /
                                           (std::uint64_t{wire::kIntSlotBytes} * 8 * 1000))) {}
  /// Slots that have begun by `now`, modulo 65536.
  [[nodiscard]] std::uint16_t at(TimeNs now) const noexcept {
    // What is lost above 64 bits is above the sixteen that count.
    return static_cast<std::uint16_t>(static_cast<std::uint64_t>(now) * per_ns_ >> kShift);
  }

 private:
  static constexpr unsigned kShift = 40;
  std::uint64_t per_ns_;
};

class TelemetryStage : public pipeline::Stage {
 public:
  explicit TelemetryStage(const pipeline::StageBuild& build);

  void egress(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;

 private:
  struct Port {
    SlotClock clock;
    pipeline::WireFraming framing;
    std::uint8_t speed;
    std::uint8_t path;       ///< its byte of IntPath::path
    bool owned;              ///< one worker alone sends through it
    std::uint64_t sent = 0;  ///< bytes on the wire
  };

  void stamp(const pipeline::Context& context, pipeline::PortIndex port, rte_mbuf* m) noexcept;
  void count(TelemetryCounter c) noexcept { counters_.add(c, 1); }

  std::vector<Port> ports_;
  CounterSet<TelemetryCounter> counters_;
};

/// Registered as `telemetry`; needs `parsed`. Option: link_mbps, of ports that have no rate_mbps.
[[nodiscard]] pipeline::StageType telemetry_stage_type();

}  // namespace weft::stages
