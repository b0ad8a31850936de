// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What lb_tag does for Gemma on one worker: reports of egress queue lengths to the switches below, and what the
// switches above have reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/pipeline/context.h"
#include "switch/stages/lb/gemma_report.h"
#include "switch/stages/lb/gemma_reporter.h"
#include "switch/stages/lb_tag/counters.h"
#include "switch/stages/lb_tag/shared.h"

namespace weft::stages {

class GemmaReports {
 public:
  /// Of a switch whose options have `gemma`. Worker 0 reports for all.
  GemmaReports(LbTagShared& shared, const pipeline::SwitchInfo& info, std::uint16_t worker);

  [[nodiscard]] TimeNs next_deadline() const noexcept { return reports_ ? reporter_.next_deadline() : kNever; }
  void on_timer(pipeline::Context& context, LbTagCounters& counters) noexcept;
  /// A packet that is a report by its tag has come through an uplink or a downlink.
  /// @return false when it is none of a neighbour, and is to be forwarded as any other packet
  [[nodiscard]] bool take(TimeNs now, const rte_mbuf* m, LbTagCounters& counters) noexcept;
  void adopt(const GemmaReports& old) noexcept { reporter_ = old.reporter_; }

 private:
  using Downlink = LbTagOptions::Gemma::Downlink;

  /// Stands for a queue that nothing can leave: as long as the longest that can be told.
  static constexpr std::uint64_t kShut = 0xffff * kReportUnitBytes;

  [[nodiscard]] std::uint64_t queue(const pipeline::Context& context, pipeline::PortIndex port) const noexcept;
  [[nodiscard]] std::uint64_t least_above(const pipeline::Context& context, std::uint16_t id) const noexcept;
  [[nodiscard]] std::uint64_t look(const pipeline::Context& context) noexcept;
  void tell_below(pipeline::Context& context, LbTagCounters& counters) noexcept;
  void tell_above(pipeline::Context& context, LbTagCounters& counters) noexcept;
  void send(pipeline::Context& context, pipeline::PortIndex to, LbTagCounters& counters) noexcept;
  [[nodiscard]] bool learn(std::uint16_t downlink, const GemmaEntry& entry, TimeNs now) noexcept;

  LbTagShared& shared_;
  const pipeline::SwitchInfo& info_;
  const LbTagOptions::Gemma& options_;
  GemmaView view_;
  bool reports_;
  GemmaReporter reporter_;
  std::vector<wire::IpAddress> address_of_port_;
  std::vector<std::uint16_t> above_;  ///< ids of leaves that are behind none of the downlinks
  std::vector<GemmaEntry> entries_;   ///< all of which a report may tell; first those below, by downlink
  std::vector<std::size_t> behind_;   ///< of each entry: its downlink, or any other number
  std::vector<GemmaEntry> told_;      ///< of one report
};

}  // namespace weft::stages
