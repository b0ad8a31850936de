// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/unit.h"

#include <algorithm>
#include <bit>

#include "switch/wire/hash.h"

namespace weft::stages {

namespace {

// Its interval is not over.
bool is_told(TimeNs now, TimeNs interval, const PnpFlow& flow) noexcept {
  return flow.notified && now - flow.notified_at < interval;
}

}  // namespace

PnpUnit::PnpUnit(std::uint32_t max_flows) : sets_(std::bit_ceil(std::max(max_flows, kWays)) / kWays) {}

std::uint32_t PnpUnit::set_of(const PnpName& name) const noexcept {
  const std::uint64_t hash = wire::mix64(name.addresses ^ 0x9e3779b97f4a7c15ull,
                                         (std::uint64_t{name.ipv6} << 32 | name.dest_qp) + 0xd6e8feb86659fd93ull);
  return static_cast<std::uint32_t>(hash) & (sets() - 1);
}

PnpFlow* PnpUnit::find(const PnpName& name) noexcept {
  PnpFlow* const set = sets_[set_of(name)].ways;
  for (PnpFlow* flow = set; flow != set + kWays; ++flow) {
    if (flow->known && flow->name == name) return flow;
  }
  return nullptr;
}

PnpFlow* PnpUnit::learn(TimeNs now, TimeNs interval, const PnpName& name, std::uint32_t client_qp,
                        Learned& learned) noexcept {
  PnpFlow* flow = find(name);
  if (flow != nullptr) {
    const bool same = flow->client_qp == client_qp;
    if (!same) *flow = {.name = name, .client_qp = client_qp, .known = true};
    flow->used = now;
    learned = same ? Learned::known : Learned::added;
    return flow;
  }
  PnpFlow* const set = sets_[set_of(name)].ways;
  for (PnpFlow* other = set; other != set + kWays; ++other) {
    if (other->known && is_told(now, interval, *other)) continue;
    if (flow == nullptr || (flow->known && (!other->known || other->used < flow->used))) flow = other;
  }
  learned = flow == nullptr ? Learned::full : flow->known ? Learned::evicted : Learned::added;
  if (flow == nullptr) return nullptr;
  *flow = {.name = name, .client_qp = client_qp, .known = true, .used = now};
  return flow;
}

void PnpUnit::forget(const PnpName& name) noexcept {
  if (PnpFlow* flow = find(name)) *flow = {};
}

PnpVerdict PnpUnit::on_marked(TimeNs now, TimeNs interval, PnpFlow& flow, std::uint32_t& client_qp) noexcept {
  ++flow.marked;
  flow.used = now;
  if (is_told(now, interval, flow)) return PnpVerdict::clear;
  ++flow.cnps;
  flow.notified = true;
  flow.notified_at = now;
  client_qp = flow.client_qp;
  return PnpVerdict::notify;
}

void PnpUnit::not_notified(const PnpName& name) noexcept {
  PnpFlow* flow = find(name);
  if (flow == nullptr) return;
  --flow->cnps;
  flow->notified = false;
}

}  // namespace weft::stages
