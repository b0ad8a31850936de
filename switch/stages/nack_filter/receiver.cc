// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The part of NackFilterUnit that finds out whether a receiver keeps early packets; see unit.h.
#include "switch/stages/nack_filter/unit.h"

namespace weft::stages {

using wire::Psn;

void NackFilterUnit::start_watching(NackQp qp) const noexcept {
  NackState& s = qp.state();
  constexpr std::uint8_t kNotNow = NackFlag::watching | NackFlag::learning | NackFlag::probation;
  if (!rules_.detect_gbn || s.kept_proofs >= NackState::kKeptProofs || (s.flags & kNotNow) != 0) return;
  s.flags |= NackFlag::watching;
  s.early = NackState::kNone;
  if (s.watch_from == NackState::kNone) s.watch_from = highest(qp).value();
}

// A packet of PSNs from `psn` on has left. Looks for one behind it that left before it.
void NackFilterUnit::watch(NackQp qp, Psn psn, std::uint32_t psns, bool spurious) const noexcept {
  NackState& s = qp.state();
  if (s.early != NackState::kNone) {
    // The packet has left a second time, so that the receiver's having it or not proves nothing.
    if (psn == Psn(s.early)) s.early = NackState::kNone;
    return;
  }
  const Psn next = psn + psns;
  if (!spurious && next.distance_from(Psn(s.watch_from)) > 0 && has_left(qp, next)) {
    s.early = next.value();
  } else if (psn.distance_from(Psn(s.blocked)) > static_cast<std::int32_t>(rules_.window_psns)) {
    s.flags &= ~NackFlag::watching;
  }
}

bool NackFilterUnit::has_left(NackQp qp, Psn psn) const noexcept {
  const NackState& s = qp.state();
  const NackPath& path = qp.path(s.paths.class_of(psn));
  const std::int32_t behind = path.psn().distance_from(psn);
  return path.known() && behind >= 0 && behind < static_cast<std::int32_t>(rules_.window_psns) && !is_lost(qp, psn) &&
         !never_sent(s, psn);
}

// The receiver has everything before `epsn`. True when it waits for it, and has shown often enough that it drops what
// comes early.
bool NackFilterUnit::learn_from(NackQp qp, Psn epsn, bool waits) const noexcept {
  NackState& s = qp.state();
  if ((s.flags & NackFlag::watching) == 0 || s.early == NackState::kNone) return false;
  const std::int32_t beyond = epsn.distance_from(Psn(s.early));
  if (beyond < 0 || (beyond == 0 && !waits)) return false;
  s.early = NackState::kNone;
  if (beyond == 0) return has_dropped(qp, epsn);
  s.dropped_proofs = 0;
  if (++s.kept_proofs >= NackState::kKeptProofs) s.flags &= ~NackFlag::watching;
  return false;
}

// One more sign that the receiver drops what comes early. True when that is enough.
bool NackFilterUnit::has_dropped(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  if (!rules_.detect_gbn || s.kept_proofs >= NackState::kKeptProofs) return false;
  // The same loss shows itself by a NACK and by the guard.
  if (s.dropped_proofs != 0 && psn == Psn(s.dropped_psn)) return false;
  s.dropped_psn = psn.value();
  s.kept_proofs = 0;
  if (++s.dropped_proofs < rules_.gbn_proofs) return false;
  forget_lost(qp);
  settle(s);
  s.flags = NackFlag::in_order;
  return true;
}

}  // namespace weft::stages
