// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_reporter.h"

#include <algorithm>

namespace weft::stages {

bool GemmaReporter::on_look(TimeNs now, std::uint64_t longest) noexcept {
  next_ns_ = now + rules_.period_ns;
  if (longest > rules_.high_bytes) interval_ns_ = rules_.period_ns;
  if (told_ && now - last_ns_ < interval_ns_) return false;
  if (told_ && longest < rules_.high_bytes / 2) interval_ns_ = std::min(2 * interval_ns_, rules_.most_ns);
  told_ = true;
  last_ns_ = now;
  return true;
}

}  // namespace weft::stages
