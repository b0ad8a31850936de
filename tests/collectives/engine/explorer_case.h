// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an Explorer explores: the collectives that ranks run, what they say and must get.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/engine/control_message.h"
#include "collectives/engine/group.h"
#include "tests/collectives/engine/groups.h"

namespace weft::inc::testing {

/// One collective of all ranks; W = 1.
struct Step {
  Primitive primitive = Primitive::allreduce;
  std::uint32_t packets = 1;  ///< of data
  std::uint16_t root = 0;
};

/// A case to explore.
struct ExplorerCase {
  std::string name;
  std::vector<Step> program;
  bool tree = false;  ///< four ranks, two leaves and a root; otherwise two ranks at one switch
  std::uint8_t losses = 0, duplicates = 0, overtakes = 0;
  std::uint8_t early_timeouts = 0;  ///< times that timers expire although something is under way
  bool any_order = false;           ///< every packet of a channel may be the next, as often as one likes
  bool rnr_acks = false;            ///< the ACKs in front of the engine's RNR NAKs
  bool adaptive_timeouts = false;   ///< those of the switch follow round trips
  Mode mode = Mode::ii;
  Duplicates answers = Duplicates::cache;
  Acks acks = Acks::room;
  std::uint32_t message_packets = 1;  ///< M
  bool every_order = false;           ///< without the reduction
  bool every_image = false;           ///< what equal ranks make of a state by changing places is another state
  bool listed = false;                ///< keeps the hashes of all states, of their images and of their orbits
  std::uint64_t seed = 0;             ///< of the hashes: no count depends on it, unless two states share one
  std::uint64_t most_states = ~std::uint64_t{0};  ///< the search ends without a verdict when there are more

  [[nodiscard]] std::uint32_t ranks() const { return tree ? 4 : 2; }
  [[nodiscard]] bool sends(const Step& c, std::uint32_t r) const {
    return c.primitive == Primitive::reduce ? c.root != r : c.primitive != Primitive::broadcast || c.root == r;
  }
  [[nodiscard]] bool receives(const Step& c, std::uint32_t r) const {
    return c.primitive == Primitive::reduce ? c.root == r : c.primitive != Primitive::broadcast || c.root != r;
  }
  [[nodiscard]] std::uint32_t messages(const Step& c) const {
    return 1 + (c.primitive == Primitive::barrier ? 0 : (c.packets + message_packets - 1) / message_packets);
  }
  [[nodiscard]] std::uint32_t message_bytes() const { return message_packets * kMtu; }
  /// Bytes of a message of data, from 1: all packets but the last are full.
  [[nodiscard]] std::uint32_t bytes(const Step& c, std::uint32_t message) const {
    return std::min(message_bytes(), (c.packets - 1) * kMtu + 8 - (message - 1) * message_bytes());
  }
  [[nodiscard]] ControlMessage announcement(std::size_t k) const {
    const Step& c = program[k];
    const std::uint64_t all = c.primitive == Primitive::barrier ? 0 : (c.packets - 1) * std::uint64_t{kMtu} + 8;
    return message(c.primitive, static_cast<std::uint16_t>(k), all, c.root);
  }
  [[nodiscard]] static std::uint32_t value(std::uint32_t rank, std::size_t k, std::uint32_t m, std::uint32_t i) {
    return (1u << 8 * rank) + static_cast<std::uint32_t>(31 * k + 7 * m) + i;
  }
  [[nodiscard]] std::uint32_t expected(std::size_t k, std::uint32_t m, std::uint32_t i) const {
    const Step& c = program[k];
    if (c.primitive == Primitive::broadcast) return value(c.root, k, m, i);
    std::uint32_t sum = 0;
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      if (c.primitive != Primitive::reduce || r != c.root) sum += value(r, k, m, i);
    }
    return sum;
  }
  /// Where a message of a collective is in what a rank sends, and in what it receives.
  [[nodiscard]] std::uint32_t place(std::size_t k, std::uint32_t m) const {
    std::uint32_t at = m;
    for (std::size_t before = 0; before < k; ++before) at += messages(program[before]);
    return at * message_bytes();
  }
};

}  // namespace weft::inc::testing
