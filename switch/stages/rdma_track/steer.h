// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `steer: qp`: which worker has a queue pair, so that the queue pairs of one pair of hosts use several cores.
//
// A queue pair has one worker for life. It is chosen before its first packet: from the configuration, or when the REP
// of its connection passes, before which nobody may send on it (IBTA 12.9). So no packet is on its way inside the
// switch when the choice is made: nothing is reordered, and no state moves. A queue pair that the switch meets only
// when its packets are there already (its connection was made over TCP, or before the switch started) stays with the
// worker of its pair of hosts, the one that the hash names: one of its packets may be anywhere in the switch at any
// time, and its two directions are not known to belong together until some have passed.
//
// CM messages go to QP1, so the worker of the pair of hosts sees them, and alone decides about all queue pairs of these
// hosts. It tells the chosen worker by mail what the connection is; mail is read before every burst, so it is there
// before the first packet. When the entries age out there, that worker withdraws both directions at once.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/spsc_ring.h"
#include "switch/pipeline/owner_table.h"
#include "switch/tables/qp_entry.h"
#include "switch/wire/addresses.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// What one worker tells another one about a connection between hosts A and B.
struct QpMail {
  enum class Kind : std::uint8_t { connected, closed };
  Kind kind = Kind::connected;
  tables::QpTransport transport = tables::QpTransport::rc;
  std::uint8_t pmtu_code = 0;
  wire::IpAddress a{}, b{};
  wire::Qpn qp_of_b{};  ///< closed: the direction A -> qp_of_b, and the rest says nothing
  wire::Qpn qp_of_a{};
  wire::Psn first_to_b{};
  wire::Psn first_to_a{};
  std::uint64_t service_id = 0;
};

/// Mail between all workers of a switch.
using QpMailRings = SpscMesh<QpMail, 256>;

/// One direction of a queue pair as OwnerTable names it.
struct SteeredQp {
  std::uint64_t address_key;
  wire::Qpn qp;
};
/// @param from, to  source and destination of its packets
[[nodiscard]] SteeredQp steered_qp(const wire::IpAddress& from, const wire::IpAddress& to, wire::Qpn qp) noexcept;

/// One worker's view of who has which queue pair.
class QpSteering {
 public:
  static constexpr std::uint16_t kNobody = 0xffff;

  QpSteering(pipeline::OwnerTable& table, QpMailRings& mail, std::uint16_t worker) noexcept
      : table_(table), mail_(mail), worker_(worker), last_chosen_(worker) {}

  [[nodiscard]] std::uint16_t worker() const noexcept { return worker_; }
  /// The worker that a queue pair was published for; kNobody when it goes by the hash.
  [[nodiscard]] std::uint16_t published(const SteeredQp& qp) const noexcept {
    return table_.find(qp.address_key, qp.qp, kNobody);
  }
  [[nodiscard]] bool is_elsewhere(const SteeredQp& qp) const noexcept {
    const std::uint16_t there = published(qp);
    return there != kNobody && there != worker_;
  }

  /// A worker for a new connection: the one that has one of its queue pairs already, else each in turn.
  [[nodiscard]] std::uint16_t choose(const SteeredQp& there, const SteeredQp& back) noexcept;
  /// Sends both directions to a worker from now on. False, with nothing published, when the table has no room.
  bool publish(const SteeredQp& there, const SteeredQp& back, std::uint16_t worker) noexcept;
  /// Both directions go by the hash again, unless another worker has them by now.
  void withdraw(const SteeredQp& qp, std::uint16_t worker) noexcept { table_.withdraw(qp.address_key, qp.qp, worker); }

  bool send(std::uint16_t worker, const QpMail& mail) noexcept { return mail_.ring(worker_, worker).push(mail); }
  [[nodiscard]] bool has_mail() const noexcept { return mail_.pending(worker_); }
  /// Calls `reader` for each message that has come.
  template <typename Reader>
  void receive(Reader&& reader) noexcept {
    QpMail mail;
    for (std::uint16_t from = 0; from < mail_.workers(); ++from) {
      while (mail_.ring(from, worker_).pop(mail)) reader(mail);
    }
  }

 private:
  pipeline::OwnerTable& table_;
  QpMailRings& mail_;
  std::uint16_t worker_;
  std::uint16_t last_chosen_;
};

}  // namespace weft::stages
