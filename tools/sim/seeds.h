// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every device and every link has a random source of its own. What one draws depends on the seed of the experiment and
// on its own name alone: a host that is added elsewhere changes nothing of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "switch/base/rng.h"

namespace weft::sim {

/// What the numbers of a name are for: a device may have several sources.
enum class RandomUse : std::uint8_t { host = 1, switch_choices, switch_hash, link_loss, flows, payload };

/// A seed, of 62 bits: those of switches stand in configurations, whose integers are signed.
[[nodiscard]] constexpr std::uint64_t seed_of(std::uint64_t experiment, RandomUse use, std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull ^ static_cast<std::uint8_t>(use);
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  Rng mixed(experiment ^ hash);
  return Rng(mixed.next() + hash).next() >> 2;
}

}  // namespace weft::sim
