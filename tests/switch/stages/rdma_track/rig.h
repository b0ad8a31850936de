// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A tracker that is fed with frames, without a pipeline around it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "switch/stages/rdma_track/unit.h"
#include "switch/wire/builder.h"
#include "switch/wire/cm.h"
#include "switch/wire/parse.h"

namespace weft::testing {

using wire::Opcode;
using wire::Psn;
using wire::Qpn;

/// A frame on its way through the tracker.
struct TrackedFrame {
  std::vector<std::uint8_t> bytes;
  wire::Parsed parsed;
  std::uint32_t handle = 0;

  explicit TrackedFrame(std::vector<std::uint8_t> frame) : bytes(std::move(frame)) {
    const auto length = static_cast<std::uint32_t>(bytes.size());
    wire::parse_frame(bytes.data(), length, length, parsed);
  }
};

struct FrameAccess {
  static const wire::Parsed& parsed(const TrackedFrame* f) noexcept { return f->parsed; }
  static const std::uint8_t* frame(const TrackedFrame* f) noexcept { return f->bytes.data(); }
  static const std::uint8_t* read(const TrackedFrame* f, std::uint32_t offset, std::uint32_t bytes,
                                  std::uint8_t* scratch) noexcept {
    if (offset + bytes > f->bytes.size()) return nullptr;
    std::memcpy(scratch, f->bytes.data() + offset, bytes);
    return scratch;
  }
  static void set_handle(TrackedFrame* f, std::uint32_t handle) noexcept { f->handle = handle; }
};

class TrackRig {
 public:
  explicit TrackRig(stages::TrackOptions options = {.max_qps = 1000}) : tracker(options) {}

  /// A burst of frames; returns their handles.
  std::vector<std::uint32_t> burst(const std::vector<wire::FrameBuilder>& builders) {
    std::vector<TrackedFrame> frames;
    for (const auto& builder : builders) frames.emplace_back(builder.build());
    std::vector<TrackedFrame*> pointers;
    for (auto& f : frames) pointers.push_back(&f);
    tracker.track<FrameAccess, TrackedFrame>(now, pointers);
    std::vector<std::uint32_t> handles;
    for (const auto& f : frames) handles.push_back(f.handle);
    return handles;
  }
  std::uint32_t send(const wire::FrameBuilder& builder) { return burst({builder})[0]; }

  /// Time passes, with the tracker's timer.
  void advance_s(std::uint64_t seconds) {
    const TimeNs end = now + seconds * 1'000'000'000;
    run_timers(end);
  }
  /// A tick of the tables is about a millisecond.
  void advance_ticks(std::uint64_t ticks) { run_timers(now + (ticks << 20)); }
  void run_timers(TimeNs end) {
    while (tracker.next_deadline() <= end) {
      now = std::max(now, tracker.next_deadline());
      tracker.on_timer(now);
    }
    now = end;
  }

  [[nodiscard]] std::uint64_t count(stages::TrackCounter c) const { return tracker.counters().value(c); }
  [[nodiscard]] std::uint32_t position(const std::string& source, const std::string& destination, Qpn qpn) const {
    const auto s = wire::IpAddress::parse(source).value(), d = wire::IpAddress::parse(destination).value();
    tables::QpKey key{std::uint64_t{s.v4_value()} << 32 | d.v4_value(), qpn.value()};
    if (s.is_v6()) {
      std::array<std::uint8_t, 32> both;
      std::copy(s.bytes().begin(), s.bytes().end(), both.begin());
      std::copy(d.bytes().begin(), d.bytes().end(), both.begin() + 16);
      key = {tracker.table().pairs().find(both.data()), qpn.value() | tables::QpEntry::kV6};
    }
    return tracker.table().find(key);
  }
  [[nodiscard]] bool has(const std::string& source, const std::string& destination, Qpn qpn) const {
    return position(source, destination, qpn) != tables::QpTable::kNone;
  }
  [[nodiscard]] const tables::QpEntry& entry(const std::string& source, const std::string& destination, Qpn qpn) const {
    return tracker.table().entry(position(source, destination, qpn));
  }
  [[nodiscard]] const tables::QpDetail& detail(const std::string& source, const std::string& destination,
                                               Qpn qpn) const {
    return tracker.table().detail(position(source, destination, qpn));
  }
  [[nodiscard]] std::uint64_t retransmitted(const std::string& a, const std::string& b, Qpn qpn) const {
    return tables::retransmitted(entry(a, b, qpn), detail(a, b, qpn));
  }
  [[nodiscard]] std::uint64_t duplicates(const std::string& a, const std::string& b, Qpn qpn) const {
    return tables::duplicates(entry(a, b, qpn), detail(a, b, qpn));
  }

  stages::QpTracker tracker;
  TimeNs now = 1'000'000'000;
};

inline const std::string kA = "10.0.0.1", kB = "10.0.0.2";

/// Packets from host A to a QP of host B, and back.
inline wire::FrameBuilder from_a(Opcode opcode, Qpn qpn, Psn psn) {
  return wire::FrameBuilder().ipv4(kA, kB).udp(50000).bth(opcode, qpn, psn);
}
inline wire::FrameBuilder from_b(Opcode opcode, Qpn qpn, Psn psn) {
  return wire::FrameBuilder().ipv4(kB, kA).udp(50001).bth(opcode, qpn, psn);
}
inline wire::FrameBuilder write_from_a(Qpn qpn, std::uint32_t psn, std::size_t payload = 64) {
  return from_a(Opcode::RC_RDMA_WRITE_ONLY, qpn, Psn(psn)).payload(payload);
}
inline wire::FrameBuilder read_from_a(Qpn qpn, std::uint32_t psn, std::uint32_t length) {
  return from_a(Opcode::RC_RDMA_READ_REQUEST, qpn, Psn(psn)).reth(0x1000, 7, length);
}
inline wire::FrameBuilder answer_from_b(Qpn qpn, std::uint32_t psn, wire::Syndrome syndrome, std::uint32_t msn = 0) {
  return from_b(Opcode::RC_ACKNOWLEDGE, qpn, Psn(psn)).aeth(syndrome, msn);
}
inline wire::FrameBuilder ack_from_b(Qpn qpn, std::uint32_t psn) {
  return answer_from_b(qpn, psn, wire::Syndrome::ack());
}

/// A CM message between two hosts.
inline wire::FrameBuilder cm(const std::string& from, const std::string& to, const wire::CmMessage& message) {
  return wire::FrameBuilder()
      .ip(*wire::IpAddress::parse(from), *wire::IpAddress::parse(to))
      .mad(wire::build_cm(message));
}
inline wire::CmMessage req(std::uint32_t local_id, Qpn qpn, Psn starting_psn, std::uint64_t service_id = 0,
                           std::uint8_t path_mtu = 3) {
  wire::CmReq m;
  m.local_comm_id = local_id;
  m.local_qpn = qpn;
  m.starting_psn = starting_psn;
  m.service_id = service_id;
  m.path_mtu = path_mtu;
  return {1, m};
}
inline wire::CmMessage rep(std::uint32_t local_id, std::uint32_t remote_id, Qpn qpn, Psn starting_psn) {
  wire::CmRep m;
  m.local_comm_id = local_id;
  m.remote_comm_id = remote_id;
  m.local_qpn = qpn;
  m.starting_psn = starting_psn;
  return {1, m};
}
inline wire::CmMessage rtu(std::uint32_t local_id, std::uint32_t remote_id) {
  return {1, wire::CmRtu{local_id, remote_id, {}}};
}
inline wire::CmMessage rej(std::uint32_t local_id, std::uint32_t remote_id) {
  wire::CmRej m;
  m.local_comm_id = local_id;
  m.remote_comm_id = remote_id;
  return {1, m};
}
inline wire::CmMessage dreq(std::uint32_t local_id, std::uint32_t remote_id, Qpn remote_qpn) {
  return {1, wire::CmDreq{local_id, remote_id, remote_qpn, {}}};
}
inline wire::CmMessage drep(std::uint32_t local_id, std::uint32_t remote_id) {
  return {1, wire::CmDrep{local_id, remote_id, {}}};
}

}  // namespace weft::testing
