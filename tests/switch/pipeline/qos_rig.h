// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A switch with qos whose hosts the test plays: real frames, real parser, virtual time.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "switch/pipeline/class_queues.h"
#include "switch/qos/defaults.h"
#include "switch/wire/builder.h"
#include "switch/wire/emit.h"
#include "switch/wire/parse.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {

/// The frame that a device sent, as far as tests look at it.
struct SentFrame {
  TimeNs at;
  std::vector<std::uint8_t> bytes;  ///< of the first segment
  wire::Parsed parsed;
};

/// Parses, and forwards to the port in the last byte of the destination address.
inline Script parse_and_forward() {
  return {.ingress = [](Context& context, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      rte_mbuf* m = batch.packet[i];
      PacketMeta& pm = meta(m);
      wire::parse_frame(frame(m), m->data_len, m->pkt_len, pm.parsed);
      if (pm.parsed.kind == wire::FrameKind::mac_control) {
        context.mac_control(batch, i);
        continue;
      }
      pm.out_port = frame(m)[5];
    }
  }};
}

class QosRig : public Rig {
 public:
  explicit QosRig(const RigOptions& options) : QosRig({{"parse", parse_and_forward()}}, options) {}
  QosRig(std::vector<std::pair<std::string, Script>> stages, const RigOptions& options)
      : Rig(std::move(stages), options) {
    sent.resize(options.ports);
    for (std::size_t p = 0; p < devices.size(); ++p) {
      devices[p]->behaviour = [this, p](rte_mbuf** packets, std::uint16_t count) {
        for (std::uint16_t i = 0; i < count; ++i) keep(p, packets[i]);
        return TxResult{.taken = count};
      };
    }
  }

  /// Settings of a switch whose ports are all alike.
  static qos::Settings settings(std::size_t ports, const qos::PortFacts& facts) {
    qos::Settings s;
    s.ports.assign(ports, qos::default_port(facts));
    s.pool_bytes = qos::default_pool_bytes(s);
    return s;
  }

  /// A RoCE packet to a port, `bytes` long altogether.
  static std::vector<std::uint8_t> roce(PortIndex to, unsigned dscp, wire::Ecn ecn, std::size_t bytes,
                                        std::uint32_t psn = 0, bool ipv6 = false) {
    const std::size_t headers = 14 + (ipv6 ? 40 : 20) + 8 + 12 + 4;
    auto frame = wire::FrameBuilder().eth(wire::MacAddress::from_u64(0x020000000100),
                                          wire::MacAddress::from_u64(0x020000000000 | to));
    if (ipv6) {
      frame.ip(*wire::IpAddress::parse("2001:db8::1"), *wire::IpAddress::parse("2001:db8::2"));
    } else {
      frame.ip(wire::IpAddress::v4(0x0a000001), wire::IpAddress::v4(0x0a000002));
    }
    return frame.tos(wire::make_tos(static_cast<std::uint8_t>(dscp), ecn))
        .udp(50000)
        .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(7), wire::Psn(psn))
        .payload((bytes - headers) / 4 * 4)
        .build();
  }

  /// False when no buffer is left.
  bool arrive(PortIndex in, const std::vector<std::uint8_t>& bytes, std::uint16_t count = 1) {
    rte_mbuf* packets[Batch::kCapacity];
    for (std::uint16_t i = 0; i < count; ++i) {
      packets[i] = rte_pktmbuf_alloc(pool());
      if (packets[i] == nullptr) throw std::runtime_error("the rig has no buffer left");
      std::memcpy(rte_pktmbuf_append(packets[i], static_cast<std::uint16_t>(bytes.size())), bytes.data(), bytes.size());
    }
    pipelines[state->owner_of_port(in)]->receive(now, in, packets, count);
    return true;
  }

  void pfc_arrives(PortIndex in, std::uint8_t classes, std::uint16_t quanta) {
    std::vector<std::uint8_t> f(wire::kMinFrameBytes);
    std::array<std::uint16_t, 8> all{};
    all.fill(quanta);
    wire::write_pfc(f, wire::MacAddress::from_u64(0x020000000200), classes, all);
    arrive(in, f);
  }

  [[nodiscard]] const ClassQueues& queues(PortIndex port) const {
    return *pipelines[state->owner_of_port(port)]->class_queues(port);
  }
  [[nodiscard]] std::uint64_t depth(PortIndex port, unsigned queue) const {
    return state->buffer()->queue(port, queue).bytes.value();
  }
  /// Frames that left, but PAUSE and PFC.
  [[nodiscard]] std::vector<SentFrame> data(PortIndex port) const {
    std::vector<SentFrame> out;
    for (const auto& f : sent[port]) {
      if (f.parsed.kind != wire::FrameKind::mac_control) out.push_back(f);
    }
    return out;
  }

  std::vector<std::vector<SentFrame>> sent;  ///< by port
  bool keep_frames = true;
  std::function<void(PortIndex, const SentFrame&)> on_sent;

 private:
  void keep(std::size_t port, rte_mbuf* m) {
    SentFrame f{now, {frame(m), frame(m) + m->data_len}, {}};
    const auto length = static_cast<std::uint32_t>(f.bytes.size());
    wire::parse_frame(f.bytes.data(), length, length, f.parsed);
    if (on_sent) on_sent(static_cast<PortIndex>(port), f);
    if (keep_frames) sent[port].push_back(std::move(f));
    rte_pktmbuf_free(m);
  }
};

/// A rig of these settings.
inline RigOptions qos_options(qos::Settings settings, std::uint64_t rate_mbps = 0) {
  RigOptions o;
  o.ports = static_cast<std::uint16_t>(settings.ports.size());
  o.rate_mbps = rate_mbps;
  o.buffers = 16384;
  o.data_room_bytes = 2048;
  o.qos = std::move(settings);
  return o;
}

/// Settings of ports that are all alike.
inline qos::Settings plain_qos(std::size_t ports, std::uint64_t speed_mbps = 10'000) {
  return QosRig::settings(ports, {.speed_mbps = speed_mbps, .delay_ns = 1000, .mtu_bytes = 1500});
}

/// A sender that heeds PFC as an adapter does: what is on its way when the pause comes still arrives.
class Host {
 public:
  Host(QosRig& rig, PortIndex port, std::vector<std::uint8_t> frame, std::uint64_t rate_mbps)
      : rig_(rig), port_(port), frame_(std::move(frame)), gap_ns_(frame_.size() * 8000 / rate_mbps), next_(rig.now) {}

  void on_pfc(TimeNs now, const std::vector<std::uint8_t>& bytes, std::uint64_t speed_mbps, unsigned priority) {
    const auto& pfc = wire::header_at<wire::PfcHeader>(bytes.data() + 14);
    if (!pfc.enabled(priority)) return;
    paused_until_ = now + qos::pause_ns(pfc.quanta[priority].value(), speed_mbps);
    pauses += pfc.quanta[priority].value() != 0 ? 1 : 0;
  }
  [[nodiscard]] TimeNs next() const { return left == 0 ? kNever : std::max(next_, paused_until_); }
  void step() {
    while (left != 0 && next() <= rig_.now) {
      rig_.arrive(port_, frame_);
      next_ = next() + gap_ns_;
      --left;
    }
  }
  std::uint64_t left = 0;  ///< packets still to send
  std::uint64_t pauses = 0;

 private:
  QosRig& rig_;
  PortIndex port_;
  std::vector<std::uint8_t> frame_;
  TimeNs gap_ns_;
  TimeNs next_;
  TimeNs paused_until_ = 0;
};

/// Bytes that a group has.
inline std::uint64_t charged(const qos::SharedBuffer::Group& group) {
  return group.bytes.value() + group.headroom.value();
}

/// A stage behind the forwarding one that lets packets of one port, on one worker, wait until it is told to let go: all
/// for which there is room.
struct Holder {
  PortIndex from = 0;
  std::uint16_t worker = 0;
  bool go = false;
  std::vector<rte_mbuf*> held{};

  Script script() {
    return {.ingress =
                [this](Context& context, Batch& batch) {
                  for (std::uint16_t i = 0; i < batch.size; ++i) {
                    rte_mbuf* m = batch.packet[i];
                    if (meta(m).in_port != from || !context.charge(m)) continue;
                    held.push_back(m);
                    batch.remove(i);
                  }
                },
            .deadline = [this](std::uint16_t w) { return go && w == worker && !held.empty() ? TimeNs{0} : kNever; },
            .timer = [this](Context& context) { let_go(context, [&](rte_mbuf* m) { context.resume(m); }); },
            .held = [this](std::uint16_t w) { return w == worker ? held.size() : 0; },
            .flush =
                [this](Context& context) {
                  if (context.worker != worker) return;
                  let_go(context, [&](rte_mbuf* m) { context.drop(m, DropReason::shutdown); });
                }};
  }

 private:
  template <typename F>
  void let_go(Context& context, F&& to) {
    for (rte_mbuf* m : std::exchange(held, {})) {
      context.release(m);
      to(m);
    }
  }
};

}  // namespace weft::pipeline
