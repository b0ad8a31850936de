// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The part of the tracker that reads management datagrams to QP1.
#include "switch/stages/rdma_track/unit.h"
#include "switch/wire/cm.h"

namespace weft::stages {
using tables::PairSource;
using tables::QpEntry;
using tables::QpKey;
using tables::QpTable;
using tables::QpTransport;
using tables::RequestFlag;
using tables::ResponseFlag;
using wire::CmValidity;
using wire::Parsed;

namespace {

// A traffic pairing this sure is believed when one side is closed.
constexpr std::uint8_t kSureEnough = 80;

// QPNs 0 and 1 are not for connections.
constexpr std::uint32_t kFirstQpn = 2;

constexpr TrackCounter counter_of(wire::CmAttribute attribute) noexcept {
  switch (attribute) {
    case wire::CmAttribute::req:
      return TrackCounter::cm_req;
    case wire::CmAttribute::rep:
      return TrackCounter::cm_rep;
    case wire::CmAttribute::rtu:
      return TrackCounter::cm_rtu;
    case wire::CmAttribute::rej:
      return TrackCounter::cm_rej;
    case wire::CmAttribute::dreq:
      return TrackCounter::cm_dreq;
    case wire::CmAttribute::drep:
      return TrackCounter::cm_drep;
    case wire::CmAttribute::mra:
    case wire::CmAttribute::sidr_req:
    case wire::CmAttribute::sidr_rep:
      break;
  }
  return TrackCounter::cm_other;
}

// True for management datagrams that are not CM messages, or ones that this switch has no use for.
constexpr bool is_other(CmValidity v) noexcept {
  return v == CmValidity::management_class || v == CmValidity::method || v == CmValidity::attribute;
}

}  // namespace

void QpTracker::on_management(TimeNs now, const Parsed& p, const std::uint8_t* frame,
                              const std::uint8_t* mad) noexcept {
  if (p.opcode != static_cast<std::uint8_t>(wire::Opcode::UD_SEND_ONLY)) return counters_.add(TrackCounter::cm_other);
  if (mad == nullptr || p.payload_bytes != wire::kMadBytes) return counters_.add(TrackCounter::cm_malformed);
  wire::CmMessage message;
  const CmValidity validity = wire::parse_cm({mad, wire::kMadBytes}, message);
  if (validity != CmValidity::ok) {
    return counters_.add(is_other(validity) ? TrackCounter::cm_other : TrackCounter::cm_malformed);
  }
  counters_.add(counter_of(message.attribute()));
  on_cm(now, p, frame + p.l3_offset, message);
}

void QpTracker::on_cm(TimeNs now, const Parsed& p, const std::uint8_t* l3, const wire::CmMessage& message) noexcept {
  const QpKey key = table_.key_of(p, l3);
  const std::uint32_t tick = tables::tick_of(now);
  CmConnection connection;
  if (const auto* req = std::get_if<wire::CmReq>(&message.body)) {
    on_req(now, key, l3, *req);
  } else if (const auto* rep = std::get_if<wire::CmRep>(&message.body)) {
    if (rep->local_qpn.value() < kFirstQpn) return counters_.add(TrackCounter::cm_malformed);
    if (cm_.on_rep(key, rep->local_comm_id, rep->remote_comm_id, rep->local_qpn, rep->starting_psn, tick, connection)) {
      place(now, connection);
    }
  } else if (const auto* rtu = std::get_if<wire::CmRtu>(&message.body)) {
    cm_.on_rtu(key, rtu->local_comm_id, rtu->remote_comm_id, tick);
  } else if (const auto* rej = std::get_if<wire::CmRej>(&message.body)) {
    if (cm_.on_rej(key, rej->local_comm_id, rej->remote_comm_id, tick, connection)) {
      close(connection.to_responder);
      close(connection.to_requester);
    }
  } else if (const auto* dreq = std::get_if<wire::CmDreq>(&message.body)) {
    close(QpTable::with_qp(key, dreq->remote_qpn));
  }
}

void QpTracker::on_req(TimeNs now, QpKey key, const std::uint8_t* l3, const wire::CmReq& req) noexcept {
  const bool tracked = req.transport == wire::CmTransport::rc || req.transport == wire::CmTransport::uc;
  if (req.local_qpn.value() < kFirstQpn) return counters_.add(TrackCounter::cm_malformed);
  if (!tracked) return;
  const bool v6 = (key.qp & QpEntry::kV6) != 0;
  if (v6) key.addresses = table_.pairs().acquire(l3 + QpTable::kV6Addresses);
  if (v6 && key.addresses == tables::AddressPairs::kNone) return counters_.add(TrackCounter::table_full);
  CmConnections::Request request;
  request.addresses = key;
  request.comm_id = req.local_comm_id;
  request.qpn = req.local_qpn;
  request.starting_psn = req.starting_psn;
  request.transport = req.transport == wire::CmTransport::rc ? QpTransport::rc : QpTransport::uc;
  request.pmtu_code = req.path_mtu <= 5 ? req.path_mtu : std::uint8_t{0};
  request.service_id = req.service_id;
  cm_.on_req(request, tables::tick_of(now));
  if (v6) table_.pairs().release(static_cast<std::uint32_t>(key.addresses));
  if (next_scan_ == kNever) next_scan_ = now + scan_interval();
}

// A new connection. Whatever was known about its QPNs belongs to an older one.
// False when the table has no room for both directions.
bool QpTracker::connect(TimeNs now, const CmConnection& connection) noexcept {
  if (connection.to_responder.qp == connection.to_requester.qp &&
      connection.to_responder.addresses == connection.to_requester.addresses) {
    return true;
  }
  const bool both = connect_direction(now, connection.to_responder, connection.first_to_responder, connection) &&
                    connect_direction(now, connection.to_requester, connection.first_to_requester, connection);
  const std::uint32_t there = table_.find(connection.to_responder), back = table_.find(connection.to_requester);
  if (!both) {
    // The table is full. The direction that was added stays without a peer; traffic may pair it later.
    if (there != QpTable::kNone && !table_.entry(there).paired()) pairing_.want(there, 0, tables::tick_of(now));
    return false;
  }
  if (!table_.entry(there).fixed() && !table_.entry(back).fixed()) pairing_.link(there, back, PairSource::cm, 100);
  return true;
}

bool QpTracker::connect_direction(TimeNs now, const QpKey& key, wire::Psn first,
                                  const CmConnection& connection) noexcept {
  std::uint32_t position = table_.find(key);
  if (position == QpTable::kNone) {
    position = learn(now, key, nullptr, TrackCounter::qps_learned_cm);
    if (position == QpTable::kNone) return false;
  } else if (!table_.entry(position).fixed()) {
    pairing_.forget(position);
    table_.reset(position, now);
    counters_.add(TrackCounter::qps_learned_cm);
  }
  QpEntry& e = table_.entry(position);
  // They belong to the transport that it had.
  tables::count_repeats(e, table_.detail(position), e.repeats());
  e.tally = e.messages();
  e.set_transport(connection.transport);
  e.set_pmtu_code(connection.pmtu_code);
  e.clear_in_order();
  gap_naks_.forget(position);
  e.request.set_raw(first.value());
  e.window = 0;
  e.response.clear(ResponseFlag::synced | ResponseFlag::closed | ResponseFlag::watch);
  table_.detail(position).service = connection.service;
  set_first_psn(position, first);
  return true;
}

void QpTracker::close(const QpKey& key) noexcept {
  const std::uint32_t position = table_.find(key);
  if (position == QpTable::kNone) {
    if (!close_elsewhere(key)) counters_.add(TrackCounter::cm_unmatched);
    return;
  }
  QpEntry& e = table_.entry(position);
  e.response.set(ResponseFlag::closed);
  if (e.paired() && e.confidence() >= kSureEnough) table_.entry(e.peer).response.set(ResponseFlag::closed);
}

}  // namespace weft::stages
