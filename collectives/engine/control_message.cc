// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/control_message.h"

#include <cstring>

#include "switch/wire/types.h"

namespace weft::inc {
namespace {

constexpr std::array<std::string_view, kPrimitives> kPrimitiveNames{"allreduce", "reduce", "broadcast", "barrier"};

struct Payload {
  wire::be32 group;
  wire::be16 root;
  wire::be16 flags;
  wire::be64 bytes;
};
static_assert(sizeof(Payload) == kControlPayloadBytes && alignof(Payload) == 1);

constexpr std::uint16_t kTurnFlags = 3, kRefusedFlag = 4;

bool has_root(Primitive primitive) noexcept {
  return primitive == Primitive::reduce || primitive == Primitive::broadcast;
}

/// What holds between the fields.
std::optional<ControlError> check(const ControlMessage& m) noexcept {
  if (!has_root(m.primitive) && m.root != 0) return ControlError::root;
  if (m.turn != Turn::none && m.primitive != Primitive::barrier) return ControlError::flags;
  if (m.refused && m.turn != Turn::take) return ControlError::flags;
  if (m.primitive == Primitive::barrier) {
    if (m.type != DataType{}) return ControlError::type;
    if (m.op != Op{}) return ControlError::op;
    return m.bytes == 0 ? std::nullopt : std::optional(ControlError::size);
  }
  // A Broadcast moves bytes as they are: it has no operation.
  if (m.primitive == Primitive::broadcast && m.op != Op{}) return ControlError::op;
  if (m.bytes == 0 || m.bytes > kMaxInvocationBytes || m.bytes % element_bytes(m.type) != 0) return ControlError::size;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Primitive primitive) noexcept {
  const auto number = static_cast<std::size_t>(primitive);
  return number < kPrimitiveNames.size() ? kPrimitiveNames[number] : "?";
}

std::optional<Primitive> primitive_from(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kPrimitiveNames.size(); ++i) {
    if (kPrimitiveNames[i] == name) return static_cast<Primitive>(i);
  }
  return std::nullopt;
}

std::string_view to_string(ControlError error) noexcept {
  switch (error) {
    case ControlError::length:
      return "payload is not 16 bytes";
    case ControlError::version:
      return "another version";
    case ControlError::primitive:
      return "unknown primitive";
    case ControlError::type:
      return "unknown type";
    case ControlError::op:
      return "unknown operation, or none of this type";
    case ControlError::flags:
      return "flags that mean nothing";
    case ControlError::root:
      return "a root where none belongs";
    case ControlError::size:
      return "bytes do not fit the type or the primitive";
  }
  return "?";
}

std::uint32_t control_immediate(const ControlMessage& m) noexcept {
  return std::uint32_t{static_cast<std::uint8_t>(m.primitive)} << 28 |
         std::uint32_t{static_cast<std::uint8_t>(m.op)} << 24 | std::uint32_t{static_cast<std::uint8_t>(m.type)} << 20 |
         std::uint32_t{kControlVersion} << 16 | m.sequence;
}

std::uint32_t control_flags(const ControlMessage& m) noexcept {
  return static_cast<std::uint32_t>(m.turn) | (m.refused ? std::uint32_t{kRefusedFlag} : 0);
}

std::array<std::uint8_t, kControlPayloadBytes> control_payload(const ControlMessage& m) noexcept {
  Payload payload{};
  payload.group.set(m.group);
  payload.root.set(m.root);
  payload.flags.set(static_cast<std::uint16_t>(control_flags(m)));
  payload.bytes.set(m.bytes);
  std::array<std::uint8_t, kControlPayloadBytes> out{};
  std::memcpy(out.data(), &payload, sizeof payload);
  return out;
}

std::optional<ControlError> read_control(std::uint32_t immediate, std::span<const std::uint8_t> payload,
                                         ControlMessage& out) noexcept {
  if (payload.size() != kControlPayloadBytes) return ControlError::length;
  if ((immediate >> 16 & 0xf) != kControlVersion) return ControlError::version;
  const std::uint32_t primitive = immediate >> 28, op = immediate >> 24 & 0xf, type = immediate >> 20 & 0xf;
  if (primitive >= kPrimitives) return ControlError::primitive;
  if (type >= kDataTypes) return ControlError::type;
  if (op >= kOps || arithmetic(static_cast<DataType>(type), static_cast<Op>(op)) == nullptr) return ControlError::op;
  Payload read{};
  std::memcpy(&read, payload.data(), sizeof read);
  const std::uint16_t flags = read.flags.value(), turn = flags & kTurnFlags;
  if ((flags & ~(kTurnFlags | kRefusedFlag)) != 0 || turn >= kTurns) return ControlError::flags;
  ControlMessage m;
  m.primitive = static_cast<Primitive>(primitive);
  m.op = static_cast<Op>(op);
  m.type = static_cast<DataType>(type);
  m.sequence = static_cast<std::uint16_t>(immediate);
  m.root = read.root.value();
  m.group = read.group.value();
  m.bytes = read.bytes.value();
  m.turn = static_cast<Turn>(turn);
  m.refused = (flags & kRefusedFlag) != 0;
  if (const auto error = check(m)) return error;
  out = m;
  return std::nullopt;
}

}  // namespace weft::inc
