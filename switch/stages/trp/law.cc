// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/law.h"

#include <algorithm>

namespace weft::stages {
namespace {

// CNPs of one instant count once in the authors' simulation.
constexpr TimeNs kCodeLeastGap = 5;

// The larger alpha is, the later the next step: a flow whose CNPs do not end is not stopped altogether.
void grow(TrpLaw& law, const TrpRules& rules) noexcept {
  if (law.loop_num < rules.max_loops) ++law.loop_num;
  ++law.alpha;
}

}  // namespace

void TrpLaw::on_cnp(TimeNs now, const TrpRules& rules) noexcept {
  const bool first = loop_num == 0;
  if (first && alpha == 0) alpha = rules.alpha;
  if (rules.rule == TrpRule::code && !first && !settled && now - cnp_time < kCodeLeastGap) return;
  const bool begins = rules.rule == TrpRule::code && first;
  settled = begins;
  status = TrpStatus::throttled;
  cnp_time = now;
  ++cnp_num;
  switch (rules.rule) {
    case TrpRule::text:
      // cnp_num counts from the last step on.
      if (first || cnp_num > alpha) {
        cnp_num = 1;
        grow(*this, rules);
      }
      break;
    case TrpRule::algorithm1:
      if (alpha == 1 || cnp_num % alpha == 1) grow(*this, rules);
      break;
    case TrpRule::code:
      if (begins) {
        loop_num = 1;
        return;
      }
      if (cnp_num == 1) grow(*this, rules);
      if (cnp_num >= alpha) {
        cnp_num -= alpha;
        grow(*this, rules);
      }
      break;
  }
}

void TrpLaw::on_packet(TimeNs now, const TrpRules& rules) noexcept {
  if (status == TrpStatus::idle) return;
  const bool over = settled || now - cnp_time > rules.beta_ns;
  if (!over) return;
  if (rules.rule == TrpRule::code) {
    status = TrpStatus::recover;
    alpha /= 2;
  } else if (status == TrpStatus::throttled) {
    status = TrpStatus::recover;
    alpha = std::max(alpha / 2, 1u);
    cnp_num = 0;
  }
}

void TrpLaw::end() noexcept {
  status = TrpStatus::idle;
  cnp_num = 0;
  loop_num = 0;
}

}  // namespace weft::stages
