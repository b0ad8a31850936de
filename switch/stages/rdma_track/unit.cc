// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/unit.h"

#include <algorithm>

#include "switch/base/time.h"
#include "switch/wire/headers.h"

namespace weft::stages {
using tables::PairSource;
using tables::QpDetail;
using tables::QpEntry;
using tables::QpKey;
using tables::QpTable;
using tables::QpTransport;
using tables::RequestFlag;
using tables::ResponseFlag;
using wire::MessagePart;
using wire::Opcode;
using wire::OpcodeInfo;
using wire::OpcodeRole;
using wire::Parsed;
using wire::Psn;
using wire::Transport;

namespace {

QpTransport transport_of(std::uint8_t opcode) noexcept {
  switch (wire::transport_of(opcode)) {
    case Transport::rc:
      return QpTransport::rc;
    case Transport::uc:
      return QpTransport::uc;
    case Transport::ud:
      return QpTransport::ud;
    default:
      return QpTransport::unknown;
  }
}

// PSNs that a request spans; `certain` unless it is a READ whose path MTU would have to be known.
struct Span {
  std::uint32_t psns = 1;
  bool certain = true;
};

Span span_of(const QpEntry& e, const Parsed& p, const std::uint8_t* frame) noexcept {
  if (p.opcode != static_cast<std::uint8_t>(Opcode::RC_RDMA_READ_REQUEST)) return {};
  const std::uint8_t* const reth = frame + p.l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth);
  const std::uint32_t length = reinterpret_cast<const wire::Reth*>(reth)->dma_length.value();
  if (e.pmtu_code() != 0) return {read_span(length, pmtu_bytes(e.pmtu_code())), true};
  const std::uint32_t least = read_span(length, 4096);
  return {least, least == read_span(length, 256)};
}

}  // namespace

QpTracker::QpTracker(const TrackOptions& options)
    : options_(options),
      idle_ticks_(tables::ticks_of_seconds(options.idle_timeout_s)),
      closed_ticks_(tables::ticks_of_seconds(options.closed_timeout_s)),
      table_(options.max_qps),
      pairing_(table_, counters_, options.pairing),
      gap_naks_(options.max_qps),
      cm_(table_, counters_) {}

std::size_t QpTracker::memory_bytes() const noexcept {
  return table_.memory_bytes() + pairing_.memory_bytes() + gap_naks_.memory_bytes() + cm_.memory_bytes();
}

QpView QpTracker::view(std::uint32_t handle, const Parsed& parsed, const std::uint8_t* l3) const noexcept {
  QpView v;
  if (parsed.kind != wire::FrameKind::roce) return v;
  const QpKey key = table_.key_of(parsed, l3);
  v.position = handle - 1;
  if (handle == 0 || handle > table_.slots() || !table_.matches(v.position, key)) v.position = table_.find(key);
  if (v.position == QpTable::kNone) return v;
  v.entry = &table_.entry(v.position);
  if (v.entry->paired()) v.peer = &table_.entry(v.entry->peer);
  return v;
}

// --- entries -----------------------------------------------------------------------------------------------------

// The entry of a packet that the fast path did not find at its first guess.
std::uint32_t QpTracker::resolve(TimeNs now, const QpKey& key, const Parsed& p, const std::uint8_t* frame) noexcept {
  if (p.dest_qp == wire::kGsiQpn) return QpTable::kNone;
  const std::uint8_t* const l3 = frame + p.l3_offset;
  // The burst's key may be older than an IPv6 pair that one of its own packets brought in.
  const QpKey fresh = (key.qp & QpEntry::kV6) != 0 ? table_.key_of(p, l3) : key;
  const std::uint32_t known = table_.find(fresh);
  if (known != QpTable::kNone) return known;
  // These are the last packets of an old connection; a new connection of the same queue pair already belongs to another
  // worker.
  const bool elsewhere = steering_ != nullptr && steering_->is_elsewhere({p.address_key, p.dest_qp});
  const std::uint32_t position = elsewhere ? QpTable::kNone : learn(now, fresh, l3, TrackCounter::qps_learned_traffic);
  if (position == QpTable::kNone) {
    counters_.add(TrackCounter::untracked);
    return position;
  }
  QpEntry& e = table_.entry(position);
  e.set_transport(transport_of(p.opcode));
  if (e.transport() == QpTransport::rc) pairing_.want(position, p.source_port, tables::tick_of(now));
  return position;
}

std::uint32_t QpTracker::insert(TimeNs now, const QpKey& key) noexcept {
  QpTable::Moved moved;
  const std::uint32_t position = table_.insert(key, now, moved);
  if (moved.from != QpTable::kNone) {
    pairing_.moved(moved.from, moved.to);
    gap_naks_.moved(moved.from, moved.to);
  }
  return position;
}

// A new entry. `l3` is an IP header with its addresses when the key is an IPv6 one; nullptr when they are interned.
std::uint32_t QpTracker::learn(TimeNs now, QpKey key, const std::uint8_t* l3, TrackCounter reason) noexcept {
  const bool intern = (key.qp & QpEntry::kV6) != 0 && l3 != nullptr;
  if (intern) key.addresses = table_.pairs().acquire(l3 + QpTable::kV6Addresses);
  std::uint32_t position = QpTable::kNone;
  if (!intern || key.addresses != tables::AddressPairs::kNone) {
    position = insert(now, key);
    if (position == QpTable::kNone && evict_aged(tables::tick_of(now))) position = insert(now, key);
    if (intern) table_.pairs().release(static_cast<std::uint32_t>(key.addresses));
  }
  if (position == QpTable::kNone) {
    counters_.add(TrackCounter::table_full);
    return position;
  }
  counters_.add(reason);
  counters_.add(TrackCounter::qps_active);
  if (next_scan_ == kNever) next_scan_ = now + scan_interval();
  return position;
}

bool QpTracker::add_configured(TimeNs now, const wire::IpAddress& a, wire::Qpn qp_a, const wire::IpAddress& b,
                               wire::Qpn qp_b) noexcept {
  const QpKey forward = acquire_key(a, b, qp_b);
  if (a.is_v6() && forward.addresses == tables::AddressPairs::kNone) return false;
  const QpKey back = table_.reverse(forward, qp_a);
  bool added = true;
  for (const QpKey& key : {forward, back}) {
    std::uint32_t position = table_.find(key);
    if (position == QpTable::kNone) position = learn(now, key, nullptr, TrackCounter::qps_learned_config);
    added = added && position != QpTable::kNone;
    if (added) table_.entry(position).set_fixed();
  }
  // The second insertion may have moved the first entry.
  if (added) pairing_.link(table_.find(forward), table_.find(back), PairSource::config, 100);
  release_key(forward);
  return added;
}

void QpTracker::set_first_psn(const wire::IpAddress& from, const wire::IpAddress& to, wire::Qpn qp,
                              Psn first) noexcept {
  const QpKey key = acquire_key(from, to, qp);
  const std::uint32_t position = table_.find(key);
  if (position != QpTable::kNone) set_first_psn(position, first);
  release_key(key);
}

// A key of packets between two hosts. With IPv6 it holds a reference on their addresses, or names AddressPairs::kNone.
QpKey QpTracker::acquire_key(const wire::IpAddress& from, const wire::IpAddress& to, wire::Qpn qp) noexcept {
  if (!from.is_v6()) return {std::uint64_t{from.v4_value()} << 32 | to.v4_value(), qp.value()};
  std::array<std::uint8_t, 32> both;
  std::copy(from.bytes().begin(), from.bytes().end(), both.begin());
  std::copy(to.bytes().begin(), to.bytes().end(), both.begin() + 16);
  return {table_.pairs().acquire(both.data()), qp.value() | QpEntry::kV6};
}

void QpTracker::release_key(const QpKey& key) noexcept {
  if ((key.qp & QpEntry::kV6) != 0) table_.pairs().release(static_cast<std::uint32_t>(key.addresses));
}

void QpTracker::set_timeouts(const TrackOptions& options) noexcept {
  options_.idle_timeout_s = options.idle_timeout_s;
  options_.closed_timeout_s = options.closed_timeout_s;
  idle_ticks_ = tables::ticks_of_seconds(options.idle_timeout_s);
  closed_ticks_ = tables::ticks_of_seconds(options.closed_timeout_s);
  if (next_scan_ != kNever) next_scan_ = 0;
}

void QpTracker::release_configured() noexcept {
  for (std::uint32_t position = 0; position < table_.slots(); ++position) table_.entry(position).clear_fixed();
}

// --- packets that are not simply the next request ----------------------------------------------------------------

void QpTracker::on_other(std::uint32_t position, const Parsed& p, const std::uint8_t* frame) noexcept {
  const bool marked = (p.tos & 3) == 3;
  if (marked) {
    table_.detail(position).ce.increment();
    counters_.add(TrackCounter::ce);
  }
  const OpcodeInfo& row = wire::opcode_info(p.opcode);
  if (row.role == OpcodeRole::notification) return on_cnp(position, p);
  QpEntry& e = table_.entry(position);
  if (e.transport() == QpTransport::unknown) {
    e.set_transport(transport_of(p.opcode));
    if (e.paired()) {
      table_.entry(e.peer).set_transport(e.transport());
    } else if (e.transport() == QpTransport::rc) {
      pairing_.want(position, p.source_port, e.last_seen);
    }
  }
  if (wire::transport_of(p.opcode) == Transport::ud) return on_datagram(position, p);
  if (row.part == MessagePart::first || row.part == MessagePart::middle) learn_pmtu(position, p.payload_bytes);
  if (row.is_request()) return on_request(position, p, frame);
  if (p.opcode == static_cast<std::uint8_t>(Opcode::RC_ACKNOWLEDGE)) return on_ack(position, p);
  on_response(position, p);
}

void QpTracker::on_request(std::uint32_t position, const Parsed& p, const std::uint8_t* frame) noexcept {
  QpEntry& e = table_.entry(position);
  QpDetail& d = table_.detail(position);
  const Span span = span_of(e, p, frame);
  PsnStream<std::uint64_t> stream{Psn(e.request.value()), e.window};
  Responder responder{e.request.has(RequestFlag::gap) ? Psn(e.responder.value()) : stream.expected};
  Arrival arrival = Arrival::in_order;
  bool duplicate = false;
  bool early = false;  // it comes before the one that the responder waits for
  if (e.request.has(RequestFlag::unsynced)) {
    stream.start(p.psn, span.psns);
    responder.expected = stream.expected;
  } else {
    const std::int32_t ahead = p.psn.distance_from(stream.expected);
    if (e.request.has(RequestFlag::uncertain) && ahead > 0 && ahead < kRestartDistance) {
      // The PSNs in between belong to the READ before.
      if (responder.expected == stream.expected) responder.expected = p.psn;
      stream.assume_seen_until(p.psn);
    }
    arrival = stream.take(p.psn, span.psns);
    early = p.psn.distance_from(responder.expected) > 0;
    duplicate = responder.take(p.psn, span.psns);
  }
  if (arrival == Arrival::restarted) {
    responder.expected = stream.expected;
    duplicate = early = false;
    gap_naks_.forget(position);
    e.set_pmtu_code(0);
    e.clear_in_order();
    counters_.add(TrackCounter::psn_restarts);
  } else if (arrival == Arrival::repeated) {
    d.retransmitted.increment();
    counters_.add(TrackCounter::retransmitted);
  } else if (arrival != Arrival::in_order) {
    d.out_of_order.increment();
    counters_.add(TrackCounter::out_of_order);
  }
  if (arrival != Arrival::repeated && wire::opcode_info(p.opcode).ends_message()) {
    e.tally += 1;
    counters_.add(TrackCounter::messages);
  }
  e.request.set_value(stream.expected.value());
  e.window = stream.seen;
  e.request.clear(RequestFlag::unsynced);
  if (p.psn + span.psns == stream.expected) e.request.clear(RequestFlag::uncertain);
  if (!span.certain) e.request.set(RequestFlag::uncertain | RequestFlag::want_pmtu);
  // UC has no acknowledgements: a responder drops the message and goes on with the next (IBTA 9.8.2.2).
  if (wire::transport_of(p.opcode) != Transport::rc) return;
  if (duplicate) {
    d.duplicates.increment();
    counters_.add(TrackCounter::duplicates);
  }
  set_gap(position, responder.expected);
  if (!early || e.request.has(RequestFlag::asked)) return;
  e.request.set(RequestFlag::asked);
  // The pairing may be learned from this NAK itself, or just before it.
  gap_naks_.expect(position, responder.expected);
}

void QpTracker::on_response(std::uint32_t position, const Parsed& p) noexcept {
  QpEntry& e = table_.entry(position);
  QpDetail& d = table_.detail(position);
  PsnStream<std::uint32_t> stream{Psn(e.response.value()), d.response_window};
  Arrival arrival = Arrival::in_order;
  if (e.response.has(ResponseFlag::synced)) {
    arrival = stream.take(p.psn, 1);
  } else {
    stream.start(p.psn, 1);
  }
  if (arrival == Arrival::gap && wire::opcode_info(p.opcode).starts_message()) arrival = Arrival::in_order;
  if (arrival == Arrival::restarted) {
    counters_.add(TrackCounter::psn_restarts);
  } else if (arrival == Arrival::repeated) {
    d.retransmitted.increment();
    counters_.add(TrackCounter::retransmitted);
  } else if (arrival != Arrival::in_order) {
    d.out_of_order.increment();
    counters_.add(TrackCounter::out_of_order);
  }
  e.response.set_value(stream.expected.value());
  e.response.set(ResponseFlag::synced);
  d.response_window = stream.seen;
  if (e.response.has(ResponseFlag::watch)) responder_got(e.peer, p.psn);
  if (e.response.has(ResponseFlag::evidence)) {
    pairing_.on_evidence(position, p.psn, true, p.source_port, e.last_seen);
  }
}

void QpTracker::on_ack(std::uint32_t position, const Parsed& p) noexcept {
  QpEntry& e = table_.entry(position);
  const wire::Syndrome syndrome(p.syndrome);
  if (e.response.has(ResponseFlag::evidence)) {
    pairing_.on_evidence(position, p.psn, true, p.source_port, e.last_seen);
  }
  if (syndrome.is_ack()) {
    if (e.response.has(ResponseFlag::watch)) responder_got(e.peer, p.psn);
    return;
  }
  count_nak(position, syndrome);
  if (e.paired() && (syndrome.is_sequence_nak() || syndrome.is_rnr_nak())) responder_wants(e.peer, p.psn, syndrome);
}

void QpTracker::count_nak(std::uint32_t position, wire::Syndrome syndrome) noexcept {
  using tables::saturating_increment, tables::QpDetail;
  QpDetail& d = table_.detail(position);
  if (syndrome.is_rnr_nak()) {
    d.rnr_naks = saturating_increment(d.rnr_naks, QpDetail::kManyBits) & ((1u << QpDetail::kManyBits) - 1);
    return counters_.add(TrackCounter::rnr_naks);
  }
  if (!syndrome.is_nak()) return counters_.add(TrackCounter::nak_reserved);
  switch (syndrome.code()) {
    case wire::NakCode::psn_sequence_error:
      d.nak_psn_sequence =
          saturating_increment(d.nak_psn_sequence, QpDetail::kManyBits) & ((1u << QpDetail::kManyBits) - 1);
      return counters_.add(TrackCounter::nak_psn_sequence);
    case wire::NakCode::invalid_request:
      d.nak_invalid_request =
          saturating_increment(d.nak_invalid_request, QpDetail::kFewBits) & ((1u << QpDetail::kFewBits) - 1);
      return counters_.add(TrackCounter::nak_invalid_request);
    case wire::NakCode::remote_access_error:
      d.nak_remote_access =
          saturating_increment(d.nak_remote_access, QpDetail::kFewBits) & ((1u << QpDetail::kFewBits) - 1);
      return counters_.add(TrackCounter::nak_remote_access);
    case wire::NakCode::remote_operational_error:
      d.nak_remote_operational =
          saturating_increment(d.nak_remote_operational, QpDetail::kFewerBits) & ((1u << QpDetail::kFewerBits) - 1);
      return counters_.add(TrackCounter::nak_remote_operational);
    case wire::NakCode::invalid_rd_request:
      d.nak_invalid_rd =
          saturating_increment(d.nak_invalid_rd, QpDetail::kFewerBits) & ((1u << QpDetail::kFewerBits) - 1);
      return counters_.add(TrackCounter::nak_invalid_rd);
  }
  counters_.add(TrackCounter::nak_reserved);
}

void QpTracker::on_cnp(std::uint32_t position, const Parsed& p) noexcept {
  table_.detail(position).cnps.increment();
  counters_.add(TrackCounter::cnps);
  const QpEntry& e = table_.entry(position);
  if (e.response.has(ResponseFlag::evidence)) {
    pairing_.on_evidence(position, p.psn, false, p.source_port, e.last_seen);
  }
}

// Datagrams have PSNs, but nobody promises their order (IBTA 9.8.3.2): the newest is kept for display only.
void QpTracker::on_datagram(std::uint32_t position, const Parsed& p) noexcept {
  QpEntry& e = table_.entry(position);
  e.request.set_value((p.psn + 1).value());
  e.tally += 1;
  counters_.add(TrackCounter::messages);
}

// First and middle packets carry exactly one path MTU (IBTA 9.7.2.1, 9.7.3.1), and both directions share it.
void QpTracker::learn_pmtu(std::uint32_t position, std::uint32_t payload_bytes) noexcept {
  const std::uint8_t code = pmtu_code(payload_bytes);
  QpEntry& e = table_.entry(position);
  if (code == 0 || code == e.pmtu_code()) return;
  e.set_pmtu_code(code);
  e.request.clear(RequestFlag::want_pmtu);
  if (!e.paired()) return;
  QpEntry& peer = table_.entry(e.peer);
  peer.set_pmtu_code(code);
  peer.request.clear(RequestFlag::want_pmtu);
}

// --- what the responder of a direction waits for -----------------------------------------------------------------

// Notes that it waits for a PSN before the expected one, or, when they are equal, for nothing.
void QpTracker::set_gap(std::uint32_t requests, Psn waits_for) noexcept {
  QpEntry& e = table_.entry(requests);
  const bool gap = waits_for != Psn(e.request.value());
  if (waits_for != Psn(e.responder.value())) e.request.clear(RequestFlag::asked);
  if (gap) e.responder.set_value(waits_for.value());
  if (gap == e.request.has(RequestFlag::gap)) return;
  e.request.clear(RequestFlag::asked);
  if (gap) {
    e.request.set(RequestFlag::gap);
    if (e.paired()) table_.entry(e.peer).response.set(ResponseFlag::watch);
  } else {
    e.request.clear(RequestFlag::gap);
    if (e.paired()) table_.entry(e.peer).response.clear(ResponseFlag::watch);
  }
}

// It acknowledged `psn`, so it has everything up to there.
void QpTracker::responder_got(std::uint32_t requests, Psn psn) noexcept {
  const QpEntry& e = table_.entry(requests);
  if (!e.request.has(RequestFlag::gap)) return;
  const Psn next = psn + 1;
  if (next.distance_from(Psn(e.responder.value())) <= 0 || next.distance_from(Psn(e.request.value())) > 0) return;
  set_gap(requests, next);
}

// The responder asked for `psn`. Everything from there on will be sent again and is not a duplicate, unless the NAK is
// about a gap that passed this switch: then the late packet may have arrived by now.
void QpTracker::responder_wants(std::uint32_t requests, Psn psn, wire::Syndrome syndrome) noexcept {
  QpEntry& e = table_.entry(requests);
  if (e.request.has(RequestFlag::unsynced)) return;
  const std::int32_t ahead = psn.distance_from(Psn(e.request.value()));
  if (ahead > 0 || ahead <= -kRestartDistance) return;
  if (syndrome.is_sequence_nak() && gap_naks_.take(requests, psn)) return;
  // The responder sends no NAK for the gaps that passed behind the lost packet.
  gap_naks_.forget(requests);
  set_gap(requests, psn);
  e.request.clear(RequestFlag::asked);
  if (syndrome.is_sequence_nak() && e.request.has(RequestFlag::gap)) e.request.set(RequestFlag::asked);
}

// --- ageing ------------------------------------------------------------------------------------------------------

bool QpTracker::idle_since(std::uint32_t position, std::uint32_t tick) const noexcept {
  const QpEntry& e = table_.entry(position);
  return tick - e.last_seen >= (e.closed() ? closed_ticks_ : idle_ticks_);
}

// A pair ages together.
bool QpTracker::has_aged(std::uint32_t position, std::uint32_t tick) const noexcept {
  const QpEntry& e = table_.entry(position);
  if (e.is_free() || e.fixed() || !idle_since(position, tick)) return false;
  return !e.paired() || idle_since(e.peer, tick);
}

// Both directions of a pair go together: one that stayed a moment longer would be shown as if it had never been paired,
// and with `steer: qp` both go to the same worker at any time.
void QpTracker::remove(std::uint32_t position) noexcept {
  const std::uint32_t peer = table_.entry(position).peer;
  const std::uint32_t entries[] = {position, peer};
  for (const std::uint32_t one : std::span(entries, peer == QpEntry::kNoPeer ? 1 : 2)) {
    if (steering_ != nullptr) unsteer(one);
    erase(one);
    counters_.add(TrackCounter::qps_aged);
  }
}

void QpTracker::erase(std::uint32_t position) noexcept {
  pairing_.forget(position);
  gap_naks_.forget(position);
  table_.erase(position);
  counters_.subtract(TrackCounter::qps_active);
}

bool QpTracker::evict_aged(std::uint32_t tick) noexcept {
  const std::uint32_t reach = std::min(kEvictionReach, table_.slots());
  for (std::uint32_t looked_at = 0, tried = 0; looked_at < reach && tried < kEvictionTries; ++looked_at) {
    if (scan_at_ >= table_.slots()) scan_at_ = 0;
    const std::uint32_t position = scan_at_++;
    if (table_.entry(position).is_free()) continue;
    ++tried;
    if (!has_aged(position, tick)) continue;
    remove(position);
    return true;
  }
  return false;
}

// A quarter of the shorter timeout, at most 15 s, for a pass over the whole table.
TimeNs QpTracker::scan_interval() const noexcept {
  constexpr TimeNs kLongestPass = 15 * kSecond;
  const TimeNs shorter = std::min(options_.idle_timeout_s, options_.closed_timeout_s) * kSecond;
  const TimeNs pass = std::clamp(shorter / 4, kSecond / 4, kLongestPass);
  return pass * kScanSlice / std::max(table_.slots(), kScanSlice);
}

void QpTracker::on_timer(TimeNs now) noexcept {
  if (now < next_scan_) return;
  const std::uint32_t tick = tables::tick_of(now);
  for (std::uint32_t i = 0; i < std::min(kScanSlice, table_.slots()); ++i) {
    if (scan_at_ >= table_.slots()) scan_at_ = 0;
    const std::uint32_t position = scan_at_++;
    if (has_aged(position, tick)) {
      remove(position);
    } else if (!table_.entry(position).is_free()) {
      pairing_.revisit(position, tick);
    }
  }
  cm_.on_timer(tick);
  next_scan_ = table_.size() == 0 && cm_.idle() ? kNever : now + scan_interval();
}

}  // namespace weft::stages
