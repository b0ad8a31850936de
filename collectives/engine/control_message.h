// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The message that opens an invocation of a collective: one SEND ONLY WITH IMMEDIATE in front of the data, in band
// (EPIC 3.3.2 "Control Signaling"). It takes one PSN. Ranks send it, switches read it, aggregate it as they do data,
// and pass it on, so that every node of the tree and every rank that receives learns what comes.
//
// The immediate, from its highest bit: primitive 4, op 4, type 4, version 4, sequence 16. The payload, in network byte
// order: group 32, root 16, flags 16, bytes 64. A Barrier is this message alone; its op, type, root and bytes are zero.
//
// Flags, from the lowest bit: turn 2, refused 1; the others are zero. They are those of a Barrier by which a group that
// shares slot memory with others takes its turn, or gives it back (README, "Turns").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/engine/arithmetic.h"

namespace weft::inc {

/// What a switch runs. ReduceScatter and AllGather are sequences of Reduce and Broadcast (EPIC appendix A). The numbers
/// go into the control message and never change.
enum class Primitive : std::uint8_t { allreduce = 0, reduce = 1, broadcast = 2, barrier = 3 };
inline constexpr std::size_t kPrimitives = 4;
/// "allreduce", "reduce"...; "?" for a value that is no Primitive.
[[nodiscard]] std::string_view to_string(Primitive primitive) noexcept;
[[nodiscard]] std::optional<Primitive> primitive_from(std::string_view name) noexcept;

/// What a Barrier is about in a group that shares slot memory with others.
enum class Turn : std::uint8_t {
  none = 0,
  take = 1,  ///< from its result on the group has the memory, unless the result says `refused`
  give = 2,  ///< all ranks are through with all before it: others may have the memory
};
inline constexpr std::size_t kTurns = 3;

inline constexpr std::uint8_t kControlVersion = 1;
inline constexpr std::size_t kControlPayloadBytes = 16;
/// Most bytes of one invocation: its packets must be far fewer than PSNs, of 256 bytes at least.
inline constexpr std::uint64_t kMaxInvocationBytes = std::uint64_t{1} << 30;

struct ControlMessage {
  Primitive primitive = Primitive::allreduce;
  Op op = Op::sum;
  DataType type = DataType::fp32;
  std::uint16_t sequence = 0;  ///< counts the invocations of a group, modulo 2^16
  std::uint16_t root = 0;      ///< rank that receives a Reduce or sends a Broadcast; 0 otherwise
  std::uint32_t group = 0;
  std::uint64_t bytes = 0;  ///< of the vector: a multiple of the element's size; 0 for a Barrier
  Turn turn = Turn::none;   ///< of a Barrier
  /// Of a Barrier that takes a turn, said by switches: memory of at least one of them is another group's now.
  bool refused = false;

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

/// Why a message is not a valid control message.
enum class ControlError : std::uint8_t {
  length,     ///< the payload does not have 16 bytes
  version,    ///< of another protocol
  primitive,  ///< no such primitive
  type,       ///< no such type of elements
  op,         ///< no such operation, or none of this type
  flags,      ///< bits that must be zero are not, or a turn that is none, or not a Barrier's
  root,       ///< a root where none belongs
  size,  ///< no multiple of the element's size, over kMaxInvocationBytes, nothing to reduce, or a Barrier with data
};
[[nodiscard]] std::string_view to_string(ControlError error) noexcept;

[[nodiscard]] std::uint32_t control_immediate(const ControlMessage& message) noexcept;
[[nodiscard]] std::uint32_t control_flags(const ControlMessage& message) noexcept;
[[nodiscard]] std::array<std::uint8_t, kControlPayloadBytes> control_payload(const ControlMessage& message) noexcept;

/// Reads a control message. Every message that is accepted gives, written again, the same bits. That the root is a
/// member of the group is left to whoever knows the group.
/// @return nullopt, and the message in `out`; or why it is none
[[nodiscard]] std::optional<ControlError> read_control(std::uint32_t immediate, std::span<const std::uint8_t> payload,
                                                       ControlMessage& out) noexcept;

}  // namespace weft::inc
