// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The connection manager: the messages of IBTA volume 1 chapter 12 over QP1, with retries, as rdma_cm programs use them
// (RDMA_PS_TCP). It connects queue pairs; what the consumer has to decide comes as events.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nic/rnic/config.h"
#include "nic/rnic/frame.h"
#include "switch/wire/cm.h"

namespace weft::nic {

class Device;
class Qp;

struct CmConfig {
  std::uint8_t response_timeout = 17;  ///< code of the time after which a message is sent again: 17 is 0.54 s
  std::uint8_t max_retries = 15;
};

/// A connection, or one that is being made. Local communication identifier.
using CmId = std::uint32_t;

struct CmEvent {
  enum class Kind : std::uint8_t {
    connect_request,  ///< to be answered by accept() or reject()
    established,      ///< the queue pair is ready in both directions
    rejected,         ///< by the other side
    unreachable,      ///< nobody answered
    disconnected,     ///< by the other side, or as asked for; the queue pair has failed
  };
  Kind kind = Kind::connect_request;
  CmId id = 0;
  std::uint16_t port = 0;         ///< connect_request: that was asked for
  wire::IpAddress address{};      ///< of the other side
  wire::CmRejectReason reason{};  ///< rejected
  std::array<std::uint8_t, 224> private_data{};
};
[[nodiscard]] std::string_view name(CmEvent::Kind kind) noexcept;

/// Where a connection is to go.
struct CmTarget {
  wire::IpAddress address{};
  wire::MacAddress mac{};  ///< of the next hop
  std::uint16_t port = 0;
};

class Cm {
 public:
  Cm(Device& device, const CmConfig& config, std::uint64_t seed);

  /// Requests for this port become events; others are rejected.
  void listen(std::uint16_t port) { listening_.push_back(port); }
  void stop_listening(std::uint16_t port) { std::erase(listening_, port); }

  /// Asks for a connection of a queue pair in state init. At most 56 bytes of private data.
  CmId connect(Time now, Qp& qp, const CmTarget& target, std::span<const std::uint8_t> private_data = {});
  /// What a request asks of our queue pair, put into its settings: path MTU, retries, READs at a time, class. False
  /// when the connection is gone.
  bool negotiate(CmId id, QpConfig& config) const noexcept;
  /// Connects a queue pair that was created as negotiate() says. False when the connection is gone.
  bool accept(Time now, CmId id, Qp& qp, std::span<const std::uint8_t> private_data = {});
  void reject(Time now, CmId id, std::span<const std::uint8_t> private_data = {});
  /// Ends a connection: the queue pair fails, and the other side is told.
  void disconnect(Time now, CmId id);
  /// The oldest event.
  std::optional<CmEvent> poll_event();

  // For the device.
  struct Outgoing {
    Path path{};
    wire::Psn psn{};
    std::array<std::uint8_t, wire::kMadBytes> mad{};
  };
  void on_frame(Time now, std::span<const std::uint8_t> bytes, const wire::Parsed& parsed);
  /// A queue pair got its first packet: its connection is established even if the RTU was lost (12.9.6).
  void on_traffic(Time now, const Qp& qp);
  [[nodiscard]] bool waits_for_traffic() const noexcept { return waiting_for_rtu_ > 0; }
  void on_timer(Time now);
  [[nodiscard]] Time next_deadline() const noexcept { return deadline_; }
  [[nodiscard]] bool has_mad() const noexcept { return !outgoing_.empty(); }
  bool next_mad(Outgoing& out) noexcept;
  /// A queue pair is about to be destroyed.
  void forget(const Qp& qp) noexcept;

  struct Counters {
    std::uint64_t received = 0;
    std::uint64_t malformed = 0;
    std::uint64_t unmatched = 0;  ///< of no connection that is known
    std::uint64_t sent = 0;
    std::uint64_t retried = 0;
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  enum class State : std::uint8_t { req_sent, req_received, rep_sent, established, dreq_sent };
  struct Connection {
    State state = State::req_sent;
    CmId id = 0;
    std::uint32_t remote_id = 0;
    std::uint64_t transaction_id = 0;
    Qp* qp = nullptr;
    Path path{};
    wire::Psn receive_psn{};  ///< of the peer's first packet, which we choose
    wire::CmReq request{};    ///< req_received: what was asked for
    wire::CmMessage last{};   ///< to be sent again
    Time deadline = kNever;
    std::uint8_t retries = 0;
    std::uint8_t timeout = 0;  ///< code
  };

  void handle(Time now, const wire::CmMessage& m, const wire::CmReq& req, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmRep& rep, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmRtu& rtu, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmRej& rej, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmMra& mra, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmDreq& dreq, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmDrep& drep, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmSidrReq& req, const Path& back);
  void handle(Time now, const wire::CmMessage& m, const wire::CmSidrRep& rep, const Path& back);

  [[nodiscard]] Connection* find(CmId id) noexcept;
  [[nodiscard]] Connection* find(CmId id, std::uint32_t remote_id) noexcept;
  [[nodiscard]] Connection* find_request(std::uint32_t remote_id, const wire::IpAddress& address) noexcept;
  Connection& create(State state, const Path& path);
  void send(const Path& to, const wire::CmMessage& m);
  void send_with_retries(Time now, Connection& c, const wire::CmMessage& m);
  void establish(Connection& c, std::span<const std::uint8_t> private_data);
  void close(Connection& c, CmEvent::Kind kind, std::span<const std::uint8_t> private_data,
             wire::CmRejectReason reason = {});
  void update_deadline() noexcept;
  void raise(const Connection& c, CmEvent::Kind kind, std::span<const std::uint8_t> private_data,
             wire::CmRejectReason reason = {});

  Device& device_;
  CmConfig config_;
  std::uint32_t next_id_;
  std::uint32_t next_psn_ = 0;
  std::vector<std::uint16_t> listening_;
  std::map<CmId, Connection> connections_;
  std::deque<Outgoing> outgoing_;
  std::deque<CmEvent> events_;
  std::uint32_t waiting_for_rtu_ = 0;
  Time deadline_ = kNever;
  Counters counters_;
};

}  // namespace weft::nic
