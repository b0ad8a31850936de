// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the connection manager does with each message (IBTA volume 1, 12.9).
#include <algorithm>

#include "nic/rnic/cm.h"
#include "nic/rnic/device.h"

namespace weft::nic {
namespace {

using wire::CmAnswered;
using wire::CmaServiceId;
using wire::CmMessage;
using wire::CmRejectReason;

/// Connections at a time: a flood of requests must not take all memory.
constexpr std::size_t kMaxConnections = 16'384;

/// What is wrong with a request, if anything.
std::optional<CmRejectReason> objection(const wire::CmReq& req, const std::vector<std::uint16_t>& listening) noexcept {
  const CmaServiceId service = CmaServiceId::decode(req.service_id);
  const bool known = req.service_id == service.encode() && service.port_space == CmaServiceId::kTcp &&
                     std::find(listening.begin(), listening.end(), service.port) != listening.end();
  if (!known) return CmRejectReason::invalid_service_id;
  if (req.transport != wire::CmTransport::rc) return CmRejectReason::invalid_transport;
  if (!path_mtu_bytes(req.path_mtu)) return CmRejectReason::invalid_path_mtu;
  return std::nullopt;
}

}  // namespace

void Cm::handle(Time, const CmMessage& m, const wire::CmReq& req, const Path& back) {
  if (Connection* c = find_request(req.local_comm_id, back.destination)) {
    // Sent again: our answer was lost, or the consumer has not decided yet (12.9.7).
    if (c->state == State::rep_sent) return send(c->path, c->last);
    if (c->state != State::req_received) return;
    wire::CmMra mra;
    mra.local_comm_id = c->id;
    mra.remote_comm_id = c->remote_id;
    mra.answered = CmAnswered::req;
    mra.service_timeout = config_.response_timeout;
    return send(c->path, {m.transaction_id, mra});
  }
  const auto wrong = objection(req, listening_);
  if (wrong || connections_.size() >= kMaxConnections) {
    wire::CmRej rej;
    rej.remote_comm_id = req.local_comm_id;
    rej.rejected = CmAnswered::req;
    rej.reason = wrong.value_or(CmRejectReason::no_resources);
    return send(back, {m.transaction_id, rej});
  }
  Connection& c = create(State::req_received, back);
  c.remote_id = req.local_comm_id;
  c.transaction_id = m.transaction_id;
  c.request = req;
  // The consumer's private data follows what rdma_cm puts before it.
  raise(c, CmEvent::Kind::connect_request, std::span(req.private_data).subspan(wire::CmaHeader::kBytes));
}

void Cm::handle(Time, const CmMessage& m, const wire::CmRep& rep, const Path&) {
  Connection* c = find(rep.remote_comm_id);
  const bool first = c != nullptr && c->state == State::req_sent && c->qp != nullptr;
  const bool again = c != nullptr && c->state == State::established && c->remote_id == rep.local_comm_id;
  if (!first && !again) {
    ++counters_.unmatched;
    return;
  }
  wire::CmRtu rtu;
  rtu.local_comm_id = c->id;
  rtu.remote_comm_id = rep.local_comm_id;
  send(c->path, {m.transaction_id, rtu});
  if (again) return;
  c->remote_id = rep.local_comm_id;
  Path path = c->path;
  path.source_port = 0;
  c->qp->connect({rep.local_qpn, path, rep.starting_psn, c->receive_psn, rep.responder_resources});
  establish(*c, rep.private_data);
}

void Cm::handle(Time, const CmMessage&, const wire::CmRtu& rtu, const Path&) {
  Connection* c = find(rtu.remote_comm_id, rtu.local_comm_id);
  if (c == nullptr || c->state != State::rep_sent) {
    counters_.unmatched += c == nullptr ? 1 : 0;
    return;
  }
  establish(*c, rtu.private_data);
}

void Cm::handle(Time, const CmMessage&, const wire::CmRej& rej, const Path& back) {
  Connection* c = find(rej.remote_comm_id);
  const bool matches = c != nullptr && c->path.destination == back.destination &&
                       (c->state == State::req_sent || c->remote_id == rej.local_comm_id);
  if (!matches || c->state == State::dreq_sent) {
    ++counters_.unmatched;
    return;
  }
  close(*c, CmEvent::Kind::rejected, rej.private_data, rej.reason);
}

void Cm::handle(Time now, const CmMessage&, const wire::CmMra& mra, const Path&) {
  Connection* c = find(mra.remote_comm_id);
  if (c == nullptr || (c->state != State::req_sent && c->state != State::rep_sent)) {
    ++counters_.unmatched;
    return;
  }
  // The other side has it and thinks: the time that it names, and our own for the way (12.9.8.6).
  c->deadline = now + static_cast<Time>(wire::cm_timeout_ns(mra.service_timeout)) +
                static_cast<Time>(wire::cm_timeout_ns(c->timeout));
  update_deadline();
}

void Cm::handle(Time, const CmMessage& m, const wire::CmDreq& dreq, const Path& back) {
  // Answered even if nothing is known of it any more: the answer may have been lost.
  wire::CmDrep drep;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  send(back, {m.transaction_id, drep});
  Connection* c = find(dreq.remote_comm_id, dreq.local_comm_id);
  if (c == nullptr) {
    ++counters_.unmatched;
    return;
  }
  close(*c, CmEvent::Kind::disconnected, dreq.private_data);
}

void Cm::handle(Time, const CmMessage&, const wire::CmDrep& drep, const Path&) {
  Connection* c = find(drep.remote_comm_id, drep.local_comm_id);
  if (c == nullptr || c->state != State::dreq_sent) {
    ++counters_.unmatched;
    return;
  }
  close(*c, CmEvent::Kind::disconnected, drep.private_data);
}

/// Datagram services do not exist here (12.11.1.2: status 1, service identifier not supported).
void Cm::handle(Time, const CmMessage& m, const wire::CmSidrReq& req, const Path& back) {
  wire::CmSidrRep rep;
  rep.request_id = req.request_id;
  rep.service_id = req.service_id;
  rep.status = 1;
  send(back, {m.transaction_id, rep});
}

void Cm::handle(Time, const CmMessage&, const wire::CmSidrRep&, const Path&) {
  ++counters_.unmatched;
}

}  // namespace weft::nic
