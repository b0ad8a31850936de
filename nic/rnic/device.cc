// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/device.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "switch/wire/hash.h"
#include "switch/wire/parse.h"
#include "switch/wire/rtt_echo.h"

namespace weft::nic {
namespace {

using wire::header_at;

/// Slots below are the numbers of QP0 and QP1.
constexpr std::uint32_t kFirstSlot = 2;
constexpr std::uint32_t kMaxSlots = 1u << 16;
/// Preamble, start delimiter, FCS and inter-frame gap.
constexpr std::uint32_t kEthernetOverhead = 8 + 4 + 12;
/// Packets that leave in a call, so that a caller without a link speed gets back to its receive queue.
constexpr int kMaxBurst = 64;

}  // namespace

Device::Device(const DeviceConfig& config)
    : config_(config), random_(config.seed), slots_(kFirstSlot), cm_(*this, config.cm, config.seed) {
  timers_.resize(kFirstSlot);
}

Device::~Device() = default;

std::uint64_t Device::next_random() noexcept {
  random_ += 0x9e3779b97f4a7c15;
  return wire::mix64(random_, 0xd1342543de82ef95) >> 13;
}

Mr Device::reg_mr(Pd pd, void* data, std::uint64_t length, std::uint32_t access) {
  return memory_.add(pd, static_cast<std::uint8_t*>(data), length, access, reinterpret_cast<std::uintptr_t>(data));
}

Mr Device::reg_mr_iova(Pd pd, void* data, std::uint64_t length, std::uint32_t access, std::uint64_t address) {
  return memory_.add(pd, static_cast<std::uint8_t*>(data), length, access, address);
}

Mr Device::reg_virtual_mr(Pd pd, std::uint64_t address, std::uint64_t length, std::uint32_t access) {
  return memory_.add(pd, nullptr, length, access, address);
}

Cq& Device::create_cq(std::uint32_t depth) {
  cqs_.push_back(std::make_unique<Cq>(depth));
  return *cqs_.back();
}

Qp& Device::create_qp(Pd pd, Cq& send_cq, Cq& receive_cq, const QpConfig& config) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    assert(index < kMaxSlots);
    slots_.emplace_back();
    slots_.back().generation = static_cast<std::uint8_t>(next_random());
    timers_.resize(slots_.size());
  } else {
    index = free_.front();
    free_.erase(free_.begin());
  }
  // Every queue pair has at most one place in the round.
  std::rotate(round_.begin(), round_.begin() + static_cast<std::ptrdiff_t>(round_head_), round_.end());
  round_head_ = 0;
  round_.resize(slots_.size());
  Slot& slot = slots_[index];
  const wire::Qpn qpn(std::uint32_t{++slot.generation} << 16 | index);
  slot.qp = std::make_unique<Qp>(*this, index, qpn, pd, memory_, send_cq, receive_cq, config);
  return *slot.qp;
}

void Device::destroy_qp(Qp& qp) noexcept {
  const std::uint32_t index = qp.index_;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < round_count_; ++i) {
    const std::uint32_t one = round_[(round_head_ + i) % round_.size()];
    if (one != index) round_[(round_head_ + kept++) % round_.size()] = one;
  }
  round_count_ = kept;
  cm_.forget(qp);
  slots_[index].qp.reset();
  free_.push_back(index);
}

std::vector<Qp*> Device::qps() const {
  std::vector<Qp*> all;
  for (const Slot& s : slots_) {
    if (s.qp) all.push_back(s.qp.get());
  }
  return all;
}

Qp* Device::find(wire::Qpn qpn) const noexcept {
  const std::uint32_t index = qpn.value() & (kMaxSlots - 1);
  if (index >= slots_.size()) return nullptr;
  Qp* qp = slots_[index].qp.get();
  return qp != nullptr && qp->qpn_ == qpn ? qp : nullptr;
}

bool Device::addressed_to_us(const std::uint8_t* frame, const wire::Parsed& p) const noexcept {
  if (p.has(wire::ParsedFlag::ipv6) != config_.address.is_v6()) return false;
  const std::uint8_t* ip = frame + p.l3_offset;
  if (!config_.address.is_v6()) {
    return header_at<wire::Ipv4Header>(ip).destination.value() == config_.address.v4_value();
  }
  return header_at<wire::Ipv6Header>(ip).destination == config_.address.bytes();
}

void Device::on_packet(Time now, std::span<const std::uint8_t> bytes, std::uint32_t length, TxSink& sink) noexcept {
  receive(now, bytes, length);
  pump(now, sink);
}

void Device::receive(Time now, std::span<const std::uint8_t> bytes, std::uint32_t length) noexcept {
  ++counters_.rx_frames;
  wire::Parsed p;
  const auto contiguous = static_cast<std::uint32_t>(bytes.size());
  wire::parse_frame(bytes.data(), contiguous, length, p);
  if (p.kind != wire::FrameKind::roce) {
    ++counters_.not_roce;
    return;
  }
  if (!addressed_to_us(bytes.data(), p)) {
    ++counters_.other_address;
    return;
  }
  if (config_.check_icrc && contiguous >= length && !wire::icrc_ok(bytes.data(), p)) {
    ++counters_.icrc_errors;
    return;
  }
  const auto& bth = header_at<wire::Bth>(bytes.data() + p.l4_offset + sizeof(wire::UdpHeader));
  if ((bth.pkey.value() & 0x7fff) != (wire::kDefaultPkey & 0x7fff)) {
    ++counters_.pkey_errors;
    return;
  }
  if (p.dest_qp == wire::kGsiQpn) {
    cm_.on_frame(now, bytes, p);
    return;
  }
  const bool cnp = p.opcode == static_cast<std::uint8_t>(wire::Opcode::CNP);
  if (!cnp && wire::transport_of(p.opcode) != wire::Transport::rc) {
    ++counters_.unsupported;
    return;
  }
  Qp* qp = find(p.dest_qp);
  if (qp == nullptr || qp->state_ == QpState::init) {
    ++counters_.unknown_qp;
    return;
  }
  deliver(now, *qp, bytes, p);
}

void Device::deliver(Time now, Qp& qp, std::span<const std::uint8_t> bytes, const wire::Parsed& p) noexcept {
  const std::uint8_t* ip = bytes.data() + p.l3_offset;
  const wire::IpAddress& from = qp.peer_.path.destination;
  const bool known = from.is_v6() ? header_at<wire::Ipv6Header>(ip).source == from.bytes()
                                  : header_at<wire::Ipv4Header>(ip).source.value() == from.v4_value();
  if (!known) {
    ++counters_.unknown_qp;
    return;
  }
  const bool options = p.has(wire::ParsedFlag::ip_options) && !p.has(wire::ParsedFlag::ipv6);
  const std::uint8_t* const option = options ? wire::find_int_option(ip) : nullptr;
  if (p.opcode == static_cast<std::uint8_t>(wire::Opcode::CNP)) {
    const std::size_t bth = p.l4_offset + sizeof(wire::UdpHeader);
    const std::size_t reserved = std::min(bth + sizeof(wire::Bth), bytes.size());
    qp.on_cnp(now, header_at<wire::Bth>(bytes.data() + bth), bytes.subspan(reserved), option);
  } else {
    Packet& packet = rx_packet_;
    decode(bytes.data(), static_cast<std::uint32_t>(bytes.size()), p, packet);
    if (option != nullptr) qp.take_telemetry(option);
    qp.on_packet(now, packet, wire::ecn_of(p.tos) == wire::Ecn::ce);
    if (cm_.waits_for_traffic()) cm_.on_traffic(now, qp);
  }
  schedule(now, qp);
}

void Device::wake(Qp& qp) noexcept {
  schedule(0, qp);
}

void Device::set_paused(std::uint64_t dscps) noexcept {
  const bool resumed = (paused_ & ~dscps) != 0;
  paused_ = dscps;
  if (!resumed) return;
  for (const Slot& slot : slots_) {
    if (slot.qp != nullptr && slot.qp->state_ == QpState::ready) wake(*slot.qp);
  }
}

/// Puts a queue pair into the round if it may send by `now`, or else sets its timer.
void Device::schedule(Time now, Qp& qp) noexcept {
  const Time send = qp.next_send();
  if (send != kNever && (send <= now || send == 0)) {
    if (!qp.queued_) {
      qp.queued_ = true;
      round_[(round_head_ + round_count_++) % round_.size()] = qp.index_;
    }
  } else {
    timers_.arm(qp.index_, send);
  }
  timers_.arm(qp.index_, qp.next_deadline());
}

void Device::on_timer(Time now, TxSink& sink) noexcept {
  while (timers_.next() <= now) {
    const std::uint32_t index = timers_.pop();
    Qp* qp = slots_[index].qp.get();
    if (qp == nullptr) continue;
    if (qp->next_deadline() <= now) qp->on_timer(now);
    schedule(now, *qp);
  }
  cm_.on_timer(now);
  pump(now, sink);
}

Time Device::next_deadline() const noexcept {
  const Time timer = std::min(timers_.next(), cm_.next_deadline());
  const bool waiting = round_count_ > 0 || mad_waits();
  return waiting ? std::min(timer, link_free_) : timer;
}

void Device::send(Time now, const TxFrame& frame, TxSink& sink) noexcept {
  sink.send(frame);
  ++counters_.tx_frames;
  counters_.tx_bytes += frame.bytes();
  if (config_.link_bps != 0) {
    const std::uint64_t bits = (std::uint64_t{frame.bytes()} + kEthernetOverhead) * 8;
    const auto ns = static_cast<Time>((bits * 1'000'000'000 + config_.link_bps - 1) / config_.link_bps);
    link_free_ = std::max(link_free_, now) + ns;
  }
}

void Device::send_mad(Time now, TxSink& sink) noexcept {
  Cm::Outgoing out;
  if (!cm_.next_mad(out)) return;
  HeaderTemplate header;
  header.set(out.path);
  Packet packet;
  packet.opcode = wire::Opcode::UD_SEND_ONLY;
  packet.psn = out.psn;
  packet.payload.set(out.mad.data(), wire::kMadBytes);
  std::array<std::uint8_t, kMaxHeadBytes> head;
  send(now, make_frame(header, 0, packet, wire::kGsiQpn, head.data()), sink);
}

void Device::pump(Time now, TxSink& sink) noexcept {
  for (int burst = 0; burst < kMaxBurst; ++burst) {
    if (link_free_ > now || (round_count_ == 0 && !mad_waits()) || !sink.ready()) return;
    if (mad_waits()) {
      send_mad(now, sink);
      continue;
    }
    const std::uint32_t index = round_[round_head_];
    round_head_ = (round_head_ + 1) % round_.size();
    --round_count_;
    Qp& qp = *slots_[index].qp;
    qp.queued_ = false;
    Packet& packet = tx_packet_;
    std::uint8_t tos = 0;
    if (qp.transmit(now, packet, tos)) {
      std::array<std::uint8_t, kMaxHeadBytes> head;
      const TxFrame frame = make_frame(qp.header_, tos, packet, qp.peer_.qpn, head.data(), qp.echo());
      if (qp.asks_echo()) header_at<wire::Bth>(head.data() + qp.header_.size()).fecn_becn |= wire::kRttEcho;
      send(now, frame, sink);
      if (qp.last_was_data_) qp.note_data_sent(now, frame.bytes());
    }
    schedule(now, qp);
  }
}

}  // namespace weft::nic
