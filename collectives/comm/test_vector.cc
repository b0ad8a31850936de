// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/test_vector.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::inc {
namespace {

/// What a rank gives for an element.
std::uint32_t value(std::uint32_t rank, const ControlMessage& m, std::uint64_t element) {
  return static_cast<std::uint32_t>((element + m.sequence + 1) * (2 * std::uint64_t{rank} + 1) * 2654435761u);
}

std::uint32_t expected(std::uint32_t ranks, const ControlMessage& m, std::uint64_t element) {
  if (m.primitive == Primitive::broadcast) return value(m.root, m, element);
  std::uint32_t sum = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (rank_sends(m, r)) sum += value(r, m, element);
  }
  return sum;
}

}  // namespace

std::vector<ControlMessage> test_program(std::string_view name, std::uint64_t iterations, std::uint64_t bytes,
                                         std::optional<std::uint32_t> root, std::uint32_t ranks, std::uint32_t group) {
  constexpr std::array kAll{Primitive::allreduce, Primitive::reduce, Primitive::broadcast, Primitive::barrier};
  std::span<const Primitive> kinds(kAll);
  const auto one = primitive_from(name);
  if (one) kinds = {&*one, 1};
  std::vector<ControlMessage> out;
  if (!one && name != "all") return out;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    for (const Primitive primitive : kinds) {
      ControlMessage m{primitive, {}, {}, static_cast<std::uint16_t>(out.size()), 0, group, 0};
      if (primitive != Primitive::barrier) {
        m.type = DataType::uint32;
        m.bytes = bytes;
      }
      if (primitive == Primitive::reduce || primitive == Primitive::broadcast)
        m.root = static_cast<std::uint16_t>(root ? *root : i % ranks);
      out.push_back(m);
    }
  }
  return out;
}

void fill_test_vector(std::uint32_t rank, const ControlMessage& collective, std::uint64_t offset,
                      std::span<std::uint8_t> out) noexcept {
  for (std::size_t i = 0; i < out.size() / kTestElementBytes; ++i) {
    const std::uint32_t v = value(rank, collective, offset / kTestElementBytes + i);
    std::memcpy(out.data() + i * kTestElementBytes, &v, kTestElementBytes);
  }
}

std::string test_difference(const std::vector<ControlMessage>& program, std::uint32_t ranks, const RankMessage& message,
                            std::optional<std::uint32_t> immediate, std::span<const std::uint8_t> payload) {
  const ControlMessage& m = program[message.collective];
  const std::string where =
      "collective " + std::to_string(message.collective) + " (" + std::string(to_string(m.primitive)) + "): ";
  if (message.is_control()) {
    const auto right = control_payload(m);
    const bool same = immediate == control_immediate(m) && std::ranges::equal(right, payload);
    return same ? "" : where + "another control message";
  }
  if (immediate) return where + "a control message in the place of data";
  if (payload.size() != message.bytes) {
    return where + "a message of " + std::to_string(payload.size()) + " bytes, not " + std::to_string(message.bytes);
  }
  const std::uint64_t first = message.offset / kTestElementBytes;
  for (std::size_t i = 0; i < payload.size() / kTestElementBytes; ++i) {
    std::uint32_t v = 0;
    std::memcpy(&v, payload.data() + i * kTestElementBytes, kTestElementBytes);
    const std::uint32_t right = expected(ranks, m, first + i);
    if (v == right) continue;
    return where + "element " + std::to_string(first + i) + " is " + std::to_string(v) + ", not " +
           std::to_string(right);
  }
  return "";
}

}  // namespace weft::inc
