// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An RC queue pair: requester, responder, congestion control and the path to the peer.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nic/rnic/config.h"
#include "nic/rnic/dcqcn.h"
#include "nic/rnic/frame.h"
#include "nic/rnic/memory.h"
#include "nic/rnic/packet.h"
#include "nic/rnic/rate_control.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "nic/rnic/work.h"

namespace weft::nic {

class Device;

/// States as far as they differ here (IBTA 10.3.1). `ready` is RTS.
enum class QpState : std::uint8_t { init, ready, error };
[[nodiscard]] std::string_view name(QpState s) noexcept;

/// The other end of a queue pair.
struct Peer {
  wire::Qpn qpn{};
  Path path{};                       ///< a source port of 0 is chosen from both queue pair numbers
  wire::Psn send_psn{};              ///< of our first packet
  wire::Psn receive_psn{};           ///< of the peer's first packet
  std::uint8_t max_rd_atomic = 255;  ///< READs and atomics that it takes at a time
};

/// Counters that are of no half alone.
struct QpCounters {
  std::uint64_t ce_marked = 0;
  std::uint64_t cnps_sent = 0;
  std::uint64_t cnps_received = 0;
  std::uint64_t echoes_received = 0;  ///< of requests, by a switch on the way
};

class Qp {
 public:
  Qp(Device& device, std::uint32_t index, wire::Qpn qpn, Pd pd, MemoryTable& memory, Cq& send_cq, Cq& receive_cq,
     const QpConfig& config);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] wire::Qpn qpn() const noexcept { return qpn_; }
  [[nodiscard]] QpState state() const noexcept { return state_; }
  [[nodiscard]] const QpConfig& config() const noexcept { return config_; }
  /// Goes to the state ready.
  void connect(const Peer& peer) noexcept;
  /// Goes to the state error: all work ends, flushed.
  void fail() noexcept;

  /// Work leaves with the device's next on_timer() or on_packet().
  PostResult post_send(const SendWr& wr) noexcept;
  PostResult post_recv(const RecvWr& wr) noexcept;

  [[nodiscard]] const Requester& requester() const noexcept { return requester_; }
  [[nodiscard]] const Responder& responder() const noexcept { return responder_; }
  [[nodiscard]] const QpCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] RateControl& rate() noexcept { return rate_; }
  [[nodiscard]] const Peer& peer() const noexcept { return peer_; }

 private:
  friend class Device;

  /// The packet that on_packet() is given next has brought this option of its IP header.
  void take_telemetry(const std::uint8_t* option) noexcept;
  void on_packet(Time now, const Packet& packet, bool marked) noexcept;
  /// @param reserved  the bytes behind the BTH
  /// @param option    of its IP header, if it has one
  void on_cnp(Time now, const wire::Bth& bth, std::span<const std::uint8_t> reserved,
              const std::uint8_t* option) noexcept;
  void on_timer(Time now) noexcept;
  /// A CNP, an ACK or NAK, and data wait, and nothing pauses them.
  [[nodiscard]] bool cnp_waits() const noexcept;
  [[nodiscard]] bool answer_waits() const noexcept;
  [[nodiscard]] bool data_waits() const noexcept;
  /// Data of requests waits, and the window of congestion control is open.
  [[nodiscard]] bool request_waits() const noexcept;
  /// Data of READ responses waits.
  [[nodiscard]] bool response_waits() const noexcept { return responder_.next_is_data(); }
  /// When a packet could leave; kNever when there is none.
  [[nodiscard]] Time next_send() const noexcept;
  [[nodiscard]] Time next_deadline() const noexcept { return requester_.next_deadline(); }
  /// The next packet, if it may leave by now, and the TOS byte that it gets.
  bool transmit(Time now, Packet& out, std::uint8_t& tos) noexcept;
  /// What the option of the packet that transmit() gave takes back; nullptr: it collects.
  [[nodiscard]] const wire::IntPath* echo() const noexcept { return last_collects_ ? nullptr : &echo_; }
  /// Whether the packet that transmit() gave asks a switch on the way for an echo.
  [[nodiscard]] bool asks_echo() const noexcept { return last_asks_; }
  void note_data_sent(Time now, std::uint32_t wire_bytes) noexcept { rate_.on_sent(now, wire_bytes); }
  void check_failure() noexcept;

  Device* device_;
  std::uint32_t index_;
  wire::Qpn qpn_;
  Cq* send_cq_;
  Cq* receive_cq_;
  QpConfig config_;
  QpState state_ = QpState::init;
  bool queued_ = false;  ///< in the device's round
  bool cnp_due_ = false;
  bool read_turn_ = false;  ///< whose turn it is when both halves have data
  bool last_was_data_ = false;
  bool last_collects_ = false;
  bool last_asks_ = false;
  bool telemetry_ = false;  ///< packets have the option of switch/wire/telemetry.h
  bool told_ = false;       ///< what is in heard_ is new
  wire::IntPath echo_{};    ///< of the newest request
  wire::IntPath heard_{};   ///< of our requests, as the peer has sent it back
  Peer peer_{};
  HeaderTemplate header_{};
  Requester requester_;
  Responder responder_;
  RateControl rate_;
  CnpGenerator cnp_;
  QpCounters counters_;
};

}  // namespace weft::nic
