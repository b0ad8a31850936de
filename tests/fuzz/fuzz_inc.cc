// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: two bytes that choose a group and its mode, and then what arrives at its endpoints, in records of 20 bytes.
// Most records make a packet near what may come next: a control message with some of its bits turned, data of a full
// packet or of fewer bytes, an answer. Whatever comes, a packet sets off a bounded number of others, each of which its
// receiver can read, and a control message that is accepted gives the same bits when it is written again.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/engine/control_message.h"
#include "collectives/engine/inc_engine.h"
#include "tests/fuzz/require.h"

namespace weft::inc {
namespace {

constexpr std::size_t kRecord = 20;
constexpr std::uint32_t kMtu = 256, kGroup = 77;

class Judge final : public Sink {
 public:
  explicit Judge(const GroupConfig& group) : group_(group) {}
  void send(EndpointIndex to, const nic::Packet& packet, bool /*marked*/) override {
    require(to < group_.endpoints.size(), "packets go to endpoints that exist");
    require(packet.payload.bytes <= group_.mtu, "no packet is longer than the MTU");
    const wire::OpcodeInfo& info = packet.info();
    require(info.known(), "every packet has an opcode of RC, or is a CNP");
    if (packet.opcode == wire::Opcode::RC_SEND_ONLY_IMM) read_back(packet);
    std::uint32_t bytes = 0;
    for (std::size_t i = 0; i < packet.payload.count; ++i) {
      const auto& piece = packet.payload.pieces[i];
      bytes += piece.bytes;
      // A payload that points anywhere else is found by the sanitizer.
      for (std::uint32_t at = 0; at < piece.bytes; ++at) sum_ += piece.data[at];
    }
    require(bytes == packet.payload.bytes, "a payload's pieces are as long as it is");
    ++count;
  }
  std::uint64_t count = 0;

 private:
  static void read_back(const nic::Packet& packet) {
    if (packet.payload.count != 1 || packet.payload.bytes != kControlPayloadBytes) return;
    ControlMessage m;
    const std::span<const std::uint8_t> payload(packet.payload.data(), packet.payload.bytes);
    if (read_control(packet.immediate, payload, m)) return;
    const auto again = control_payload(m);
    require(control_immediate(m) == packet.immediate, "an immediate is written as it was read");
    require(std::equal(again.begin(), again.end(), payload.begin()), "a control message is written as it was read");
  }

  const GroupConfig& group_;
  std::uint64_t sum_ = 0;
};

// A star, or a leaf below another switch.
GroupConfig group_of(std::uint8_t shape, std::uint8_t options) {
  GroupConfig g;
  g.id = kGroup;
  g.mtu = kMtu;
  g.window = 1 + (shape >> 2 & 3);
  g.message_packets = 1 + (shape >> 4 & 1);
  g.slots = 2 * g.window * g.message_packets;
  g.duplicates = (options & 1) != 0 ? Duplicates::reforward : Duplicates::cache;
  g.epsn_filter = (options & 2) != 0;
  g.reproducible = (options & 4) != 0;
  g.overflow = (options & 8) != 0 ? Overflow::saturate : Overflow::wrap;
  constexpr nic::LossRecovery kRecoveries[] = {nic::LossRecovery::gbn, nic::LossRecovery::nic_sr,
                                               nic::LossRecovery::irn};
  const auto recovery = kRecoveries[(options >> 4) % 3];
  constexpr Mode kModes[] = {Mode::ii, Mode::iii, Mode::i, Mode::iii};
  g.mode = kModes[options >> 6];
  g.invocations = (g.mode == Mode::ii ? 64 : 2) + (shape >> 5);
  g.acks = (options & 1) != 0 ? Acks::arrival : Acks::room;
  g.rnr_timer = 1;
  g.timeout = 0;
  const std::uint16_t ranks = 2 + (shape & 1);
  for (std::uint16_t r = 0; r < ranks; ++r) {
    g.endpoints.push_back({.rank = r,
                           .first_rx = wire::Psn(0xfffffcu + r),
                           .first_tx = wire::Psn(0x800000u + 16u * r),
                           .loss_recovery = recovery,
                           .address = 0x1000u * r,
                           .rkey = r});
    g.way.push_back(static_cast<EndpointIndex>(r));
  }
  if ((shape & 2) != 0) {
    g.parent = static_cast<EndpointIndex>(ranks);
    g.endpoints.push_back({.rank = {}, .first_rx = wire::Psn(500), .first_tx = wire::Psn(700)});
    g.way.push_back(*g.parent);
  }
  return g;
}

class Record {
 public:
  explicit Record(const std::uint8_t* bytes) { std::memcpy(bytes_.data(), bytes, kRecord); }
  [[nodiscard]] std::uint8_t operator[](std::size_t i) const { return bytes_[i]; }
  [[nodiscard]] std::uint64_t word(std::size_t at, std::size_t bytes) const {
    std::uint64_t v = 0;
    std::memcpy(&v, bytes_.data() + at, bytes);
    return v;
  }

 private:
  std::array<std::uint8_t, kRecord> bytes_{};
};

// Bytes 0: kind and endpoint, 1: how far from the first PSN, 2: flags, 3: length or syndrome, 4-19: of the message.
void arrive(nic::Time now, const Record& r, const GroupConfig& group, IncEngine& unit,
            std::vector<std::uint8_t>& payload, Judge& judge) {
  const auto from = static_cast<EndpointIndex>((r[0] >> 4) % group.endpoints.size());
  const EndpointConfig& end = group.endpoints[from];
  const std::int32_t offset = static_cast<std::int8_t>(r[1]) + ((r[2] & 0x80) != 0 ? 1 << 22 : 0);
  nic::Packet p;
  p.ack_req = (r[2] & 1) != 0;
  p.solicited = (r[2] & 2) != 0;
  const bool response = (r[0] & 15) >= 12;
  p.psn = (response ? end.first_tx : end.first_rx) + static_cast<std::uint32_t>(offset);
  payload.assign(kMtu + 8, r[3]);
  if (response) {
    p.opcode = (r[2] & 4) != 0 ? wire::Opcode::CNP : wire::Opcode::RC_ACKNOWLEDGE;
    p.syndrome = r[3];
    p.msn = static_cast<std::uint32_t>(r.word(4, 3));
    // What irn receivers have: the PSN that a NACK acknowledges selectively.
    if ((r[2] & 8) != 0) p.immediate = static_cast<std::uint32_t>(r.word(8, 4));
  } else if ((r[0] & 15) < 5) {
    ControlMessage m;
    m.primitive = static_cast<Primitive>(r[4] % kPrimitives);
    m.op = static_cast<Op>(r[5] & 7);
    m.type = m.primitive == Primitive::barrier ? DataType{} : static_cast<DataType>(r[6] & 15);
    m.sequence = static_cast<std::uint16_t>(r[7] & 3);
    m.root = static_cast<std::uint16_t>(r[8] & 3);
    m.group = kGroup;
    m.bytes = m.primitive == Primitive::barrier ? 0 : r.word(9, 2) & 0xff8;
    const auto bytes = control_payload(m);
    std::copy(bytes.begin(), bytes.end(), payload.begin());
    p.opcode = wire::Opcode::RC_SEND_ONLY_IMM;
    p.immediate = control_immediate(m) ^ static_cast<std::uint32_t>((r[2] & 4) != 0 ? r.word(12, 4) : 0);
    if ((r[2] & 8) != 0) payload[r[16] % kControlPayloadBytes] ^= r[17];
    p.payload.set(payload.data(), (r[2] & 16) != 0 ? r[18] : kControlPayloadBytes);
  } else {
    constexpr wire::Opcode kData[] = {wire::Opcode::RC_SEND_ONLY, wire::Opcode::RC_SEND_FIRST,
                                      wire::Opcode::RC_SEND_MIDDLE, wire::Opcode::RC_SEND_LAST};
    p.opcode = (r[0] & 15) == 11 ? static_cast<wire::Opcode>(r[4]) : kData[r[4] & 3];
    if (!p.info().is_request()) p.opcode = wire::Opcode::RC_SEND_ONLY;
    p.remote_address = r.word(8, 8);
    p.rkey = r[16];
    p.dma_length = static_cast<std::uint32_t>(r.word(17, 2));
    p.immediate = static_cast<std::uint32_t>(r.word(4, 4));
    // A jumbo frame may bring more than the MTU.
    const std::uint32_t full = (r[2] & 64) != 0 ? kMtu + 8 : kMtu;
    p.payload.set(payload.data(), (r[2] & 16) != 0 ? r[5] : full);
  }
  const std::uint64_t before = judge.count;
  unit.on_packet(now, from, p, (r[2] & 32) != 0, judge);
  if (unit.next_deadline() <= now) unit.on_timer(now, judge);
  require(unit.next_deadline() > now, "timers lie ahead");
  // To each endpoint twice what slots hold, an answer for each slot, and a CNP.
  require(judge.count - before <= group.endpoints.size() * (4 * group.slots + 4), "no packet sets off a storm");
}

}  // namespace
}  // namespace weft::inc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft::inc;
  using weft::require;
  if (size < 2) return 0;
  const GroupConfig group = group_of(data[0], data[1]);
  require(!IncEngine::check(group), "the group can be made");
  IncEngine unit(group);
  Judge judge(group);
  std::vector<std::uint8_t> payload;
  const std::size_t records = std::min<std::size_t>((size - 2) / kRecord, 64);
  for (std::size_t i = 0; i < records; ++i) {
    // Each comes 3 us after the last: timers of 4 us and more run out in between.
    arrive(weft::nic::kMs + static_cast<weft::nic::Time>(i) * 3 * weft::nic::kUs, Record(data + 2 + i * kRecord), group,
           unit, payload, judge);
  }
  const IncEngine copy = unit;
  require(copy == unit, "a copy is equal");
  return 0;
}
