// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/qp.h"

#include <cassert>

#include "nic/rnic/device.h"
#include "switch/wire/hash.h"
#include "switch/wire/qcn_cnp.h"
#include "switch/wire/rtt_echo.h"

namespace weft::nic {
namespace {

/// Source ports that rxe and mlx5 use: the upper quarter (annex A17.9.2).
std::uint16_t entropy_port(wire::Qpn a, wire::Qpn b) noexcept {
  return static_cast<std::uint16_t>(
      0xc000 | (wire::mix64(a.value() + 0x9e3779b97f4a7c15, b.value() + 0xc2b2ae3d27d4eb4f) & 0x3fff));
}

// HPCC wants an answer to each packet.
QpConfig with_needs(QpConfig config) noexcept {
  if (config.congestion_control == CongestionControl::hpcc) config.ack_interval = 1;
  return config;
}

}  // namespace

std::string_view name(QpState s) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"init", "ready", "error"};
  return kNames[static_cast<std::size_t>(s)];
}

Qp::Qp(Device& device, std::uint32_t index, wire::Qpn qpn, Pd pd, MemoryTable& memory, Cq& send_cq, Cq& receive_cq,
       const QpConfig& config)
    : device_(&device),
      index_(index),
      qpn_(qpn),
      send_cq_(&send_cq),
      receive_cq_(&receive_cq),
      config_(with_needs(config)),
      requester_(config_, pd, memory, qpn),
      responder_(config_, pd, memory, qpn),
      rate_(config),
      cnp_(config.dcqcn.cnp_interval_ns) {}

void Qp::connect(const Peer& peer) noexcept {
  assert(state_ == QpState::init);
  peer_ = peer;
  if (config_.udp_source_port != 0) peer_.path.source_port = config_.udp_source_port;
  if (peer_.path.source_port == 0) peer_.path.source_port = entropy_port(qpn_, peer.qpn);
  peer_.path.ttl = config_.ttl;
  telemetry_ = config_.congestion_control == CongestionControl::hpcc && !peer_.path.source.is_v6();
  header_.set(peer_.path, telemetry_);
  requester_.connect(peer.send_psn, peer.max_rd_atomic);
  responder_.connect(peer.receive_psn);
  state_ = QpState::ready;
}

void Qp::fail() noexcept {
  requester_.fail(WcStatus::flushed, *send_cq_);
  responder_.fail(*receive_cq_);
  state_ = QpState::error;
}

/// One half that fails takes the other with it, and so does a completion that was lost (IBTA 11.2.8.1).
void Qp::check_failure() noexcept {
  const bool lost = send_cq_->overruns() > 0 || receive_cq_->overruns() > 0;
  if (requester_.failed() || responder_.failed() || lost) fail();
}

PostResult Qp::post_send(const SendWr& wr) noexcept {
  const PostResult result = requester_.post(wr, *send_cq_);
  device_->wake(*this);
  return result;
}

PostResult Qp::post_recv(const RecvWr& wr) noexcept {
  const PostResult result = responder_.post(wr, *receive_cq_);
  if (state_ == QpState::ready) device_->wake(*this);
  return result;
}

void Qp::take_telemetry(const std::uint8_t* option) noexcept {
  if (!telemetry_ || wire::int_kind(option) == wire::IntKind::mirror) return;
  told_ = wire::int_kind(option) == wire::IntKind::echo;
  (told_ ? heard_ : echo_) = wire::read_int(option);
}

void Qp::on_packet(Time now, const Packet& packet, bool marked) noexcept {
  if (marked) {
    ++counters_.ce_marked;
    cnp_due_ = cnp_.on_marked(now) || cnp_due_;
  }
  if (packet.info().is_request()) {
    responder_.on_request(now, packet, *receive_cq_);
  } else {
    rate_.on_response(now, requester_.on_response(now, packet, *send_cq_));
    if (told_) rate_.on_telemetry(now, heard_, requester_.acknowledged(), requester_.ever_sent());
  }
  told_ = false;
  check_failure();
}

void Qp::on_cnp(Time now, const wire::Bth& bth, std::span<const std::uint8_t> reserved,
                const std::uint8_t* option) noexcept {
  if (wire::is_rtt_echo(bth)) {
    ++counters_.echoes_received;
    return rate_.on_echo(now, wire::Psn(bth.psn.value()));
  }
  ++counters_.cnps_received;
  if (option != nullptr && wire::int_kind(option) == wire::IntKind::mirror) {
    rate_.on_mirrored(now, wire::read_int(option));
  }
  rate_.on_cnp(now, wire::qcn_feedback(reserved));
}

void Qp::on_timer(Time now) noexcept {
  const std::uint64_t before = requester_.counters().timeouts;
  requester_.on_timer(now, *send_cq_);
  if (requester_.counters().timeouts != before) rate_.on_timeout(now);
  check_failure();
}

Time Qp::next_send() const noexcept {
  if (cnp_waits() || answer_waits()) return 0;
  return data_waits() ? rate_.next_send() : kNever;
}

bool Qp::cnp_waits() const noexcept {
  return cnp_due_ && !device_->paused(config_.cnp_dscp);
}

bool Qp::answer_waits() const noexcept {
  return responder_.can_transmit() && !response_waits() && !device_->paused(config_.ack_dscp.value_or(config_.dscp));
}

bool Qp::data_waits() const noexcept {
  return (response_waits() || request_waits()) && !device_->paused(config_.dscp);
}

// What was sent before was let through by the window once.
bool Qp::request_waits() const noexcept {
  if (!requester_.can_transmit()) return false;
  return !telemetry_ || !requester_.next_is_new() || requester_.inflight_packets() < rate_.window_packets();
}

bool Qp::transmit(Time now, Packet& out, std::uint8_t& tos) noexcept {
  last_was_data_ = last_collects_ = last_asks_ = false;
  if (cnp_waits()) {
    cnp_due_ = false;
    ++counters_.cnps_sent;
    out.opcode = wire::Opcode::CNP;
    out.psn = wire::Psn(0);
    out.ack_req = out.solicited = out.retransmission = false;
    out.payload.set(nullptr, 0);
    tos = wire::make_tos(config_.cnp_dscp, wire::Ecn::ect0);
    return true;
  }
  if (answer_waits()) {
    tos = wire::make_tos(config_.ack_dscp.value_or(config_.dscp), wire::Ecn::not_ect);
    return responder_.transmit(out, *receive_cq_);
  }
  if (!data_waits() || rate_.next_send() > now) return false;
  tos = wire::make_tos(config_.dscp, wire::Ecn::ect0);
  last_was_data_ = true;
  read_turn_ = response_waits() && (!read_turn_ || !request_waits());
  last_collects_ = !read_turn_;
  const bool sent = read_turn_ ? responder_.transmit(out, *receive_cq_) : requester_.transmit(now, out, *send_cq_);
  // A request that is sent again does not ask: the echo could be that of the first one.
  last_asks_ = sent && !read_turn_ && !out.retransmission && rate_.asks_echo(now, out.psn);
  check_failure();
  return sent;
}

}  // namespace weft::nic
