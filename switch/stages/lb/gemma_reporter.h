// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// When a core switch of Gemma tells the edges how long its egress queues are (III-A: the frequency follows the load, so
// that reports take little bandwidth; how is ours). A protocol unit: plain, copyable, without clock.
//
// It looks at the queues once per period_ns. While the longest is above high_bytes it reports every time. While all are
// below half of that, the interval doubles with each report, up to most_ns. A queue that grows is told of within
// period_ns, however long the interval was.
#pragma once

#include <cstdint>

#include "switch/base/time.h"

namespace weft::stages {

struct GemmaReporterRules {
  TimeNs period_ns = 5'000;            ///< between two looks, and the shortest interval of reports; above 0
  TimeNs most_ns = 40'000;             ///< the longest interval; at least period_ns
  std::uint64_t high_bytes = 100'000;  ///< above, every look is reported
};

class GemmaReporter {
 public:
  explicit GemmaReporter(const GemmaReporterRules& rules) : rules_(rules), interval_ns_(rules.period_ns) {}

  /// When on_look() is wanted.
  [[nodiscard]] TimeNs next_deadline() const noexcept { return next_ns_; }
  /// @param longest  bytes in the longest queue
  /// @return a report is due now
  [[nodiscard]] bool on_look(TimeNs now, std::uint64_t longest) noexcept;

  [[nodiscard]] TimeNs interval_ns() const noexcept { return interval_ns_; }

  friend bool operator==(const GemmaReporter& a, const GemmaReporter& b) noexcept {
    return a.interval_ns_ == b.interval_ns_ && a.next_ns_ == b.next_ns_ && a.last_ns_ == b.last_ns_ &&
           a.told_ == b.told_;
  }

 private:
  GemmaReporterRules rules_;
  TimeNs interval_ns_;
  TimeNs next_ns_ = 0;
  TimeNs last_ns_ = 0;
  bool told_ = false;  ///< last_ns_ is the time of a report
};

}  // namespace weft::stages
