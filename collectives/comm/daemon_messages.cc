// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/daemon_messages.h"

#include "collectives/comm/byte_order.h"
#include "collectives/comm/handle.h"

namespace weft::inc::comm {
namespace {

/// Of a sentence: the rest of it is left out.
constexpr std::size_t kMaxText = 1000;

struct Write {
  ByteWriter& out;

  void operator()(const CreateGroup& m) const {
    out.number(m.rank, 4);
    out.number(static_cast<std::uint8_t>(m.mode), 1);
    out.number(m.reproducible ? 1 : 0, 1);
    out.number(m.mtu, 4);
    out.number(m.message_packets, 4);
    out.number(m.window, 4);
    out.number(m.members.size(), 4);
    for (const QpEnd& end : m.members) {
      out.address(end.address);
      out.number(end.qpn, 4);
      out.number(end.first_psn, 4);
      out.number(end.expects_psn, 4);
    }
    if (m.rhythm == CreateGroup::Rhythm{}) return;
    for (const std::uint32_t n : {m.rhythm.duty_per_mille, m.rhythm.period_us, m.rhythm.job}) out.number(n, 4);
  }
  void operator()(const HoldGroup& m) const {
    name(m.group, m.generation);
    out.number(m.rank, 4);
    out.number(m.lease_ms, 4);
  }
  void operator()(const LeaveGroup& m) const {
    name(m.group, m.generation);
    out.number(m.end ? 1 : 0, 1);
  }
  void operator()(const GroupCreated& m) const {
    for (const auto* text : {&m.refusal, &m.reason, &m.sentence}) out.text(std::string_view(*text).substr(0, kMaxText));
    name(m.group, m.generation);
    out.number(m.window, 4);
    out.number(m.lease_ms, 4);
    out.number(m.endpoints.size(), 4);
    for (const auto& end : m.endpoints) {
      out.address(end.address);
      out.number(end.qpn, 4);
    }
    if (!m.turns) return;
    out.number(1, 1);
    if (m.offset_ns) out.number(*m.offset_ns, 8);
  }
  void operator()(const GroupHeld& m) const {
    name(m.group, m.generation);
    out.number(m.running ? 1 : 0, 1);
  }
  void operator()(const GroupGone& m) const { name(m.group, m.generation); }
  void operator()(const ExplainGroup& m) const { name(m.group, m.generation); }
  void operator()(const GroupExplained& m) const {
    name(m.group, m.generation);
    out.text(std::string_view(m.sentence).substr(0, kMaxText));
  }

 private:
  void name(std::uint32_t group, std::uint64_t generation) const {
    out.number(group, 4);
    out.number(generation, 8);
  }
};

std::uint32_t number32(ByteReader& in) {
  return static_cast<std::uint32_t>(in.number(4));
}

bool flag(ByteReader& in) {
  const std::uint64_t value = in.number(1);
  if (value > 1) in.refuse();
  return value == 1;
}

std::string text(ByteReader& in) {
  std::string out = in.text();
  if (out.size() > kMaxText) in.refuse();
  return out;
}

/// How many of something follow; a number that cannot be is a mistake before anything is allocated.
std::uint32_t count(ByteReader& in) {
  const std::uint32_t n = number32(in);
  if (n > kMaxGroupRanks) in.refuse();
  return in.fine() ? n : 0;
}

template <class Message>
Message named(ByteReader& in) {
  Message m;
  m.group = number32(in);
  m.generation = in.number(8);
  return m;
}

CreateGroup read_create(ByteReader& in) {
  CreateGroup m;
  m.rank = number32(in);
  const std::uint64_t mode = in.number(1);
  if (mode >= kGroupModes) in.refuse();
  m.mode = static_cast<GroupMode>(mode);
  m.reproducible = flag(in);
  m.mtu = number32(in);
  m.message_packets = number32(in);
  m.window = number32(in);
  for (std::uint32_t n = count(in); n > 0 && in.fine(); --n) {
    QpEnd end;
    end.address = in.address();
    end.qpn = number32(in);
    end.first_psn = number32(in);
    end.expects_psn = number32(in);
    m.members.push_back(end);
  }
  if (m.rank >= m.members.size()) in.refuse();
  if (in.fine() && in.left() > 0) {
    m.rhythm.duty_per_mille = number32(in);
    m.rhythm.period_us = number32(in);
    m.rhythm.job = number32(in);
    if (m.rhythm == CreateGroup::Rhythm{}) in.refuse();
  }
  return m;
}

GroupCreated read_created(ByteReader& in) {
  GroupCreated m;
  m.refusal = text(in);
  m.reason = text(in);
  m.sentence = text(in);
  m.group = number32(in);
  m.generation = in.number(8);
  m.window = number32(in);
  m.lease_ms = number32(in);
  for (std::uint32_t n = count(in); n > 0 && in.fine(); --n) {
    GroupCreated::Endpoint end;
    end.address = in.address();
    end.qpn = number32(in);
    m.endpoints.push_back(end);
  }
  if (in.fine() && in.left() > 0) {
    m.turns = flag(in);
    if (!m.turns) in.refuse();
  }
  if (in.fine() && in.left() > 0) m.offset_ns = in.number(8);
  return m;
}

DaemonMessage read_kind(std::uint64_t kind, ByteReader& in) {
  switch (kind) {
    case 0:
      return read_create(in);
    case 1: {
      auto m = named<HoldGroup>(in);
      m.rank = number32(in);
      m.lease_ms = number32(in);
      return m;
    }
    case 2: {
      auto m = named<LeaveGroup>(in);
      m.end = flag(in);
      return m;
    }
    case 3:
      return read_created(in);
    case 4: {
      auto m = named<GroupHeld>(in);
      m.running = flag(in);
      return m;
    }
    case 5:
      return named<GroupGone>(in);
    case 6:
      return named<ExplainGroup>(in);
    case 7: {
      auto m = named<GroupExplained>(in);
      m.sentence = text(in);
      return m;
    }
    default:
      in.refuse();
      return GroupGone{};
  }
}

}  // namespace

std::vector<std::uint8_t> write_message(const DaemonMessage& message) {
  ByteWriter out;
  out.number(kDaemonVersion, 1);
  out.number(message.index(), 1);
  std::visit(Write{out}, message);
  return out.take();
}

std::optional<DaemonMessage> read_message(std::span<const std::uint8_t> bytes) {
  ByteReader in(bytes);
  if (bytes.size() > kMaxDaemonMessage || in.number(1) != kDaemonVersion) return std::nullopt;
  const std::uint64_t kind = in.number(1);
  if (!in.fine()) return std::nullopt;
  DaemonMessage message = read_kind(kind, in);
  if (!in.fine() || in.left() > 0) return std::nullopt;
  return message;
}

}  // namespace weft::inc::comm
