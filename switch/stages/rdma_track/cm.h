// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Connections in the making: what a REQ said is kept until the REP comes (IBTA 12.9). Both together name the two queue
// pairs, their starting PSNs and the path MTU.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/stages/rdma_track/counters.h"
#include "switch/tables/qp_table.h"
#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// A connection between a requester A and a responder B. The starting PSN that a side names is the one that its peer
/// begins to send with (IBTA 12.7.31).
struct CmConnection {
  tables::QpKey to_responder{};  ///< A -> B, QPN of B
  tables::QpKey to_requester{};  ///< B -> A, QPN of A
  wire::Psn first_to_responder{};
  wire::Psn first_to_requester{};
  tables::QpTransport transport = tables::QpTransport::rc;
  std::uint8_t pmtu_code = 0;
  std::uint16_t service = 0;  ///< see CmConnections::service_id()
};

/// Fixed-size memory of recent REQ and REP messages. Addresses are those of the messages' own IP headers: traffic of
/// the connection that takes another path is not this worker's to see.
class CmConnections {
 public:
  /// A REQ or REP is forgotten after this long: all retries of CM are over (IBTA 12.9.8).
  static constexpr std::uint32_t kLifetimeTicks = tables::ticks_of_seconds(60);
  static constexpr std::uint32_t kMaxServices = 4096;

  CmConnections(tables::QpTable& table, TrackCounters& counters);

  /// Offset of the management datagram in a frame to QP1: behind UDP, BTH and DETH.
  [[nodiscard]] static std::uint32_t mad_offset(const wire::Parsed& p) noexcept {
    return std::uint32_t{p.l4_offset} + sizeof(wire::UdpHeader) + sizeof(wire::Bth) + sizeof(wire::Deth);
  }

  /// What a REQ said. `addresses` is the key of the packet; the caller keeps a reference on its IPv6 addresses.
  struct Request {
    tables::QpKey addresses;
    std::uint32_t comm_id;
    wire::Qpn qpn;
    wire::Psn starting_psn;
    tables::QpTransport transport;
    std::uint8_t pmtu_code;
    std::uint64_t service_id;
  };
  void on_req(const Request& request, std::uint32_t tick) noexcept;

  /// @param addresses  key of the REP packet
  /// @return true when it completes a connection; false when it repeats one, or nothing is known of its REQ (counted).
  [[nodiscard]] bool on_rep(const tables::QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id,
                            wire::Qpn qpn, wire::Psn starting_psn, std::uint32_t tick, CmConnection& out) noexcept;

  /// An RTU: counted as unmatched when its connection is not known.
  void on_rtu(const tables::QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id,
              std::uint32_t tick) noexcept;

  /// @return true when a connection that had its REP already is rejected.
  [[nodiscard]] bool on_rej(const tables::QpKey& addresses, std::uint32_t local_id, std::uint32_t remote_id,
                            std::uint32_t tick, CmConnection& out) noexcept;

  /// Forgets what is too old, a slice at a time.
  void on_timer(std::uint32_t tick) noexcept;

  [[nodiscard]] bool idle() const noexcept { return used_ == 0; }
  [[nodiscard]] std::uint64_t service_id(std::uint16_t service) const noexcept {
    return service == 0 ? 0 : services_[service - 1u];
  }
  /// The number of a service ID, 1 to kMaxServices; 0 when there is no room for it.
  [[nodiscard]] std::uint16_t intern_service(std::uint64_t id) noexcept;
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return records_.size() * sizeof(Record) + services_.capacity() * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kSweep = 64;

  struct Record {
    std::uint64_t addresses;  // A -> B, as QpEntry::addresses
    std::uint64_t service_id;
    std::uint32_t family;  // QpEntry::kV6 or 0
    std::uint32_t requester_id, responder_id;
    std::uint32_t tick;
    wire::Qpn requester_qpn, responder_qpn;
    wire::Psn requester_psn, responder_psn;
    tables::QpTransport transport;
    std::uint8_t pmtu_code;
    bool used;
    bool answered;
  };

  [[nodiscard]] Record* set_of(std::uint64_t addresses, std::uint32_t requester_id) noexcept;
  [[nodiscard]] Record* find(std::uint64_t addresses, std::uint32_t family, std::uint32_t requester_id,
                             std::uint32_t tick) noexcept;
  void drop(Record& record) noexcept;
  [[nodiscard]] CmConnection connection(const Record& record) noexcept;

  tables::QpTable& table_;
  TrackCounters& counters_;
  std::vector<Record> records_;  // sets of kWays
  std::size_t used_ = 0;
  std::size_t sweep_at_ = 0;
  std::vector<std::uint64_t> services_;
};

}  // namespace weft::stages
