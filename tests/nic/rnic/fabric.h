// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Two RNICs and a network between them on virtual time: loss, duplication and reordering by seeded chance, and exact
// rules by a function that sees every frame.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nic/rnic/device.h"
#include "switch/base/rng.h"
#include "switch/wire/parse.h"

namespace weft::nic::testing {

using Bytes = std::vector<std::uint8_t>;

/// Chances per frame.
struct Faults {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  ///< delayed by up to reorder_ns more
  Time reorder_ns = 20 * kUs;
};

/// What a rule does with a frame.
enum class Fate : std::uint8_t { pass, lose, duplicate, mark };

/// A device with memory, a completion queue and a queue pair.
struct Node {
  Node(std::uint32_t address, std::uint64_t mac, const DeviceConfig& base)
      : device(make(address, mac, base)), pd(device.alloc_pd()), cq(device.create_cq(4096)) {}
  static DeviceConfig make(std::uint32_t address, std::uint64_t mac, DeviceConfig c) {
    c.address = wire::IpAddress::v4(address);
    c.mac = wire::MacAddress::from_u64(mac);
    c.seed += mac;
    return c;
  }
  void create_qp(const QpConfig& config) { qp = &device.create_qp(pd, cq, cq, config); }
  Bytes& memory(std::size_t bytes, std::uint64_t fill_seed) {
    buffer.resize(bytes);
    Rng rng(fill_seed);
    // Eight bytes at a time, because regions are megabytes and this code is not optimised when it is instrumented.
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = rng.next();
      std::memcpy(&buffer[at], &word, std::min(bytes - at, sizeof word));
    }
    mr = device.reg_mr_iova(pd, buffer.data(), buffer.size(), Access::all, 0x10000);
    return buffer;
  }
  [[nodiscard]] Sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {mr.address + offset, length, mr.key};
  }
  std::vector<Wc> poll() {
    std::vector<Wc> out(256);
    out.resize(cq.poll(out));
    return out;
  }

  Device device;
  Pd pd;
  Cq& cq;
  Qp* qp = nullptr;
  Bytes buffer;
  Mr mr{};
};

class Fabric {
 public:
  explicit Fabric(std::uint64_t seed = 1, DeviceConfig base = {})
      : a(0x0a000001, 0x020000000001, base), b(0x0a000002, 0x020000000002, base), rng_(seed) {}

  /// Connects a queue pair of each node.
  void connect(const QpConfig& config, wire::Psn a_psn = wire::Psn(100), wire::Psn b_psn = wire::Psn(200)) {
    connect(config, config, a_psn, b_psn);
  }
  void connect(const QpConfig& of_a, const QpConfig& of_b, wire::Psn a_psn, wire::Psn b_psn) {
    a.create_qp(of_a);
    b.create_qp(of_b);
    a.qp->connect(peer(a, b, a_psn, b_psn));
    b.qp->connect(peer(b, a, b_psn, a_psn));
  }
  static Peer peer(const Node& from, const Node& to, wire::Psn send, wire::Psn receive) {
    const auto &f = from.device.config(), &t = to.device.config();
    return {to.qp->qpn(), {f.mac, t.mac, f.address, t.address, 0, 64, 0}, send, receive};
  }

  /// Runs until `done` or the time limit; returns whether it was done. Everything that both nodes send is in the trace.
  bool run(const std::function<bool()>& done, Time limit = 20'000 * kMs) {
    const Time end = now + limit;
    while (!done()) {
      const Time next = std::min({events_.empty() ? kNever : events_.begin()->first.first, a.device.next_deadline(),
                                  b.device.next_deadline()});
      if (next == kNever || next > end) return done();
      now = std::max(now, next);
      step();
    }
    return true;
  }
  void settle(Time limit = 100 * kMs) {
    static_cast<void>(run([] { return false; }, limit));
  }

  Node a, b;
  Time now = 1000;
  Time delay_ns = 2 * kUs;
  Faults faults;
  std::function<Fate(bool from_a, const wire::Parsed&)> rule;
  std::function<void(bool from_a, Bytes& frame, const wire::Parsed&)> on_the_way;  ///< what switches write into a frame
  std::uint64_t frames = 0;
  std::uint64_t trace = 0xcbf29ce484222325;
  std::vector<Bytes>* record = nullptr;

 private:
  struct Side : TxSink {
    Side(Fabric& f, bool a) : fabric(f), from_a(a) {}
    void send(const TxFrame& frame) noexcept override { fabric.carry(from_a, frame); }
    Fabric& fabric;
    bool from_a;
  };

  void step() {
    while (!events_.empty() && events_.begin()->first.first <= now) {
      auto [to_b, bytes] = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      Side side(*this, to_b ? false : true);
      (to_b ? b : a).device.on_packet(now, bytes, side);
    }
    Side sa(*this, true), sb(*this, false);
    if (a.device.next_deadline() <= now) a.device.on_timer(now, sa);
    if (b.device.next_deadline() <= now) b.device.on_timer(now, sb);
  }
  bool chance(double p) { return p > 0 && Ratio::from_double(p).hit(rng_); }

  void carry(bool from_a, const TxFrame& frame) {
    Bytes bytes(frame.bytes());
    if (copy_frame(frame, bytes) != bytes.size()) std::abort();
    ++frames;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, &bytes[at], std::min(bytes.size() - at, sizeof word));
      trace = (trace ^ word) * 0x100000001b3;
    }
    trace = (trace ^ static_cast<std::uint64_t>(now)) * 0x100000001b3;
    if (record != nullptr) record->push_back(bytes);
    wire::Parsed parsed;
    wire::parse_frame(bytes.data(), static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(bytes.size()),
                      parsed);
    if (parsed.kind != wire::FrameKind::roce || parsed.validity != wire::Validity::ok ||
        !wire::icrc_ok(bytes.data(), parsed))
      std::abort();
    const Fate fate = rule ? rule(from_a, parsed) : Fate::pass;
    if (fate == Fate::lose || chance(faults.loss)) return;
    if (fate == Fate::mark) bytes[parsed.l3_offset + 1u] |= 3;
    if (on_the_way) on_the_way(from_a, bytes, parsed);
    const int copies = fate == Fate::duplicate || chance(faults.duplicate) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      Time at = now + delay_ns;
      if (chance(faults.reorder)) at += static_cast<Time>(rng_.below(static_cast<std::uint64_t>(faults.reorder_ns)));
      events_.emplace(std::pair{at, sequence_++}, std::pair{from_a, bytes});
    }
  }

  Rng rng_;
  std::uint64_t sequence_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::pair<bool, Bytes>> events_;
};

}  // namespace weft::nic::testing
