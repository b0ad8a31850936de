// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/patience.h"

#include <algorithm>

namespace weft::inc::policy {

bool may_pass(Reason reason) noexcept {
  switch (reason) {
    case Reason::links_taken:
    case Reason::no_memory:
    case Reason::no_bandwidth:
    case Reason::no_share:
      return true;
    case Reason::none:
    case Reason::bad_request:
    case Reason::group_exists:
    case Reason::host_down:
    case Reason::no_path:
    case Reason::unsupported:
    case Reason::too_many_children:
    case Reason::no_gain:
      return false;
  }
  return false;
}

bool pays_to_wait(TimeNs now, const Want& want, const std::optional<Holding>& holder) noexcept {
  if (want.limit_ns <= 0) return false;
  TimeNs begin = now;
  if (holder) {
    const auto has_had = static_cast<double>(now - holder->since);
    if (has_had > holder->late * static_cast<double>(holder->until - holder->since)) return false;
    begin = std::max(now, holder->until);
  }
  return static_cast<double>(begin) + want.use_ns < static_cast<double>(want.asked) + want.limit_ns;
}

WaitingLine::Ticket WaitingLine::join() {
  line_.emplace(++last_, 0);
  return last_;
}

bool WaitingLine::may_try(Ticket ticket) const {
  const auto own = line_.find(ticket);
  return own != line_.end() && own->second != freed_ &&
         std::all_of(line_.begin(), own, [&](const auto& other) { return other.second == freed_; });
}

}  // namespace weft::inc::policy
