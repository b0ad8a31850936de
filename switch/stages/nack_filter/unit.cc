// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/unit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace weft::stages {

using wire::Psn;

namespace {

// A PSN this far from the last one of its path belongs to another connection.
constexpr std::int32_t kRestartDistance = 1 << 18;

constexpr std::uint32_t kEntryBytes8 = 1, kEntryBytes24 = 3;

Psn later(Psn a, Psn b) noexcept {
  return a.distance_from(b) > 0 ? a : b;
}

}  // namespace

std::uint32_t NackRules::most_paths() const noexcept {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < uplinks; ++i) sum += weights[i];
  return std::max(paths, arrival_check ? sum : 0);
}

std::uint32_t NackRules::paths_without(std::uint64_t excluded) const noexcept {
  std::uint32_t sum = 0, left = 0;
  for (std::uint32_t i = 0; i < uplinks; ++i) {
    sum += weights[i];
    left += (excluded >> i & 1) != 0 ? 0 : weights[i];
  }
  return left == 0 || paths % sum != 0 ? paths : paths / sum * left;
}

NackFilterUnit::NackFilterUnit(const NackRules& rules) noexcept : rules_(rules), paths_(rules.paths) {
  lost_at_ = static_cast<std::uint32_t>(sizeof(NackState) + rules.most_paths() * sizeof(NackPath));
  ring_at_ = lost_at_ + rules.window_psns / 8;
  const std::uint32_t entry = rules.ring_entry_bits == 8 ? kEntryBytes8 : kEntryBytes24;
  bytes_ = ring_at_ + (rules.has_ring() ? (rules.ring_entries * entry + 7) / 8 * 8 : 0);
}

void NackFilterUnit::start(NackQp qp, std::optional<Psn> first) const noexcept {
  NackState& s = qp.state();
  const std::uint64_t address_key = s.address_key;
  const std::uint32_t dest_qp = s.dest_qp;
  s = NackState{};
  s.address_key = address_key;
  s.dest_qp = dest_qp;
  for (std::uint32_t i = 0; i < rules_.window_psns / 64; ++i) qp.lost_word(i) = 0;
  reset_paths(qp, paths_);
  if (!first) return;
  // Every path begins with its last PSN before the first one; where PSNs wrap, that may be more than N further back.
  for (std::uint32_t back = 1; back <= 2 * paths_; ++back) {
    const Psn psn = *first - back;
    NackPath& path = qp.path(s.paths.class_of(psn));
    if (!path.known()) path.last = NackPath::kAnyUplink << 24 | psn.value();
  }
}

// --- data packets ------------------------------------------------------------------------------------------------

DataVerdict NackFilterUnit::on_other_data(NackQp qp, Psn psn, std::uint32_t uplink, std::uint32_t psns) const noexcept {
  DataVerdict verdict;
  NackState& s = qp.state();
  if ((s.flags & NackFlag::in_order) != 0) {
    const std::int32_t ahead = psn.distance_from(Psn(s.epsn));
    if (s.epsn_known == 0 || (ahead < kRestartDistance && ahead > -kRestartDistance)) return verdict;
    restart(qp, verdict);
  }
  if ((s.flags & NackFlag::learning) != 0) {
    learn(qp, psn, uplink);
    return verdict;
  }
  if (!follow(qp, psn, uplink, verdict)) return verdict;
  if (verdict.spurious && s.blocked != NackState::kNone) {
    const std::int32_t behind = psn.distance_from(Psn(s.blocked));
    verdict.after_block = behind >= 0 && behind < static_cast<std::int32_t>(rules_.window_psns);
  }
  if ((s.flags & NackFlag::watching) != 0) watch(qp, psn, psns, verdict.spurious);
  if (psns > 1) note_read(s, psn, psns);
  if ((s.flags & NackFlag::probation) != 0 && s.learned >= 2 * s.paths.value()) s.flags &= ~NackFlag::probation;
  if ((s.flags & NackFlag::armed) != 0) compensate(qp, psn, verdict);
  if (rules_.has_ring()) push_ring(qp, psn);
  return verdict;
}

// Updates the state of the packet's path. False when the packet was sent by another mapping of PSNs to paths than the
// current one.
bool NackFilterUnit::follow(NackQp qp, Psn psn, std::uint32_t uplink, DataVerdict& verdict) const noexcept {
  NackState& s = qp.state();
  NackPath& path = qp.path(s.paths.class_of(psn));
  const bool any = path.known() && path.uplink() == NackPath::kAnyUplink;
  if (!any && path.uplink() != uplink && from_before(s, psn)) return false;
  const bool probation = (s.flags & NackFlag::probation) != 0;
  const bool gap = probation && rules_.arrival_check && path.known() && psn.distance_from(path.psn()) > 0 &&
                   !follows(s, path.psn(), psn);
  if (path.known() && !any && (path.uplink() != uplink || gap)) {
    verdict.mismatch = true;
    lose_track(qp, psn, verdict);
    learn(qp, psn, uplink);
    return false;
  }
  ++path.packets;
  const std::uint32_t word = uplink << 24 | psn.value();
  if (!path.known()) {
    path.last = word;
    s.learned += probation && !rules_.arrival_check ? 1 : 0;
    if (s.judged_from != NackState::kEvery) s.judged_from = later(Psn(s.judged_from), psn).value();
    raise_top(qp, psn);
    remove_lost(qp, psn);
    return true;
  }
  const auto window = static_cast<std::int32_t>(rules_.window_psns);
  const Psn before = path.psn();
  const std::int32_t ahead = psn.distance_from(before);
  // Also what the receiver acknowledged long ago: no sender repeats that, but a new connection may begin there.
  const bool long_done = ahead < -window && s.epsn_known != 0 && Psn(s.epsn).distance_from(psn) > window;
  if (ahead > kRestartDistance || ahead < -kRestartDistance || long_done) {
    restart(qp, verdict);
    path.last = word;
    return true;
  }
  if (ahead <= 0) {
    path.last = uplink << 24 | before.value();
    verdict.spurious = !remove_lost(qp, psn) && ahead > -window;
    return true;
  }
  path.last = word;
  s.learned += probation ? 1 : 0;
  raise_top(qp, psn);
  declare_skipped(qp, before, psn);
  remove_lost(qp, psn);
  return true;
}

// What lies between two packets that one path delivered one after the other is lost.
void NackFilterUnit::declare_skipped(NackQp qp, Psn before, Psn psn) const noexcept {
  const NackState& s = qp.state();
  Psn at = s.paths.next(before);
  // Older ones do not fit into the window.
  const auto window = static_cast<std::int32_t>(rules_.window_psns);
  if (psn.distance_from(at) >= window) {
    const Psn from = psn - (rules_.window_psns - 1);
    const std::uint32_t steps = s.paths.remainder(s.paths.class_of(psn) + s.paths.value() - s.paths.class_of(from));
    at = from + steps;
    if (s.paths.class_of(at) != s.paths.class_of(psn)) at = Psn(s.paths.class_of(psn));  // PSNs wrapped in between
  }
  for (; psn.distance_from(at) > 0; at = s.paths.next(at)) {
    if (!never_sent(s, at)) add_lost(qp, at);
  }
}

// Whether a packet says something about the NACK that was blocked last.
void NackFilterUnit::compensate(NackQp qp, Psn psn, DataVerdict& verdict) const noexcept {
  NackState& s = qp.state();
  const Psn blocked(s.blocked);
  if (psn == blocked) {
    s.flags &= ~NackFlag::armed;
    if (s.guard_at == 0) settle(s);
    return;
  }
  const bool skipped = psn.distance_from(blocked) > 0 && s.paths.class_of(psn) == s.paths.class_of(blocked);
  if (rules_.check == NackCheck::gap ? !is_lost(qp, blocked) : !skipped) return;
  settle(s);
  verdict.compensate = true;
}

DataVerdict NackFilterUnit::on_dropped(NackQp qp, Psn psn) const noexcept {
  DataVerdict verdict;
  NackState& s = qp.state();
  constexpr std::uint8_t kNotJudged = NackFlag::learning | NackFlag::probation | NackFlag::in_order;
  if (rules_.check != NackCheck::gap || (s.flags & kNotJudged) != 0) return verdict;
  const NackPath& path = qp.path(s.paths.class_of(psn));
  const std::int32_t ahead = psn.distance_from(path.psn());
  // A copy of one that has left already: the first one may well arrive.
  if (path.known() && (ahead <= 0 || ahead > kRestartDistance)) return verdict;
  raise_top(qp, psn);
  add_lost(qp, psn);
  if ((s.flags & NackFlag::pending) == 0 || Psn(s.blocked) != psn) return verdict;
  settle(s);
  verdict.compensate = true;
  return verdict;
}

// --- the mapping of PSNs to paths --------------------------------------------------------------------------------

void NackFilterUnit::reset_paths(NackQp qp, std::uint32_t paths) const noexcept {
  qp.state().paths = PathCount(paths);
  for (std::uint32_t i = 0; i < paths; ++i) qp.path(i) = {NackPath::kUnknown, 0};
}

// `psn` is the first one that is known to have been sent by another mapping. What is under way by the old one is older.
void NackFilterUnit::lose_track(NackQp qp, Psn psn, DataVerdict& verdict) const noexcept {
  const bool settled = qp.state().judged_from == NackState::kEvery;
  judge_from(qp, later(highest(qp), psn));
  start_learning(qp, settled);
  if (qp.state().guard_at == 0) verdict.release = release(qp);
}

// Everything before `psn` was sent by another mapping than what follows.
void NackFilterUnit::judge_from(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  s.judged_from = (s.judged_from == NackState::kEvery ? psn : later(Psn(s.judged_from), psn)).value();
  s.watch_from = NackState::kNone;
  s.flags &= ~NackFlag::watching;
  forget_lost(qp);
  s.ring_size = 0;
  s.read_count = {};
}

bool NackFilterUnit::on_new_paths(NackQp qp) const noexcept {
  NackState& s = qp.state();
  if ((s.flags & NackFlag::in_order) != 0) return false;
  judge_from(qp, highest(qp) + rules_.window_psns);
  s.flags = static_cast<std::uint8_t>((s.flags & NackFlag::pending) | NackFlag::probation);
  s.learned = 0;
  reset_paths(qp, paths_);
  return release(qp);
}

// From now on path() holds the newest packet of each uplink.
void NackFilterUnit::start_learning(NackQp qp, bool may_grow) const noexcept {
  NackState& s = qp.state();
  std::uint64_t expected = may_grow ? 0 : ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < s.paths.value(); ++i) {
    const NackPath& path = qp.path(i);
    if (path.known() && path.uplink() < NackRules::kMaxUplinks) expected |= std::uint64_t{1} << path.uplink();
  }
  for (std::uint32_t i = 0; i < rules_.uplinks; ++i) {
    qp.path(i).last = (expected >> i & 1) != 0 ? NackPath::kExpected : NackPath::kUnknown;
  }
  s.flags = static_cast<std::uint8_t>((s.flags & (NackFlag::pending | NackFlag::grown)) | NackFlag::learning);
  s.learned = 0;
  s.uplinks_seen = 0;
  s.stride = 0;
}

// Watches which PSNs come in through which uplink, and after enough packets tries the mapping that would explain them.
void NackFilterUnit::learn(NackQp qp, Psn psn, std::uint32_t uplink) const noexcept {
  NackState& s = qp.state();
  if (from_before(s, psn)) return;
  const std::uint64_t bit = std::uint64_t{1} << uplink;
  NackPath& newest = qp.path(uplink);
  const std::int32_t ahead = (s.uplinks_seen & bit) == 0 ? 0 : psn.distance_from(newest.psn());
  // Where PSNs wrap, the distance says nothing.
  if (ahead > 0 && psn.value() > newest.psn().value()) s.stride = std::gcd(s.stride, static_cast<std::uint32_t>(ahead));
  if (newest.last == NackPath::kUnknown) s.flags |= NackFlag::grown;
  if (ahead >= 0) newest.last = uplink << 24 | psn.value();
  s.uplinks_seen |= bit;
  const std::uint32_t wanted = 4 * std::max(rules_.uplinks, std::uint32_t{2});
  if (s.learned < wanted && ++s.learned < wanted) return;
  const std::uint32_t paths = paths_learned(s);
  if (paths == 0) return;
  reset_paths(qp, paths);
  s.flags = static_cast<std::uint8_t>((s.flags & ~NackFlag::learning) | NackFlag::probation);
  s.learned = 0;
}

// 0: not known yet.
std::uint32_t NackFilterUnit::paths_learned(const NackState& s) const noexcept {
  std::uint32_t sum = 0;
  bool plain = true;
  for (std::uint32_t i = 0; i < rules_.uplinks; ++i) {
    if ((s.uplinks_seen >> i & 1) != 0) sum += rules_.weights[i];
    plain = plain && rules_.weights[i] == 1;
  }
  if (s.stride == 0) return 0;
  // READs alone, or losses, can make the distances multiples of more.
  return plain && s.stride <= rules_.most_paths() ? s.stride : sum;
}

// Two consecutive packets of one path have no other packet of that path between them. For READs only the last two are
// known, and are taken as they are.
bool NackFilterUnit::follows(const NackState& s, Psn before, Psn psn) const noexcept {
  return psn == s.paths.next(before) || s.read_count[0] != 0;
}

// Whether a packet may have been sent by the previous mapping, or a second time since: then its uplink proves nothing.
bool NackFilterUnit::from_before(const NackState& s, Psn psn) const noexcept {
  if (s.judged_from == NackState::kEvery) return false;
  const std::int32_t ahead = psn.distance_from(Psn(s.judged_from));
  return ahead < 0 && ahead > -static_cast<std::int32_t>(rules_.window_psns);
}

// Another connection of the same queue pair, or PSNs that make no sense.
void NackFilterUnit::restart(NackQp qp, DataVerdict& verdict) const noexcept {
  NackState& s = qp.state();
  forget_lost(qp);
  s.ring_size = 0;
  s.read_count = {};
  s.epsn_known = 0;
  s.judged_from = NackState::kEvery;
  s.flags &= ~(NackFlag::armed | NackFlag::grown | NackFlag::watching | NackFlag::in_order);
  s.dropped_proofs = s.kept_proofs = 0;
  s.watch_from = NackState::kNone;
  if (s.guard_at == 0) verdict.release = release(qp);
  for (std::uint32_t i = 0; i < s.paths.value(); ++i) qp.path(i).last = NackPath::kUnknown;
}

// --- the set of PSNs that are lost -------------------------------------------------------------------------------

Psn NackFilterUnit::highest(NackQp qp) const noexcept {
  const NackState& s = qp.state();
  std::optional<Psn> top;
  for (std::uint32_t i = 0; i < s.paths.value(); ++i) {
    const NackPath& path = qp.path(i);
    if (path.known()) top = top ? later(*top, path.psn()) : path.psn();
  }
  return top.value_or(Psn(0));
}

bool NackFilterUnit::is_lost(NackQp qp, Psn psn) const noexcept {
  const NackState& s = qp.state();
  if (s.lost_count == 0) return false;
  const std::int32_t back = Psn(s.top).distance_from(psn);
  if (back < 0 || back >= static_cast<std::int32_t>(rules_.window_psns)) return false;
  const std::uint32_t bit = psn.value() & (rules_.window_psns - 1);
  return (qp.lost_word(bit / 64) >> bit % 64 & 1) != 0;
}

// The window follows the highest PSN: what falls out of it is forgotten.
void NackFilterUnit::raise_top(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  if (s.lost_count == 0) return;
  const std::int32_t by = psn.distance_from(Psn(s.top));
  if (by <= 0) return;
  if (by >= static_cast<std::int32_t>(rules_.window_psns)) {
    forget_lost(qp);
    return;
  }
  for (std::uint32_t at = s.top + 1, left = static_cast<std::uint32_t>(by); left > 0;) {
    const std::uint32_t bit = at & (rules_.window_psns - 1);
    const std::uint32_t count = std::min(left, 64 - bit % 64);
    const std::uint64_t mask = (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << bit % 64;
    std::uint64_t& word = qp.lost_word(bit / 64);
    s.lost_count -= static_cast<std::uint32_t>(std::popcount(word & mask));
    word &= ~mask;
    at += count;
    left -= count;
  }
  s.top = psn.value();
  if (s.lost_count == 0) s.flags &= ~NackFlag::lost;
}

void NackFilterUnit::add_lost(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  if (s.lost_count == 0) s.top = later(highest(qp), psn).value();
  const std::int32_t back = Psn(s.top).distance_from(psn);
  if (back < 0 || back >= static_cast<std::int32_t>(rules_.window_psns)) return;
  const std::uint32_t bit = psn.value() & (rules_.window_psns - 1);
  std::uint64_t& word = qp.lost_word(bit / 64);
  const std::uint64_t mask = std::uint64_t{1} << bit % 64;
  if ((word & mask) != 0) return;
  word |= mask;
  ++s.lost_count;
  s.flags |= NackFlag::lost;
}

bool NackFilterUnit::remove_lost(NackQp qp, Psn psn) const noexcept {
  if (!is_lost(qp, psn)) return false;
  NackState& s = qp.state();
  const std::uint32_t bit = psn.value() & (rules_.window_psns - 1);
  qp.lost_word(bit / 64) &= ~(std::uint64_t{1} << bit % 64);
  if (--s.lost_count == 0) s.flags &= ~NackFlag::lost;
  return true;
}

void NackFilterUnit::prune_lost(NackQp qp, Psn until) const noexcept {
  NackState& s = qp.state();
  for (std::uint32_t i = 0; i < rules_.window_psns / 64 && s.lost_count != 0; ++i) {
    for (std::uint64_t left = qp.lost_word(i); left != 0; left &= left - 1) {
      const std::uint32_t bit = i * 64 + static_cast<std::uint32_t>(std::countr_zero(left));
      const Psn psn = Psn(s.top) - ((s.top - bit) & (rules_.window_psns - 1));
      if (until.distance_from(psn) >= 0) remove_lost(qp, psn);
    }
  }
}

void NackFilterUnit::forget_lost(NackQp qp) const noexcept {
  NackState& s = qp.state();
  if (s.lost_count == 0) return;
  for (std::uint32_t i = 0; i < rules_.window_psns / 64; ++i) qp.lost_word(i) = 0;
  s.lost_count = 0;
  s.flags &= ~NackFlag::lost;
}

void NackFilterUnit::note_read(NackState& s, Psn psn, std::uint32_t psns) noexcept {
  s.read_first = {(psn + 1).value(), s.read_first[0]};
  s.read_count = {psns - 1, s.read_count[0]};
}

bool NackFilterUnit::never_sent(const NackState& s, Psn psn) noexcept {
  for (std::size_t i = 0; i < s.read_first.size(); ++i) {
    if (s.read_count[i] != 0 && psn.in_window(Psn(s.read_first[i]), s.read_count[i])) return true;
  }
  return false;
}

// --- NACKs -------------------------------------------------------------------------------------------------------

// The receiver has everything before `epsn`.
void NackFilterUnit::heard_of(NackState& s, Psn epsn) noexcept {
  s.epsn = epsn.value();
  s.epsn_known = 1;
  const bool learned = (s.flags & (NackFlag::learning | NackFlag::probation)) == 0;
  if (learned && s.judged_from != NackState::kEvery && epsn.distance_from(Psn(s.judged_from)) >= 0) {
    s.judged_from = NackState::kEvery;
    s.flags &= ~NackFlag::grown;
  }
}

// Whether this PSN was to come in through an uplink that is down, and has not.
bool NackFilterUnit::on_path_down(NackQp qp, Psn psn, std::uint64_t uplinks_down) const noexcept {
  const NackPath& path = qp.path(qp.state().paths.class_of(psn));
  return path.known() && path.uplink() < NackRules::kMaxUplinks && (uplinks_down >> path.uplink() & 1) != 0 &&
         path.psn().distance_from(psn) < 0;
}

bool NackFilterUnit::on_uplinks_down(NackQp qp, std::uint64_t uplinks_down) const noexcept {
  const NackState& s = qp.state();
  const bool pending = (s.flags & NackFlag::pending) != 0 && (s.flags & NackFlag::learning) == 0;
  return pending && on_path_down(qp, Psn(s.blocked), uplinks_down) && release(qp);
}

NackVerdict NackFilterUnit::on_nack(NackQp qp, std::uint64_t now_ns, Psn epsn, std::uint32_t msn,
                                    std::uint64_t uplinks_down) const noexcept {
  NackState& s = qp.state();
  if ((s.flags & NackFlag::in_order) != 0 || learn_from(qp, epsn, true)) {
    heard_of(s, epsn);
    return NackVerdict::in_order;
  }
  if ((s.flags & NackFlag::pending) != 0 && epsn.distance_from(Psn(s.blocked)) > 0) settle(s);
  const bool guarded = (s.flags & NackFlag::grown) != 0 && rules_.guard_ns != 0;
  const bool learning = (s.flags & (NackFlag::learning | NackFlag::probation)) != 0;
  if (learning && !guarded) return NackVerdict::unknown;
  // The receiver has acknowledged this PSN since: the NACK is a late copy.
  const std::int32_t behind = Psn(s.epsn).distance_from(epsn);
  if (s.epsn_known != 0 && behind > 0 && behind < kRestartDistance) return NackVerdict::blocked;
  heard_of(s, epsn);

  bool arm = true;
  NackVerdict verdict = NackVerdict::stored;
  const NackPath& path = qp.path(s.paths.class_of(epsn));
  if (learning || s.judged_from != NackState::kEvery) {
    arm = false;
    if (!guarded) verdict = NackVerdict::unknown;
  } else if (rules_.check == NackCheck::gap) {
    verdict = judge_gap(qp, epsn, arm);
  } else if (rules_.check == NackCheck::hwm) {
    if (path.known() && path.psn().distance_from(epsn) > 0) verdict = NackVerdict::valid;
  } else if (ring_proves(qp, epsn)) {
    verdict = NackVerdict::valid;
  }
  if (verdict == NackVerdict::stored && !learning && on_path_down(qp, epsn, uplinks_down))
    verdict = NackVerdict::path_down;
  const bool again = (s.flags & NackFlag::pending) != 0 && Psn(s.blocked) == epsn;
  if (verdict != NackVerdict::stored) {
    if (again) settle(s);
    return verdict;
  }
  if (!again) s.guard_at = rules_.guard_ns == 0 ? 0 : now_ns + rules_.guard_ns;
  s.blocked = epsn.value();
  s.blocked_msn = msn;
  s.flags &= ~(NackFlag::pending | NackFlag::armed);
  if (arm || s.guard_at != 0) s.flags |= NackFlag::pending;
  if (arm) s.flags |= NackFlag::armed;
  start_watching(qp);
  return verdict;
}

NackVerdict NackFilterUnit::judge_gap(NackQp qp, Psn epsn, bool& arm) const noexcept {
  const NackState& s = qp.state();
  if (is_lost(qp, epsn)) return NackVerdict::valid;
  const std::int32_t back = highest(qp).distance_from(epsn);
  if (back >= static_cast<std::int32_t>(rules_.window_psns) || back < -kRestartDistance) return NackVerdict::unknown;
  const NackPath& path = qp.path(s.paths.class_of(epsn));
  if (!path.known()) {
    // It may have left before anything was recorded: only time can tell.
    arm = false;
    return rules_.guard_ns != 0 ? NackVerdict::stored : NackVerdict::unknown;
  }
  arm = path.psn().distance_from(epsn) < 0;
  return NackVerdict::stored;
}

void NackFilterUnit::on_receipt(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  const Psn next = psn + 1;
  static_cast<void>(learn_from(qp, next, false));
  if (s.epsn_known == 0 || next.distance_from(Psn(s.epsn)) > 0) heard_of(s, next);
  if ((s.flags & NackFlag::pending) != 0 && psn.distance_from(Psn(s.blocked)) >= 0) settle(s);
  if (s.lost_count != 0) prune_lost(qp, psn);
}

void NackFilterUnit::on_not_ready(NackQp qp, Psn psn) const noexcept {
  on_receipt(qp, psn - 1);
  NackState& s = qp.state();
  if ((s.flags & NackFlag::pending) != 0 && Psn(s.blocked) == psn) settle(s);
}

bool NackFilterUnit::on_guard(NackQp qp, std::uint64_t now_ns) const noexcept {
  NackState& s = qp.state();
  if (s.guard_at == 0 || s.guard_at > now_ns || !release(qp)) return false;
  // It has left, and a receiver that keeps early packets would have acknowledged it since, unless the last hop lost it.
  constexpr std::uint8_t kNotJudged = NackFlag::learning | NackFlag::probation;
  if ((s.flags & kNotJudged) == 0 && s.judged_from == NackState::kEvery && has_left(qp, Psn(s.blocked))) {
    static_cast<void>(has_dropped(qp, Psn(s.blocked)));
  }
  return true;
}

bool NackFilterUnit::release(NackQp qp) const noexcept {
  NackState& s = qp.state();
  const bool pending = (s.flags & NackFlag::pending) != 0;
  settle(s);
  return pending;
}

void NackFilterUnit::settle(NackState& s) noexcept {
  s.flags &= ~(NackFlag::pending | NackFlag::armed);
  s.guard_at = 0;
}

// --- the PSN queue -----------------------------------------------------------------------------------------------

void NackFilterUnit::push_ring(NackQp qp, Psn psn) const noexcept {
  NackState& s = qp.state();
  const std::uint32_t entry = rules_.ring_entry_bits == 8 ? kEntryBytes8 : kEntryBytes24;
  const std::uint32_t value = psn.value();
  std::memcpy(qp.ring() + s.ring_next * entry, &value, entry);
  s.ring_next = s.ring_next + 1 == rules_.ring_entries ? 0 : s.ring_next + 1;
  if (s.ring_size < rules_.ring_entries) ++s.ring_size;
}

Psn NackFilterUnit::ring_at(NackQp qp, std::uint32_t i, Psn near) const noexcept {
  const NackState& s = qp.state();
  const std::uint32_t slot = (s.ring_next + rules_.ring_entries - s.ring_size + i) % rules_.ring_entries;
  if (rules_.ring_entry_bits == 8) {
    const auto low = static_cast<std::uint8_t>(qp.ring()[slot]);
    const auto ahead = static_cast<std::int8_t>(low - near.value());
    return near + static_cast<std::uint32_t>(ahead);
  }
  std::uint32_t value = 0;
  std::memcpy(&value, qp.ring() + slot * kEntryBytes24, kEntryBytes24);
  return Psn(value);
}

// Whether the queue holds a proof that `epsn` is lost, as the paper or as ring_scan sees it. Takes out of the queue
// what is of no more use.
bool NackFilterUnit::ring_proves(NackQp qp, Psn epsn) const noexcept {
  NackState& s = qp.state();
  const auto behind = [&](Psn psn) { return psn.distance_from(epsn) > 0; };
  const auto same_path = [&](Psn psn) { return s.paths.class_of(psn) == s.paths.class_of(epsn); };
  if (rules_.check == NackCheck::ring_first) {
    while (s.ring_size != 0) {
      const Psn psn = ring_at(qp, 0, epsn);
      pop_ring(s);
      if (behind(psn)) return same_path(psn);
    }
    return false;
  }
  bool proof = false;
  for (std::uint32_t i = 0; i < s.ring_size && !proof; ++i) {
    const Psn psn = ring_at(qp, i, epsn);
    proof = behind(psn) && same_path(psn);
  }
  while (s.ring_size != 0 && !behind(ring_at(qp, 0, epsn))) pop_ring(s);
  return proof;
}

}  // namespace weft::stages
