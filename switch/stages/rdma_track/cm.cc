// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/cm.h"

#include <algorithm>
#include <bit>

#include "switch/wire/hash.h"

namespace weft::stages {

using tables::QpEntry;
using tables::QpKey;

namespace {

std::size_t record_count(std::uint32_t capacity) noexcept {
  return std::clamp<std::size_t>(std::bit_floor(capacity / 32), 64, 4096);
}

}  // namespace

CmConnections::CmConnections(tables::QpTable& table, TrackCounters& counters)
    : table_(table), counters_(counters), records_(record_count(table.capacity())) {
  services_.reserve(kMaxServices);
}

CmConnections::Record* CmConnections::set_of(std::uint64_t addresses, std::uint32_t requester_id) noexcept {
  const std::uint64_t hash = wire::mix64(addresses ^ wire::detail::kMix0, requester_id ^ wire::detail::kMix1);
  return &records_[hash % records_.size() / kWays * kWays];
}

CmConnections::Record* CmConnections::find(std::uint64_t addresses, std::uint32_t family, std::uint32_t requester_id,
                                           std::uint32_t tick) noexcept {
  Record* const set = set_of(addresses, requester_id);
  for (std::size_t i = 0; i < kWays; ++i) {
    Record& r = set[i];
    if (!r.used || r.addresses != addresses || r.family != family || r.requester_id != requester_id) continue;
    if (tick - r.tick < kLifetimeTicks) return &r;
    drop(r);
  }
  return nullptr;
}

void CmConnections::drop(Record& record) noexcept {
  if (record.family != 0) table_.pairs().release(static_cast<std::uint32_t>(record.addresses));
  record.used = false;
  --used_;
}

void CmConnections::on_req(const Request& request, std::uint32_t tick) noexcept {
  const std::uint32_t family = request.addresses.qp & QpEntry::kV6;
  Record* r = find(request.addresses.addresses, family, request.comm_id, tick);
  if (r != nullptr && r->requester_qpn == request.qpn && r->requester_psn == request.starting_psn) {
    r->tick = tick;
    return;
  }
  if (r == nullptr) {
    Record* const set = set_of(request.addresses.addresses, request.comm_id);
    r = std::min_element(set, set + kWays, [](const Record& a, const Record& b) {
      return a.used != b.used ? b.used : static_cast<std::int32_t>(a.tick - b.tick) < 0;
    });
  }
  if (r->used) drop(*r);
  if (family != 0) table_.pairs().retain(static_cast<std::uint32_t>(request.addresses.addresses));
  *r = Record{};
  r->addresses = request.addresses.addresses;
  r->family = family;
  r->service_id = request.service_id;
  r->requester_id = request.comm_id;
  r->requester_qpn = request.qpn;
  r->requester_psn = request.starting_psn;
  r->transport = request.transport;
  r->pmtu_code = request.pmtu_code;
  r->tick = tick;
  r->used = true;
  ++used_;
}

bool CmConnections::on_rep(const QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id, wire::Qpn qpn,
                           wire::Psn starting_psn, std::uint32_t tick, CmConnection& out) noexcept {
  const QpKey forward = table_.reverse(addresses, wire::Qpn(0));
  Record* const r = find(forward.addresses, forward.qp & QpEntry::kV6, remote_id, tick);
  if (r == nullptr) {
    counters_.add(TrackCounter::cm_unmatched);
    return false;
  }
  r->tick = tick;
  if (r->answered && r->responder_id == local_id && r->responder_qpn == qpn && r->responder_psn == starting_psn) {
    return false;
  }
  r->answered = true;
  r->responder_id = local_id;
  r->responder_qpn = qpn;
  r->responder_psn = starting_psn;
  out = connection(*r);
  return true;
}

void CmConnections::on_rtu(const QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id,
                           std::uint32_t tick) noexcept {
  const Record* const r = find(addresses.addresses, addresses.qp & QpEntry::kV6, local_id, tick);
  if (r == nullptr || !r->answered || r->responder_id != remote_id) counters_.add(TrackCounter::cm_unmatched);
}

bool CmConnections::on_rej(const QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id, std::uint32_t tick,
                           CmConnection& out) noexcept {
  const std::uint32_t family = addresses.qp & QpEntry::kV6;
  // The requester rejects a REP, and names both sides.
  Record* r = find(addresses.addresses, family, local_id, tick);
  if (r == nullptr || !r->answered || r->responder_id != remote_id) {
    // The responder rejects a REQ, perhaps without an id of its own, or takes its REP back.
    r = find(table_.reverse(addresses, wire::Qpn(0)).addresses, family, remote_id, tick);
    if (r != nullptr && r->answered && r->responder_id != local_id) r = nullptr;
  }
  if (r == nullptr) {
    counters_.add(TrackCounter::cm_unmatched);
    return false;
  }
  const bool connected = r->answered;
  if (connected) out = connection(*r);
  drop(*r);
  return connected;
}

CmConnection CmConnections::connection(const Record& r) noexcept {
  const QpKey forward{r.addresses, r.family};
  CmConnection c;
  c.to_responder = tables::QpTable::with_qp(forward, r.responder_qpn);
  c.to_requester = table_.reverse(forward, r.requester_qpn);
  c.first_to_responder = r.responder_psn;
  c.first_to_requester = r.requester_psn;
  c.transport = r.transport;
  c.pmtu_code = r.pmtu_code;
  c.service = intern_service(r.service_id);
  return c;
}

std::uint16_t CmConnections::intern_service(std::uint64_t id) noexcept {
  const auto at = std::find(services_.begin(), services_.end(), id);
  if (at != services_.end()) return static_cast<std::uint16_t>(at - services_.begin() + 1);
  if (id == 0 || services_.size() == kMaxServices) return 0;
  services_.push_back(id);
  return static_cast<std::uint16_t>(services_.size());
}

void CmConnections::on_timer(std::uint32_t tick) noexcept {
  for (std::size_t i = 0; i < kSweep && used_ != 0; ++i) {
    Record& r = records_[sweep_at_];
    sweep_at_ = (sweep_at_ + 1) % records_.size();
    if (r.used && tick - r.tick >= kLifetimeTicks) drop(r);
  }
}

}  // namespace weft::stages
