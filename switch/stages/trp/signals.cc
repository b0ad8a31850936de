// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/signals.h"

#include <algorithm>
#include <bit>

#include "switch/wire/hash.h"

namespace weft::stages {

TrpSignals::TrpSignals(const TrpSignalSettings& settings)
    : settings_(settings), ways_(std::bit_ceil(std::max(settings.flows, kWays))) {}

TrpWay* TrpSignals::set_of(const wire::FlowName& name) noexcept {
  const std::uint64_t hash = wire::mix64(name.addresses ^ 0xc2b2ae3d27d4eb4full,
                                         (std::uint64_t{name.ipv6} << 32 | name.dest_qp) + 0x9e3779b97f4a7c15ull);
  return &ways_[(hash & (ways_.size() / kWays - 1)) * kWays];
}

TrpWay* TrpSignals::find(const wire::FlowName& name) noexcept {
  TrpWay* const set = set_of(name);
  for (TrpWay* way = set; way != set + kWays; ++way) {
    if (way->used && way->name == name) return way;
  }
  return nullptr;
}

TrpWay& TrpSignals::find_or_add(TimeNs now, const wire::FlowName& name) noexcept {
  TrpWay* way = find(name);
  if (way == nullptr) {
    way = set_of(name);
    TrpWay* const end = way + kWays;
    for (TrpWay* other = way; other != end; ++other) {
      if (way->used && (!other->used || other->seen_at < way->seen_at)) way = other;
    }
    *way = {.name = name, .used = true};
  }
  way->seen_at = now;
  return *way;
}

bool TrpSignals::tell(TimeNs now, TrpWay& way) const noexcept {
  if (way.told && now - way.told_at < settings_.interval_ns) return false;
  way.told = true;
  way.told_at = now;
  return true;
}

void TrpSignals::on_records(TimeNs now, const wire::FlowName& name, std::uint8_t hops) noexcept {
  TrpWay& way = find_or_add(now, name);
  way.has_hops = true;
  way.hops = hops;
}

bool TrpSignals::on_echo(TimeNs now, const wire::FlowName& name, const wire::IntPath& path) noexcept {
  TrpWay* const way = find(name);
  if (way == nullptr || !way->has_hops) return false;
  std::uint32_t longest = 0;
  for (unsigned i = way->hops; i < path.hops; ++i) {
    longest = std::max(longest, path.hop[i].queue * wire::kIntQueueBytes);
  }
  return longest >= settings_.queue_bytes && tell(now, *way);
}

void TrpSignals::on_left(TimeNs now, const wire::FlowName& name, wire::Psn psn, bool ack_req) noexcept {
  TrpWay& way = find_or_add(now, name);
  if (way.timing) {
    const bool again = psn.distance_from(way.psn) <= 0;
    if (!again && now - way.left_at < kLostAfter) return;
    way.timing = false;
    if (again) return;
  }
  if (!ack_req) return;
  way.timing = true;
  way.psn = psn;
  way.left_at = now;
}

bool TrpSignals::on_answer(TimeNs now, const wire::FlowName& name, wire::Psn psn, bool ack) noexcept {
  TrpWay* const way = find(name);
  if (way == nullptr || !way->timing) return false;
  if (!ack) {
    way->timing = false;
    return false;
  }
  if (psn.distance_from(way->psn) < 0) return false;
  way->timing = false;
  ++round_trips_;
  last_rtt_ = now - way->left_at;
  return last_rtt_ >= settings_.rtt_ns && tell(now, *way);
}

}  // namespace weft::stages
