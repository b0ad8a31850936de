// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/generator_port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "switch/ports/rss.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parse.h"

namespace weft::ports {
using config::Value;

namespace {

constexpr std::uint32_t kFirstSourcePort = 49152;  // RoCEv2 uses the dynamic ports (IBTA annex A17)
constexpr std::uint32_t kSourcePorts = 16384;
// Of a frame; the hardware fetches what follows in a row by itself.
constexpr std::uint32_t kPrefetchedBytes = 128;

// Without the attribute the compiler fetches lines for reading, and the first write to each waits for other CPUs again.
#if defined(__x86_64__)
#define WEFT_PREFETCHES_TO_WRITE [[gnu::target("prfchw")]]
#else
#define WEFT_PREFETCHES_TO_WRITE
#endif

// A card would write the frame and its driver the mbuf, and neither keeps the CPU waiting for lines that another CPU
// had last. So those of the whole burst are fetched together before the first is written.
WEFT_PREFETCHES_TO_WRITE bool take_buffers(rte_mempool* pool, rte_mbuf** packets, std::uint16_t count,
                                           std::uint32_t frame_bytes) noexcept {
  if (rte_mempool_get_bulk(pool, reinterpret_cast<void**>(packets), count) != 0) return false;
  const std::uint32_t fetched = std::min(frame_bytes, kPrefetchedBytes);
  for (std::uint16_t i = 0; i < count; ++i) {
    auto* const line = reinterpret_cast<char*>(packets[i]);
    __builtin_prefetch(line, 1);
    __builtin_prefetch(line + RTE_CACHE_LINE_MIN_SIZE, 1);
    __builtin_prefetch(line + sizeof(rte_mbuf), 1);
    char* const frame = line + sizeof(rte_mbuf) + pipeline::kMetaSize + RTE_PKTMBUF_HEADROOM;
    for (std::uint32_t at = 0; at < fetched; at += RTE_CACHE_LINE_MIN_SIZE) __builtin_prefetch(frame + at, 1);
  }
  for (std::uint16_t i = 0; i < count; ++i) rte_pktmbuf_reset(packets[i]);
  return true;
}

}  // namespace

std::unique_ptr<GeneratorPort> GeneratorPort::open(const pipeline::PortInfo& info, const PortEnvironment& environment,
                                                   std::string& error) {
  const Value& device = info.device;
  std::unique_ptr<GeneratorPort> port(new GeneratorPort);
  port->pool_ = environment.pool;
  port->mac_ = info.mac.is_zero() ? derived_mac(info, environment.seed) : info.mac;
  if (info.mtu_bytes != 0) port->mtu_bytes_ = info.mtu_bytes;
  port->qps_ = static_cast<std::uint32_t>(device["qps"].integer());
  port->first_qpn_ = static_cast<std::uint32_t>(device["first_qpn"].integer());
  port->limit_ = device["limit_packets"].unsigned_integer();
  port->rate_pps_ = device["rate_pps"].unsigned_integer();
  if (device["heed_pfc"].boolean()) {
    qos::PortSettings heeds;
    heeds.pfc_enable = 0xff;
    port->pauses_.emplace(heeds);
  }
  port->kinds_ = static_cast<std::uint32_t>(device["opcodes"].list().size());
  if (!port->add_destination(device, device["destination_mac"], device["destination"], error)) return nullptr;
  for (const Value& more : device["more_destinations"].list_or_empty()) {
    if (!port->add_destination(device, more["mac"], more["address"], error)) return nullptr;
  }
  port->spread(info, environment);
  return port;
}

void GeneratorPort::spread(const pipeline::PortInfo& info, const PortEnvironment& environment) {
  const Value& device = info.device;
  const std::uint16_t workers = environment.workers;
  const std::uint16_t queues = device["rss"].boolean() ? environment.per_port.value_or(workers) : std::uint16_t{1};
  queues_.resize(queues);
  for (std::uint16_t q = 0; q < queues; ++q) {
    queues_[q].pool = q < environment.queue_pools.size() ? environment.queue_pools[q] : pool_;
  }
  std::vector<std::uint16_t> queue_of{0};  // by destination
  if (queues > 1) {
    const RssQueues rss{environment.owner, workers, queues};
    const pipeline::RssWorkers owners(workers);
    const auto source = wire::IpAddress::parse(device["source"].string())->v4_value();
    const auto queue_to = [&](const Value& address) {
      const auto to = wire::IpAddress::parse(address.string())->v4_value();
      return rss.of_worker(owners.of_v4(std::uint64_t{source} << 32 | to));
    };
    queue_of = {queue_to(device["destination"])};
    for (const Value& more : device["more_destinations"].list_or_empty()) queue_of.push_back(queue_to(more["address"]));
  }
  const auto destinations = static_cast<std::uint32_t>(templates_.size()) / kinds_;
  for (std::uint32_t qp = 0; qp < qps_; ++qp) {
    const std::uint32_t to = qp % destinations;
    queues_[queues > 1 ? queue_of[to] : 0].add({qp, to});
  }
}

bool GeneratorPort::add_destination(const Value& device, const Value& mac, const Value& address, std::string& error) {
  const Host to{*wire::MacAddress::parse(mac.string()), *wire::IpAddress::parse(address.string())};
  const std::vector<std::uint8_t> payload(static_cast<std::size_t>(device["payload_bytes"].integer()));
  for (const Value& name : device["opcodes"].list()) {
    Template& made = templates_.emplace_back();
    if (!make_template(device, to, *wire::opcode_from_name(name.string()), payload, made, error)) return false;
  }
  return !device.has("control") || make_control(device, to, error);
}

bool GeneratorPort::make_template(const Value& device, const Host& to, wire::Opcode opcode,
                                  std::span<const std::uint8_t> payload, Template& out, std::string& error) const {
  wire::FrameBuilder builder;
  builder.eth(*wire::MacAddress::parse(device["source_mac"].string()), to.mac)
      .ip(*wire::IpAddress::parse(device["source"].string()), to.address)
      .dscp(static_cast<std::uint8_t>(device["dscp"].integer()))
      .udp(0)
      .bth(opcode, wire::Qpn(0), wire::Psn(0));
  if (wire::opcode_info(opcode).may_carry_payload()) builder.payload(payload);
  out.bytes = builder.build();
  out.request = wire::opcode_info(opcode).is_request();
  if (out.bytes.size() > buffer_bytes(pool_)) {
    error = too_large_for_buffers("packets of " + std::to_string(out.bytes.size()) + " bytes", pool_);
    return false;
  }
  wire::Parsed parsed;
  const auto bytes = static_cast<std::uint32_t>(out.bytes.size());
  wire::parse_frame(out.bytes.data(), bytes, bytes, parsed);
  out.bth = parsed.l4_offset + 8u;
  out.behind_bth = bytes - out.bth - 12 - 4;
  std::memcpy(&out.icrc, out.bytes.data() + out.bytes.size() - 4, 4);
  return true;
}

bool GeneratorPort::make_control(const Value& device, const Host& to, std::string& error) {
  const Value& control = device["control"];
  std::vector<std::uint8_t> payload;
  for (const Value& byte : control["payload"].list()) payload.push_back(static_cast<std::uint8_t>(byte.integer()));
  control_every_ = control["every"].unsigned_integer();
  control_immediate_ = static_cast<std::uint32_t>(control["immediate"].integer());
  return make_template(device, to, wire::Opcode::RC_SEND_ONLY_IMM, payload, controls_.emplace_back(), error);
}

// Packets that may be sent when so many have been.
std::uint64_t GeneratorPort::allowed(TimeNs now, std::uint64_t sent) noexcept {
  std::uint64_t allowed = limit_ == 0 ? ~std::uint64_t{0} : limit_ - sent;
  if (rate_pps_ != 0) {
    TimeNs started = 0;
    if (started_.compare_exchange_strong(started, now, std::memory_order_relaxed)) started = now;
    // Another worker's clock may have been read later.
    const TimeNs passed = now > started ? now - started : 0;
    const auto earned = static_cast<std::uint64_t>(static_cast<unsigned __int128>(passed) * rate_pps_ / 1'000'000'000);
    allowed = std::min(allowed, earned > sent ? earned - sent : 0);
  }
  return allowed;
}

// How many of so many packets are still to be sent when other queues have sent theirs.
std::uint16_t GeneratorPort::claim(TimeNs now, std::uint16_t wanted) noexcept {
  std::uint64_t sent = sent_.load(std::memory_order_relaxed);
  std::uint64_t count = 0;
  do {
    count = std::min<std::uint64_t>(allowed(now, sent), wanted);
  } while (!sent_.compare_exchange_weak(sent, sent + count, std::memory_order_relaxed));
  return static_cast<std::uint16_t>(count);
}

void GeneratorPort::fill(const Template& from, std::uint32_t qp, std::uint32_t psn, std::uint32_t immediate,
                         std::uint8_t* frame) const noexcept {
  std::memcpy(frame, from.bytes.data(), from.bytes.size());
  const wire::be16 port(static_cast<std::uint16_t>(kFirstSourcePort + qp % kSourcePorts));
  const wire::be24 qpn(first_qpn_ + qp);
  const wire::be24 number(psn);
  std::uint8_t* bth = frame + from.bth;
  std::memcpy(bth - 8, &port, 2);
  std::memcpy(bth + 5, &qpn, 3);
  std::memcpy(bth + 9, &number, 3);
  const std::uint8_t zero[4]{};
  std::uint32_t icrc = wire::icrc_update(from.icrc, std::array{
                                                        wire::make_edit(zero, bth - 8, 2, from.behind_bth + 12 + 6),
                                                        wire::make_edit(zero, bth + 5, 3, from.behind_bth + 4),
                                                        wire::make_edit(zero, bth + 9, 3, from.behind_bth),
                                                    });
  if (immediate != 0) {
    const wire::be32 data(immediate);
    std::memcpy(bth + 12, &data, 4);
    icrc = wire::icrc_update(icrc, std::array{wire::make_edit(zero, bth + 12, 4, from.behind_bth - 4)});
  }
  std::memcpy(frame + from.bytes.size() - 4, &icrc, 4);
}

std::uint32_t GeneratorPort::next_psn(Turn& turn, bool request) noexcept {
  std::uint64_t& sent = turn.requests;
  const std::uint64_t number = request ? sent : sent > kAcknowledgeLag ? sent - kAcknowledgeLag : 0;
  sent += request ? 1 : 0;
  return static_cast<std::uint32_t>(first_psn(turn.qp) + number) & wire::Psn::kMask;
}

// Each round begins with another template, so that every QP gets every kind.
void GeneratorPort::next_kind(Queue& queue) const noexcept {
  if (++queue.kind == kinds_) queue.kind = 0;
  if (queue.kind != queue.round) return;
  if (++queue.round == kinds_) queue.round = 0;
  queue.kind = queue.round;
}

void GeneratorPort::make_next(Queue& queue, rte_mbuf* m) const noexcept {
  Turn& turn = queue.turn(queue.next);
  const Template* from = &templates_[turn.destination * kinds_ + queue.kind];
  std::uint32_t immediate = 0;
  if (control_every_ != 0 && from->request && turn.requests % control_every_ == 0) {
    from = &controls_[turn.destination];
    immediate = control_immediate_ + static_cast<std::uint32_t>(turn.requests / control_every_);
  }
  const auto length = static_cast<std::uint16_t>(from->bytes.size());
  auto* const frame = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, length));
  fill(*from, turn.qp, next_psn(turn, from->request), immediate, frame);
  if (++queue.next == queue.size) queue.next = 0;
  next_kind(queue);
}

std::uint16_t GeneratorPort::receive(TimeNs now, std::uint16_t queue_index, rte_mbuf** packets,
                                     std::uint16_t max) noexcept {
  Queue& queue = queues_[queue_index];
  if (queue.size == 0 || is_shut()) [[unlikely]]
    return 0;
  if (pauses_) {
    asked_ = now;
    // All packets are of one priority, and the peer pauses no other.
    if (pauses_->paused(now) != 0) return 0;
  }
  std::uint16_t count = max;
  if (limited()) {
    count =
        static_cast<std::uint16_t>(std::min<std::uint64_t>(allowed(now, sent_.load(std::memory_order_relaxed)), max));
  }
  const auto bytes = static_cast<std::uint32_t>(templates_.front().bytes.size());
  if (count == 0 || !take_buffers(queue.pool, packets, count, bytes)) return 0;
  if (limited()) {
    const std::uint16_t taken = count;
    count = claim(now, taken);
    rte_pktmbuf_free_bulk(packets + count, static_cast<unsigned>(taken - count));
  }
  for (std::uint16_t i = 0; i < count; ++i) make_next(queue, packets[i]);
  return count;
}

pipeline::TxResult GeneratorPort::transmit(rte_mbuf** packets, std::uint16_t count) noexcept {
  for (std::uint16_t i = 0; pauses_ && i < count; ++i) {
    const std::span<const std::uint8_t> frame(pipeline::frame(packets[i]), packets[i]->data_len);
    if (frame.size() < sizeof(wire::EthernetHeader)) continue;
    const auto& eth = wire::header_at<wire::EthernetHeader>(frame.data());
    if (eth.ethertype.value() == wire::EtherType::mac_control) pauses_->on_frame(asked_, frame);
  }
  rte_pktmbuf_free_bulk(packets, count);
  return {.taken = count};
}

std::string GeneratorPort::description() const {
  return "generator of " + std::to_string(qps_) + " QPs";
}

}  // namespace weft::ports
