// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/pairing.h"

#include <algorithm>
#include <bit>

#include "switch/stages/rdma_track/order.h"
#include "switch/wire/hash.h"

namespace weft::stages {

using tables::PairSource;
using tables::QpEntry;
using tables::QpKey;
using tables::QpTransport;
using tables::RequestFlag;
using tables::ResponseFlag;
using wire::Psn;

namespace {

constexpr std::uint32_t kAll = ~std::uint32_t{0};
constexpr std::uint8_t kGiveUp = 30;

constexpr std::uint32_t bit(unsigned i) noexcept {
  return std::uint32_t{1} << i;
}

// One group for every 256 entries: groups are needed only while directions are unpaired.
std::size_t group_count(std::uint32_t capacity) noexcept {
  return std::clamp<std::size_t>(std::bit_floor(capacity / 256), 8, 256);
}

TrackCounter counter_of(PairSource source) noexcept {
  switch (source) {
    case PairSource::cm:
      return TrackCounter::pairs_cm;
    case PairSource::config:
      return TrackCounter::pairs_config;
    case PairSource::agent:
      return TrackCounter::pairs_agent;
    case PairSource::traffic:
    case PairSource::none:
      break;
  }
  return TrackCounter::pairs_traffic;
}

}  // namespace

QpPairing::QpPairing(tables::QpTable& table, TrackCounters& counters, bool infer)
    : table_(table), counters_(counters), infer_(infer), groups_(infer ? group_count(table.capacity()) : 0, Group{}) {}

// --- candidates --------------------------------------------------------------------------------------------------

QpPairing::Group* QpPairing::group_of(const QpKey& key, unsigned& side) noexcept {
  const std::uint64_t back = table_.reverse(key, wire::Qpn(0)).addresses;
  const std::uint64_t low = std::min(key.addresses, back);
  side = key.addresses == low ? 0 : 1;
  const std::uint32_t family = key.qp & QpEntry::kV6;
  const std::size_t set = wire::mix64(low ^ wire::detail::kMix0, family ^ wire::detail::kMix1) % groups_.size();
  Group* const ways = &groups_[set / kWays * kWays];
  for (std::size_t i = 0; i < kWays; ++i) {
    const bool used = (ways[i].occupied[0] | ways[i].occupied[1]) != 0;
    if (used && ways[i].addresses == low && ways[i].family == family) return &ways[i];
  }
  // Unused ones first, then the one without evidence for longest.
  Group* const spare = std::min_element(ways, ways + kWays, [](const Group& a, const Group& b) {
    const bool a_used = (a.occupied[0] | a.occupied[1]) != 0, b_used = (b.occupied[0] | b.occupied[1]) != 0;
    return a_used != b_used ? b_used : static_cast<std::int32_t>(a.last_used - b.last_used) < 0;
  });
  return spare;
}

QpPairing::Group* QpPairing::group_for(const QpKey& key, unsigned& side, std::uint32_t tick) noexcept {
  Group* const group = group_of(key, side);
  const std::uint64_t low = std::min(key.addresses, table_.reverse(key, wire::Qpn(0)).addresses);
  const std::uint32_t family = key.qp & QpEntry::kV6;
  const bool used = (group->occupied[0] | group->occupied[1]) != 0;
  if (used && group->addresses == low && group->family == family) return group;
  if (used && tick - group->last_used < kIdleTicks) return nullptr;
  empty(*group);
  group->addresses = low;
  group->family = family;
  group->last_used = tick;
  return group;
}

void QpPairing::empty(Group& group) noexcept {
  for (unsigned side = 0; side < 2; ++side) {
    for (std::uint32_t left = group.occupied[side]; left != 0; left &= left - 1) {
      const std::uint32_t entry = group.candidate[side][static_cast<unsigned>(std::countr_zero(left))].entry;
      table_.entry(entry).response.clear(ResponseFlag::enlisted);
    }
    group.occupied[side] = 0;
  }
  group.partial = false;
}

// Where an entry stands among the candidates, under the position it had when it was enlisted.
bool QpPairing::locate(std::uint32_t position, std::uint32_t listed_as, Place& place) noexcept {
  if (!table_.entry(position).response.has(ResponseFlag::enlisted)) return false;
  place.group = group_of(table_.key(position), place.side);
  for (std::uint32_t left = place.group->occupied[place.side]; left != 0; left &= left - 1) {
    place.slot = static_cast<unsigned>(std::countr_zero(left));
    if (place.group->candidate[place.side][place.slot].entry == listed_as) return true;
  }
  return false;
}

bool QpPairing::enlist(std::uint32_t position, std::uint16_t source_port, std::uint32_t tick) noexcept {
  unsigned side = 0;
  Group* const group = group_for(table_.key(position), side, tick);
  if (group == nullptr) return false;
  if (group->occupied[side] == kAll) {
    group->partial = true;
    return false;
  }
  const auto slot = static_cast<unsigned>(std::countr_one(group->occupied[side]));
  group->occupied[side] |= bit(slot);
  group->candidate[side][slot] = {position, kAll, kNobody, source_port, 0};
  for (std::uint32_t left = group->occupied[1 - side]; left != 0; left &= left - 1) {
    group->candidate[1 - side][static_cast<unsigned>(std::countr_zero(left))].possible |= bit(slot);
  }
  table_.entry(position).response.set(ResponseFlag::enlisted);
  return true;
}

void QpPairing::withdraw(std::uint32_t position) noexcept {
  Place place;
  if (!locate(position, place)) return;
  place.group->occupied[place.side] &= ~bit(place.slot);
  table_.entry(position).response.clear(ResponseFlag::enlisted);
}

void QpPairing::moved(std::uint32_t from, std::uint32_t to) noexcept {
  Place place;
  if (locate(to, from, place)) place.group->candidate[place.side][place.slot].entry = to;
}

void QpPairing::want(std::uint32_t position, std::uint16_t source_port, std::uint32_t tick) noexcept {
  if (!infer_) return;
  table_.entry(position).response.set(ResponseFlag::evidence);
  enlist(position, source_port, tick);
}

void QpPairing::revisit(std::uint32_t position, std::uint32_t tick) noexcept {
  const QpEntry& e = table_.entry(position);
  if (e.response.has(ResponseFlag::evidence) && !e.response.has(ResponseFlag::enlisted)) enlist(position, 0, tick);
}

// --- links -------------------------------------------------------------------------------------------------------

void QpPairing::link(std::uint32_t a, std::uint32_t b, PairSource source, std::uint8_t confidence) noexcept {
  QpEntry* const side[2] = {&table_.entry(a), &table_.entry(b)};
  if (side[0]->peer != b) {
    unlink(a);
    unlink(b);
    counters_.add(counter_of(source));
  }
  for (unsigned i = 0; i < 2; ++i) {
    QpEntry& e = *side[i];
    const QpEntry& other = *side[1 - i];
    e.peer = i == 0 ? b : a;
    e.set_source(source);
    e.set_confidence(confidence);
    if (other.request.has(RequestFlag::gap)) e.response.set(ResponseFlag::watch);
    if (e.pmtu_code() == 0 && other.pmtu_code() != 0) {
      e.set_pmtu_code(other.pmtu_code());
      e.request.clear(RequestFlag::want_pmtu);
    }
  }
  if (source != PairSource::traffic) {
    settle(a);
    settle(b);
  }
}

void QpPairing::unlink(std::uint32_t position) noexcept {
  const std::uint32_t peer = table_.entry(position).peer;
  if (peer == QpEntry::kNoPeer) return;
  for (const std::uint32_t i : {position, peer}) {
    QpEntry& e = table_.entry(i);
    e.peer = QpEntry::kNoPeer;
    e.set_source(PairSource::none);
    e.set_confidence(0);
    e.response.clear(ResponseFlag::watch);
    if (infer_ && e.transport() == QpTransport::rc) e.response.set(ResponseFlag::evidence);
    Place place;
    if (locate(i, place)) place.group->candidate[place.side][place.slot].possible = kAll;
  }
}

void QpPairing::settle(std::uint32_t position) noexcept {
  withdraw(position);
  table_.entry(position).response.clear(ResponseFlag::evidence);
}

void QpPairing::forget(std::uint32_t position) noexcept {
  unlink(position);
  settle(position);
}

void QpPairing::weaken(std::uint32_t position, std::uint8_t by) noexcept {
  QpEntry& e = table_.entry(position);
  const std::uint8_t left = e.confidence() > by ? static_cast<std::uint8_t>(e.confidence() - by) : std::uint8_t{0};
  if (left < kGiveUp) {
    unlink(position);
    counters_.add(TrackCounter::pairs_dissolved);
    return;
  }
  e.set_confidence(left);
  table_.entry(e.peer).set_confidence(left);
}

// --- evidence ----------------------------------------------------------------------------------------------------

QpPairing::Fit QpPairing::fit(std::uint32_t requests, Psn psn) const noexcept {
  const QpEntry& e = table_.entry(requests);
  if (e.request.has(RequestFlag::unsynced)) return Fit::unknown;
  const std::int32_t behind = Psn(e.request.value()).distance_from(psn) - 1;
  if (behind >= kOutstanding) return Fit::no;
  if (behind >= 0) return Fit::yes;
  // A READ of unknown span may reach further than the expected PSN says.
  return e.request.has(RequestFlag::uncertain) && behind > -kRestartDistance ? Fit::unknown : Fit::no;
}

// Candidates of the other way that neither side excludes.
std::uint32_t QpPairing::mutual(const Place& at) const noexcept {
  const unsigned other = 1 - at.side;
  std::uint32_t result = 0;
  std::uint32_t left = at.group->candidate[at.side][at.slot].possible & at.group->occupied[other];
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    if ((at.group->candidate[other][i].possible & bit(at.slot)) != 0) result |= bit(i);
  }
  return result;
}

// Excludes the candidates whose requests cannot have been answered with this PSN; returns those that fit.
std::uint32_t QpPairing::exclude(const Place& at, Psn psn) noexcept {
  const unsigned other = 1 - at.side;
  std::uint32_t fitting = 0;
  for (std::uint32_t left = at.group->occupied[other]; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const Fit f = fit(at.group->candidate[other][i].entry, psn);
    if (f == Fit::no) at.group->candidate[at.side][at.slot].possible &= ~bit(i);
    if (f == Fit::yes) fitting |= bit(i);
  }
  return fitting;
}

bool QpPairing::derived_ports(const Place& a, unsigned other) const noexcept {
  const Candidate& mine = a.group->candidate[a.side][a.slot];
  const Candidate& theirs = a.group->candidate[1 - a.side][other];
  // A direction's destination QP is the other direction's sender.
  const wire::Qpn my_sender = table_.entry(theirs.entry).dest_qp(), their_sender = table_.entry(mine.entry).dest_qp();
  const std::uint16_t symmetric = linux_flow_port(my_sender, their_sender);
  return (mine.source_port == symmetric && theirs.source_port == symmetric) ||
         (mine.source_port == rxe_port(my_sender) && theirs.source_port == rxe_port(their_sender));
}

// Of those candidates, the ones whose ports say that they belong here: derived from the QPNs if any are, else equal.
std::uint32_t QpPairing::same_ports(const Place& at, std::uint32_t among) const noexcept {
  std::uint32_t derived = 0, equal = 0;
  const std::uint16_t mine = at.group->candidate[at.side][at.slot].source_port;
  for (; among != 0; among &= among - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(among));
    if (derived_ports(at, i)) derived |= bit(i);
    if (at.group->candidate[1 - at.side][i].source_port == mine) equal |= bit(i);
  }
  return derived != 0 ? derived : equal;
}

void QpPairing::on_evidence(std::uint32_t position, Psn psn, bool with_psn, std::uint16_t source_port,
                            std::uint32_t tick) noexcept {
  if (budget_tick_ != tick) {
    budget_tick_ = tick;
    budget_ = kEvidencePerTick;
  }
  if (budget_ == 0) return;
  --budget_;
  const std::uint32_t peer = table_.entry(position).peer;
  if (peer != QpEntry::kNoPeer && !table_.entry(peer).response.has(ResponseFlag::enlisted)) enlist(peer, 0, tick);
  Place at;
  if (!locate(position, at) && (!enlist(position, source_port, tick) || !locate(position, at))) return;
  Candidate& mine = at.group->candidate[at.side][at.slot];
  at.group->last_used = tick;
  mine.source_port = source_port;
  if (with_psn && mine.last_psn == psn.value()) return;
  std::uint32_t fitting = 0;
  if (with_psn) {
    mine.last_psn = psn.value();
    fitting = exclude(at, psn);
  }
  const std::uint32_t left = mutual(at);
  if (peer != QpEntry::kNoPeer) {
    if (with_psn) confirm(at, left, fitting);
  } else if (left == 0) {
    // The partner has not been seen, or was excluded by a packet that came another way: start over.
    mine.possible = kAll;
  } else {
    choose(at, left, fitting, with_psn);
  }
}

// New evidence about a pair that is linked but not settled.
void QpPairing::confirm(const Place& at, std::uint32_t left, std::uint32_t fitting) noexcept {
  const unsigned other = 1 - at.side;
  const std::uint32_t position = at.group->candidate[at.side][at.slot].entry;
  QpEntry& e = table_.entry(position);
  std::uint32_t partner = 0;
  for (std::uint32_t rest = at.group->occupied[other]; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(rest));
    if (at.group->candidate[other][i].entry == e.peer) partner = bit(i);
  }
  if ((left & partner) == 0) {
    weaken(position, 25);
    return;
  }
  if (left != partner && same_ports(at, left) != partner) return;
  if ((fitting & partner) == 0) return;
  const std::uint8_t limit = at.group->partial ? kSettledPartial : kSettled;
  const int raised = e.confidence() + (at.group->partial ? 2 : 7);
  const auto confidence = static_cast<std::uint8_t>(std::min<int>(raised, limit));
  const std::uint32_t peer = e.peer;
  e.set_confidence(std::max(confidence, e.confidence()));
  table_.entry(peer).set_confidence(e.confidence());
  if (e.confidence() < limit) return;
  settle(position);
  settle(peer);
}

// Evidence about a direction without a partner.
void QpPairing::choose(const Place& at, std::uint32_t left, std::uint32_t fitting, bool with_psn) noexcept {
  const unsigned other = 1 - at.side;
  const bool alone = std::has_single_bit(at.group->occupied[at.side]) &&
                     std::has_single_bit(at.group->occupied[other]) && !at.group->partial;
  std::uint32_t chosen = left;
  int confidence = alone ? 60 : 50;
  if (!std::has_single_bit(chosen)) {
    chosen = same_ports(at, left);
    confidence = 35;
  }
  if (!std::has_single_bit(chosen)) return;
  // Without a PSN that fits there is nothing to go by, unless nobody else is there.
  if ((fitting & chosen) == 0 && !(alone && !with_psn)) return;
  if (!with_psn) confidence = 35;
  const auto i = static_cast<unsigned>(std::countr_zero(chosen));
  if (derived_ports(at, i)) confidence += 25;
  const std::uint32_t partner = at.group->candidate[other][i].entry;
  if (table_.entry(partner).paired()) {
    weaken(partner, 20);
    return;
  }
  link(at.group->candidate[at.side][at.slot].entry, partner, PairSource::traffic,
       static_cast<std::uint8_t>(confidence));
}

}  // namespace weft::stages
