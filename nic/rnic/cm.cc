// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/cm.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "nic/rnic/device.h"
#include "switch/wire/hash.h"

namespace weft::nic {
namespace {

using wire::CmAnswered;
using wire::CmaServiceId;
using wire::CmMessage;
using wire::CmRejectReason;

constexpr std::size_t kMaxOutgoing = 4'096;
constexpr std::uint8_t kPacketRate = 0x21;
constexpr std::uint16_t kSourcePort = 0xd872;
constexpr std::uint8_t kTargetAckDelay = 15;  // as Linux says of rxe

wire::Gid gid_of(const wire::IpAddress& a) noexcept {
  return a.bytes();  // IPv4 addresses are mapped already
}

/// The smallest code whose time is at least `ns`; 0 for no timeout.
std::uint8_t timeout_code(Time ns) noexcept {
  if (ns <= 0) return 0;
  std::uint8_t code = 0;
  while (code < 31 && static_cast<Time>(wire::cm_timeout_ns(code)) < ns) ++code;
  return std::max<std::uint8_t>(code, 1);
}

template <std::size_t kBytes>
void copy_into(std::array<std::uint8_t, kBytes>& to, std::span<const std::uint8_t> from, std::size_t at = 0) noexcept {
  assert(at + from.size() <= kBytes);
  std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

std::uint64_t guid_of(const wire::MacAddress& mac) noexcept {
  // Modified EUI-64, as RoCE devices have it.
  const std::uint64_t v = mac.to_u64();
  return ((v >> 24 << 40) | (std::uint64_t{0xfffe} << 24) | (v & 0xffffff)) ^ (std::uint64_t{2} << 56);
}

}  // namespace

std::string_view name(CmEvent::Kind kind) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"connect request", "established", "rejected", "unreachable",
                                                   "disconnected"};
  return kNames[static_cast<std::size_t>(kind)];
}

Cm::Cm(Device& device, const CmConfig& config, std::uint64_t seed)
    : device_(device),
      config_(config),
      next_id_(static_cast<std::uint32_t>(wire::mix64(seed + 1, 0x9e3779b97f4a7c15))) {}

Cm::Connection& Cm::create(State state, const Path& path) {
  while (connections_.contains(next_id_) || next_id_ == 0) ++next_id_;
  Connection& c = connections_[next_id_];
  c.state = state;
  c.id = next_id_++;
  c.path = path;
  c.timeout = config_.response_timeout;
  c.receive_psn = device_.pick_psn();
  return c;
}

Cm::Connection* Cm::find(CmId id) noexcept {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

Cm::Connection* Cm::find(CmId id, std::uint32_t remote_id) noexcept {
  Connection* c = find(id);
  return c != nullptr && c->remote_id == remote_id ? c : nullptr;
}

Cm::Connection* Cm::find_request(std::uint32_t remote_id, const wire::IpAddress& address) noexcept {
  for (auto& [id, c] : connections_) {
    if (c.remote_id == remote_id && c.path.destination == address) return &c;
  }
  return nullptr;
}

CmId Cm::connect(Time now, Qp& qp, const CmTarget& target, std::span<const std::uint8_t> private_data) {
  const DeviceConfig& d = device_.config();
  const QpConfig& q = qp.config();
  Connection& c = create(State::req_sent, {d.mac, target.mac, d.address, target.address, kSourcePort, q.ttl, 0});
  c.qp = &qp;
  c.transaction_id = std::uint64_t{c.id} << 16;
  wire::CmReq req;
  req.local_comm_id = c.id;
  req.service_id = CmaServiceId{CmaServiceId::kTcp, target.port}.encode();
  req.local_ca_guid = guid_of(d.mac);
  req.local_qpn = qp.qpn();
  req.responder_resources = q.max_dest_rd_atomic;
  req.initiator_depth = q.max_rd_atomic;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = config_.response_timeout;
  req.end_to_end_flow_control = q.end_to_end_credits;
  req.starting_psn = c.receive_psn;
  req.retry_count = q.retry_count;
  req.path_mtu = path_mtu_code(q.path_mtu);
  req.rnr_retry_count = q.rnr_retry_count;
  req.max_cm_retries = config_.max_retries;
  req.primary.local_gid = gid_of(d.address);
  req.primary.remote_gid = gid_of(target.address);
  req.primary.packet_rate = kPacketRate;
  req.primary.traffic_class = static_cast<std::uint8_t>(q.dscp << 2);
  req.primary.hop_limit = q.ttl;
  req.primary.local_ack_timeout = timeout_code(q.rto_ns);
  req.alternate.local_lid = req.alternate.remote_lid = 0;
  const auto cma =
      wire::build_cma({0, static_cast<std::uint16_t>(0x8000 | (c.id & 0x7fff)), d.address, target.address});
  copy_into(req.private_data, cma);
  copy_into(req.private_data, private_data, cma.size());
  send_with_retries(now, c, {c.transaction_id, req});
  return c.id;
}

bool Cm::negotiate(CmId id, QpConfig& config) const noexcept {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.state != State::req_received) return false;
  const wire::CmReq& req = found->second.request;
  config.path_mtu = path_mtu_bytes(req.path_mtu).value_or(config.path_mtu);
  config.retry_count = req.retry_count;
  config.rnr_retry_count = req.rnr_retry_count;
  // What one side starts, the other remembers; a value of 0 still has to be stored.
  config.max_rd_atomic =
      std::clamp<std::uint8_t>(req.responder_resources, 1, std::max<std::uint8_t>(config.max_rd_atomic, 1));
  config.max_dest_rd_atomic = std::max<std::uint8_t>({req.initiator_depth, config.max_dest_rd_atomic, 1});
  config.end_to_end_credits = req.end_to_end_flow_control;
  config.dscp = static_cast<std::uint8_t>(req.primary.traffic_class >> 2);
  if (req.primary.hop_limit > 0) config.ttl = req.primary.hop_limit;
  if (req.primary.local_ack_timeout != 0) {
    config.rto_ns = static_cast<Time>(wire::cm_timeout_ns(req.primary.local_ack_timeout));
  }
  return true;
}

bool Cm::accept(Time now, CmId id, Qp& qp, std::span<const std::uint8_t> private_data) {
  Connection* c = find(id);
  if (c == nullptr || c->state != State::req_received) return false;
  const wire::CmReq& req = c->request;
  c->qp = &qp;
  Path path = c->path;
  path.source_port = 0;
  qp.connect({req.local_qpn, path, req.starting_psn, c->receive_psn, req.responder_resources});
  wire::CmRep rep;
  rep.local_comm_id = c->id;
  rep.remote_comm_id = c->remote_id;
  rep.local_qpn = qp.qpn();
  rep.starting_psn = c->receive_psn;
  rep.responder_resources = std::min(req.initiator_depth, qp.config().max_dest_rd_atomic);
  rep.initiator_depth = std::min(req.responder_resources, qp.config().max_rd_atomic);
  rep.target_ack_delay = kTargetAckDelay;
  rep.end_to_end_flow_control = qp.config().end_to_end_credits;
  rep.rnr_retry_count = qp.config().rnr_retry_count;
  rep.local_ca_guid = guid_of(device_.config().mac);
  copy_into(rep.private_data, private_data);
  c->state = State::rep_sent;
  ++waiting_for_rtu_;
  send_with_retries(now, *c, {c->transaction_id, rep});
  return true;
}

void Cm::reject(Time, CmId id, std::span<const std::uint8_t> private_data) {
  Connection* c = find(id);
  if (c == nullptr || c->state != State::req_received) return;
  wire::CmRej rej;
  rej.local_comm_id = c->id;
  rej.remote_comm_id = c->remote_id;
  rej.rejected = CmAnswered::req;
  rej.reason = CmRejectReason::consumer_defined;
  copy_into(rej.private_data, private_data);
  send(c->path, {c->transaction_id, rej});
  connections_.erase(id);
  update_deadline();
}

void Cm::disconnect(Time now, CmId id) {
  Connection* c = find(id);
  if (c == nullptr || c->state == State::req_received || c->state == State::dreq_sent) return;
  if (c->state == State::rep_sent) --waiting_for_rtu_;
  if (c->qp != nullptr) c->qp->fail();
  if (c->remote_id == 0 || c->qp == nullptr) {  // nobody knows of it yet
    connections_.erase(id);
    update_deadline();
    return;
  }
  c->state = State::dreq_sent;
  c->transaction_id = std::uint64_t{c->id} << 16 | 1;
  wire::CmDreq dreq;
  dreq.local_comm_id = c->id;
  dreq.remote_comm_id = c->remote_id;
  dreq.remote_qpn = c->qp->peer().qpn;
  send_with_retries(now, *c, {c->transaction_id, dreq});
}

std::optional<CmEvent> Cm::poll_event() {
  if (events_.empty()) return std::nullopt;
  const CmEvent event = events_.front();
  events_.pop_front();
  return event;
}

void Cm::forget(const Qp& qp) noexcept {
  for (auto& [id, c] : connections_) {
    if (c.qp == &qp) c.qp = nullptr;
  }
}

bool Cm::next_mad(Outgoing& out) noexcept {
  if (outgoing_.empty()) return false;
  out = outgoing_.front();
  outgoing_.pop_front();
  ++counters_.sent;
  return true;
}

void Cm::send(const Path& to, const CmMessage& m) {
  if (outgoing_.size() >= kMaxOutgoing) return;
  outgoing_.push_back({to, wire::Psn(next_psn_++), wire::build_cm(m)});
}

void Cm::send_with_retries(Time now, Connection& c, const CmMessage& m) {
  c.last = m;
  c.retries = 0;
  c.deadline = now + static_cast<Time>(wire::cm_timeout_ns(c.timeout));
  send(c.path, m);
  update_deadline();
}

void Cm::update_deadline() noexcept {
  deadline_ = kNever;
  for (const auto& [id, c] : connections_) deadline_ = std::min(deadline_, c.deadline);
}

void Cm::on_timer(Time now) {
  if (deadline_ > now) return;
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& c = (it++)->second;  // close() removes it
    if (c.deadline > now) continue;
    if (c.retries++ < config_.max_retries) {
      ++counters_.retried;
      send(c.path, c.last);
      c.deadline = now + static_cast<Time>(wire::cm_timeout_ns(c.timeout));
      continue;
    }
    close(c, c.state == State::dreq_sent ? CmEvent::Kind::disconnected : CmEvent::Kind::unreachable, {});
  }
  update_deadline();
}

void Cm::raise(const Connection& c, CmEvent::Kind kind, std::span<const std::uint8_t> private_data,
               CmRejectReason reason) {
  CmEvent e;
  e.kind = kind;
  e.id = c.id;
  e.address = c.path.destination;
  e.port = CmaServiceId::decode(c.request.service_id).port;
  e.reason = reason;
  std::copy_n(private_data.begin(), std::min(private_data.size(), e.private_data.size()), e.private_data.begin());
  events_.push_back(e);
}

/// Ends a connection and tells the consumer. `c` is gone afterwards.
void Cm::close(Connection& c, CmEvent::Kind kind, std::span<const std::uint8_t> private_data, CmRejectReason reason) {
  if (c.state == State::rep_sent) --waiting_for_rtu_;
  if (c.qp != nullptr) c.qp->fail();
  raise(c, kind, private_data, reason);
  connections_.erase(c.id);
  update_deadline();
}

void Cm::establish(Connection& c, std::span<const std::uint8_t> private_data) {
  if (c.state == State::rep_sent) --waiting_for_rtu_;
  c.state = State::established;
  c.deadline = kNever;
  update_deadline();
  raise(c, CmEvent::Kind::established, private_data);
}

void Cm::on_traffic(Time, const Qp& qp) {
  for (auto& [id, c] : connections_) {
    if (c.qp == &qp && c.state == State::rep_sent) return establish(c, {});
  }
}

void Cm::on_frame(Time now, std::span<const std::uint8_t> bytes, const wire::Parsed& parsed) {
  const auto mad = wire::mad_in_frame(bytes.data(), static_cast<std::uint32_t>(bytes.size()), parsed);
  CmMessage m;
  ++counters_.received;
  if (mad.empty() || wire::parse_cm(mad, m) != wire::CmValidity::ok) {
    ++counters_.malformed;
    return;
  }
  const auto& eth = wire::header_at<wire::EthernetHeader>(bytes.data());
  const std::uint8_t* ip = bytes.data() + parsed.l3_offset;
  const DeviceConfig& d = device_.config();
  Path back{d.mac, eth.source, d.address, {}, kSourcePort, 64, 0};
  back.destination = parsed.has(wire::ParsedFlag::ipv6)
                         ? wire::IpAddress::v6(wire::header_at<wire::Ipv6Header>(ip).source)
                         : wire::IpAddress::v4(wire::header_at<wire::Ipv4Header>(ip).source.value());
  std::visit([&](const auto& body) { handle(now, m, body, back); }, m.body);
}

}  // namespace weft::nic
