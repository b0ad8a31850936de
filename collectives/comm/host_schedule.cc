// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/host_schedule.h"

#include <algorithm>
#include <array>
#include <bit>

namespace weft::inc::comm {
namespace {

constexpr std::array<std::string_view, kCollectives> kNames{"allreduce", "reduce",         "broadcast",
                                                            "barrier",   "reduce_scatter", "allgather"};

/// Number of distances 2^k below the number of ranks.
std::uint32_t distances(std::uint32_t ranks) noexcept {
  return ranks < 2 ? 0 : static_cast<std::uint32_t>(std::bit_width(ranks - 1));
}

constexpr Partner above(std::uint32_t k) noexcept {
  return 2 * k;
}
constexpr Partner below(std::uint32_t k) noexcept {
  return 2 * k + 1;
}

/// Where the blocks of a vector lie.
struct Blocks {
  std::uint32_t ranks;
  std::uint64_t elements;  ///< of the whole vector
  std::uint32_t element_bytes;

  [[nodiscard]] std::uint64_t begin(std::uint32_t block) const noexcept {
    // Without the product of two large numbers: the first `elements % ranks` blocks have one element more.
    const std::uint64_t each = elements / ranks, more = elements % ranks;
    return (each * block + std::min<std::uint64_t>(block, more)) * element_bytes;
  }
  [[nodiscard]] Step::Part part(std::uint32_t block, Partner partner) const noexcept {
    return {true, partner, begin(block), begin(block + 1) - begin(block)};
  }
};

/// Adds a step unless it moves nothing.
void add(Schedule& to, Step step) {
  if (step.send.bytes == 0) step.send.active = false;
  if (step.receive.bytes == 0) step.receive.active = false;
  if (step.send.active || step.receive.active) to.push_back(step);
}

/// After it each rank has the sum of its own block.
void ring_reduce_scatter(Schedule& to, std::uint32_t rank, const Blocks& blocks) {
  const std::uint32_t n = blocks.ranks;
  for (std::uint32_t s = 1; s < n; ++s) {
    add(to, {.send = blocks.part((rank + 2 * n - s) % n, above(0)),
             .receive = blocks.part((rank + 2 * n - s - 1) % n, below(0)),
             .combine = true,
             .sends_own = s == 1,
             .adds_own = true});
  }
}

/// @param own  its own block is what it gives; otherwise steps before have made it
void ring_allgather(Schedule& to, std::uint32_t rank, const Blocks& blocks, bool own) {
  const std::uint32_t n = blocks.ranks;
  for (std::uint32_t s = 0; s + 1 < n; ++s) {
    const bool first = own && s == 0;
    add(to, {.send = blocks.part((rank + n - s) % n, above(0)),
             .receive = blocks.part((rank + n - s - 1) % n, below(0)),
             .sends_own = first,
             .keeps_own = first});
  }
}

void tree_reduce(Schedule& to, std::uint32_t rank, std::uint32_t ranks, std::uint32_t root, std::uint64_t bytes) {
  const std::uint32_t place = (rank + ranks - root) % ranks;
  bool own = true;
  for (std::uint32_t k = 0; k < distances(ranks); ++k) {
    if ((place >> k & 1) != 0) return add(to, {.send = {true, below(k), 0, bytes}, .sends_own = own});
    if (place + (1u << k) >= ranks) continue;
    add(to, {.receive = {true, above(k), 0, bytes}, .combine = true, .adds_own = own});
    own = false;
  }
}

void tree_broadcast(Schedule& to, std::uint32_t rank, std::uint32_t ranks, std::uint32_t root, std::uint64_t bytes) {
  const std::uint32_t place = (rank + ranks - root) % ranks;
  std::uint32_t k = distances(ranks);
  if (place != 0) {
    k = static_cast<std::uint32_t>(std::countr_zero(place));
    add(to, {.receive = {true, below(k), 0, bytes}});
  }
  while (k-- > 0) {
    if (place + (1u << k) < ranks) add(to, {.send = {true, above(k), 0, bytes}});
  }
}

void dissemination(Schedule& to, std::uint32_t ranks) {
  for (std::uint32_t k = 0; k < distances(ranks); ++k) {
    to.push_back({.send = {true, above(k), 0, 0}, .receive = {true, below(k), 0, 0}});
  }
}

}  // namespace

std::string_view to_string(Collective collective) noexcept {
  const auto number = static_cast<std::size_t>(collective);
  return number < kNames.size() ? kNames[number] : "?";
}

std::uint32_t partners(std::uint32_t ranks) noexcept {
  return 2 * distances(ranks);
}

std::uint32_t partner_rank(std::uint32_t rank, std::uint32_t ranks, Partner partner) noexcept {
  const std::uint64_t distance = std::uint64_t{1} << (partner / 2);
  return static_cast<std::uint32_t>((rank + (partner % 2 == 0 ? distance : ranks - distance)) % ranks);
}

Schedule host_schedule(Collective collective, HostAlgorithm algorithm, std::uint32_t rank, std::uint32_t ranks,
                       std::uint32_t root, std::uint64_t elements, std::uint32_t element_bytes) {
  Schedule out;
  if (ranks < 2) return out;
  const std::uint64_t bytes = elements * element_bytes;
  switch (collective) {
    case Collective::allreduce:
      if (algorithm == HostAlgorithm::ring) {
        const Blocks blocks{ranks, elements, element_bytes};
        ring_reduce_scatter(out, rank, blocks);
        ring_allgather(out, rank, blocks, false);
      } else {
        tree_reduce(out, rank, ranks, 0, bytes);
        tree_broadcast(out, rank, ranks, 0, bytes);
      }
      break;
    case Collective::reduce:
      tree_reduce(out, rank, ranks, root, bytes);
      break;
    case Collective::broadcast:
      tree_broadcast(out, rank, ranks, root, bytes);
      break;
    case Collective::barrier:
      dissemination(out, ranks);
      break;
    case Collective::reduce_scatter:
      ring_reduce_scatter(out, rank, {ranks, elements * ranks, element_bytes});
      break;
    case Collective::allgather:
      ring_allgather(out, rank, {ranks, elements * ranks, element_bytes}, true);
      break;
  }
  return out;
}

}  // namespace weft::inc::comm
