// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/test_vector.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/comm/whole_number.h"

namespace weft::inc {
namespace {

/// What a rank gives for an element: any bits of an integer; of floating point, a whole number that is small enough.
std::int64_t value(std::uint32_t rank, const ControlMessage& m, std::uint64_t element) {
  // The upper bits of the product depend on all bits of the element's number: a packet in the place of another differs
  // in every type.
  const std::uint64_t mixed = (element + m.sequence + 1) * (2 * std::uint64_t{rank} + 1) * 0x9e3779b97f4a7c15u;
  const std::int64_t largest = largest_exact(m.type);
  if (largest == INT64_MAX) return static_cast<std::int64_t>(mixed >> (64 - 8 * element_bytes(m.type)));
  const std::int64_t most = largest / kMostRanksOfExactSums;
  return static_cast<std::int64_t>((mixed >> 8) % static_cast<std::uint64_t>(2 * most + 1)) - most;
}

std::uint64_t expected(std::uint32_t ranks, const ControlMessage& m, std::uint64_t element) {
  if (m.primitive == Primitive::broadcast) return element_bits(m.type, value(m.root, m, element));
  std::uint64_t sum = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (rank_sends(m, r)) sum += static_cast<std::uint64_t>(value(r, m, element));
  }
  return element_bits(m.type, static_cast<std::int64_t>(sum));
}

/// The primitive of each root's part of a ReduceScatter or AllGather.
std::optional<Primitive> primitive_of_each_root(std::string_view name) {
  if (name == "reducescatter") return Primitive::reduce;
  if (name == "allgather") return Primitive::broadcast;
  return std::nullopt;
}

}  // namespace

std::uint64_t test_granule(const TestCollective& collective, std::uint32_t ranks) noexcept {
  return element_bytes(collective.type) * (primitive_of_each_root(collective.name) ? ranks : 1u);
}

std::vector<ControlMessage> test_program(const TestCollective& collective, std::uint64_t iterations,
                                         std::uint32_t ranks, std::uint32_t group) {
  constexpr std::array kAll{Primitive::allreduce, Primitive::reduce, Primitive::broadcast, Primitive::barrier};
  std::vector<ControlMessage> out;
  const auto add = [&](Primitive primitive, std::uint64_t bytes, std::uint64_t root) {
    ControlMessage m{primitive, {}, {}, static_cast<std::uint16_t>(out.size()), 0, group, 0};
    if (primitive != Primitive::barrier) {
      m.type = collective.type;
      m.bytes = bytes;
    }
    if (primitive == Primitive::reduce || primitive == Primitive::broadcast) m.root = static_cast<std::uint16_t>(root);
    out.push_back(m);
  };
  const auto one = primitive_from(collective.name), each = primitive_of_each_root(collective.name);
  if (!one && !each && collective.name != "all") return out;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    if (each) {
      for (std::uint32_t root = 0; root < ranks; ++root) add(*each, collective.bytes / ranks, root);
      continue;
    }
    for (const Primitive primitive : one ? std::span(&*one, 1) : std::span(kAll))
      add(primitive, collective.bytes, collective.root ? *collective.root : i % ranks);
  }
  return out;
}

void fill_test_vector(std::uint32_t rank, const ControlMessage& collective, std::uint64_t offset,
                      std::span<std::uint8_t> out) noexcept {
  const std::size_t bytes = element_bytes(collective.type);
  for (std::size_t i = 0; i < out.size() / bytes; ++i) {
    // Little endian: the low bytes come first.
    const std::uint64_t v = element_bits(collective.type, value(rank, collective, offset / bytes + i));
    std::memcpy(out.data() + i * bytes, &v, bytes);
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
  const std::size_t bytes = element_bytes(m.type);
  const std::uint64_t first = message.offset / bytes;
  for (std::size_t i = 0; i < payload.size() / bytes; ++i) {
    std::uint64_t v = 0, right = expected(ranks, m, first + i);
    std::memcpy(&v, payload.data() + i * bytes, bytes);
    if (bytes < sizeof right) right &= (std::uint64_t{1} << 8 * bytes) - 1;
    if (v == right) continue;
    return where + std::string(to_string(m.type)) + " element " + std::to_string(first + i) + " has the bits " +
           std::to_string(v) + ", not " + std::to_string(right);
  }
  return "";
}

}  // namespace weft::inc
