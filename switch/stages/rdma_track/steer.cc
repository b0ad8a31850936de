// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/steer.h"

#include "switch/stages/rdma_track/unit.h"
#include "switch/wire/hash.h"

namespace weft::stages {
using tables::QpKey;
using tables::QpTable;

SteeredQp steered_qp(const wire::IpAddress& from, const wire::IpAddress& to, wire::Qpn qp) noexcept {
  if (!from.is_v6()) return {std::uint64_t{from.v4_value()} << 32 | to.v4_value(), qp};
  return {wire::hash_v6(from.bytes().data(), to.bytes().data()).ordered, qp};
}

std::uint16_t QpSteering::choose(const SteeredQp& there, const SteeredQp& back) noexcept {
  for (const SteeredQp& qp : {there, back}) {
    if (const std::uint16_t known = published(qp); known != kNobody) return known;
  }
  last_chosen_ = static_cast<std::uint16_t>((last_chosen_ + 1) % mail_.workers());
  return last_chosen_;
}

bool QpSteering::publish(const SteeredQp& there, const SteeredQp& back, std::uint16_t worker) noexcept {
  if (table_.publish(there.address_key, there.qp, worker) && table_.publish(back.address_key, back.qp, worker)) {
    return true;
  }
  withdraw(there, worker);
  return false;
}

// --- the tracker's part ------------------------------------------------------------------------------------------

SteeredQp QpTracker::steered(const QpKey& key) const noexcept {
  return steered_qp(table_.source(key), table_.destination(key), wire::Qpn(key.qp & 0xffffff));
}

// The connection's worker gets it, before its first packet.
void QpTracker::place(TimeNs now, const CmConnection& connection) noexcept {
  if (steering_ == nullptr) {
    (void)connect(now, connection);
    return;
  }
  const SteeredQp there = steered(connection.to_responder), back = steered(connection.to_requester);
  const bool fixed_here = is_fixed(connection.to_responder) || is_fixed(connection.to_requester);
  const std::uint16_t worker = fixed_here ? steering_->worker() : steering_->choose(there, back);
  if (worker == steering_->worker()) {
    (void)connect(now, connection);
    return;
  }
  QpMail mail;
  mail.transport = connection.transport;
  mail.pmtu_code = connection.pmtu_code;
  mail.a = table_.source(connection.to_responder);
  mail.b = table_.destination(connection.to_responder);
  mail.qp_of_b = there.qp;
  mail.qp_of_a = back.qp;
  mail.first_to_b = connection.first_to_responder;
  mail.first_to_a = connection.first_to_requester;
  mail.service_id = cm_.service_id(connection.service);
  if (!steering_->publish(there, back, worker) || !steering_->send(worker, mail)) {
    steering_->withdraw(there, worker);
    steering_->withdraw(back, worker);
    counters_.add(TrackCounter::steer_full);
    (void)connect(now, connection);
    return;
  }
  counters_.add(TrackCounter::pairs_steered);
  // What is here belongs to an older connection.
  for (const QpKey& key : {connection.to_responder, connection.to_requester}) {
    if (const std::uint32_t old = table_.find(key); old != QpTable::kNone) erase(old);
  }
}

bool QpTracker::is_fixed(const QpKey& key) const noexcept {
  const std::uint32_t position = table_.find(key);
  return position != QpTable::kNone && table_.entry(position).fixed();
}

// A queue pair of another worker was closed.
bool QpTracker::close_elsewhere(const QpKey& key) noexcept {
  if (steering_ == nullptr || !steering_->is_elsewhere(steered(key))) return false;
  QpMail mail;
  mail.kind = QpMail::Kind::closed;
  mail.a = table_.source(key);
  mail.b = table_.destination(key);
  mail.qp_of_b = steered(key).qp;
  // When the mailbox is full, it ages as if it had not been closed.
  (void)steering_->send(steering_->published(steered(key)), mail);
  return true;
}

void QpTracker::read_mail(TimeNs now) noexcept {
  steering_->receive([&](const QpMail& mail) {
    const QpKey there = acquire_key(mail.a, mail.b, mail.qp_of_b);
    const bool known = there.addresses != tables::AddressPairs::kNone || !mail.a.is_v6();
    if (mail.kind == QpMail::Kind::closed) {
      if (known) close(there);
    } else if (!known || !adopt(now, there, mail)) {
      // No room here: the packets go by the hash, to the worker that sees the CM messages.
      counters_.add(TrackCounter::steer_full);
      steering_->withdraw(steered_qp(mail.a, mail.b, mail.qp_of_b), steering_->worker());
      steering_->withdraw(steered_qp(mail.b, mail.a, mail.qp_of_a), steering_->worker());
    }
    if (known) release_key(there);
  });
}

bool QpTracker::adopt(TimeNs now, const QpKey& there, const QpMail& mail) noexcept {
  CmConnection connection;
  connection.to_responder = there;
  connection.to_requester = table_.reverse(there, mail.qp_of_a);
  connection.first_to_responder = mail.first_to_b;
  connection.first_to_requester = mail.first_to_a;
  connection.transport = mail.transport;
  connection.pmtu_code = mail.pmtu_code;
  connection.service = cm_.intern_service(mail.service_id);
  if (!connect(now, connection)) return false;
  // An older connection's entries may have been withdrawn between the sender's look at the table and now.
  const SteeredQp to_b = steered(connection.to_responder), to_a = steered(connection.to_requester);
  if (steering_->published(to_b) == QpSteering::kNobody || steering_->published(to_a) == QpSteering::kNobody) {
    return steering_->publish(to_b, to_a, steering_->worker());
  }
  return true;
}

void QpTracker::unsteer(std::uint32_t position) noexcept {
  steering_->withdraw(steered(table_.key(position)), steering_->worker());
}

}  // namespace weft::stages
