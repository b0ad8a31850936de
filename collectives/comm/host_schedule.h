// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives by the hosts alone: which parts of a vector a rank sends and receives, to and from whom, step by step.
// No memory and no RNIC. A rank has partners at distances that are powers of two alone, so that it needs few queue
// pairs, whatever the number of ranks and the algorithm.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/comm/weft_inc.h"

namespace weft::inc::comm {

/// The six collectives of the library. The four of the control message (`Primitive`) are what a switch runs;
/// ReduceScatter and AllGather are sequences of its Reduce and Broadcast (EPIC appendix A).
enum class Collective : std::uint8_t { allreduce, reduce, broadcast, barrier, reduce_scatter, allgather };
inline constexpr std::size_t kCollectives = 6;
/// "allreduce", "reduce_scatter"...; "?" for a number that is none.
[[nodiscard]] std::string_view to_string(Collective collective) noexcept;

/// What hosts do without a switch. Where an algorithm does not exist for a collective the usual one takes its place:
/// ReduceScatter and AllGather are rings, Reduce and Broadcast are binomial trees, a Barrier is dissemination
/// (Hensgen, Finkel, Manber 1988).
enum class HostAlgorithm : std::uint8_t {
  ring,  ///< 2 (n - 1) steps with an n-th of the vector each: all links are full (Patarasu, Yuan 2009)
  tree,  ///< binomial: 2 log2(n) steps with all of it
};

/// How hosts run a vector of so many bytes where the backend does not name a way: from 64 KiB on a ring, which fills
/// all links, ends earlier; below, its 2 (n - 1) steps take longer than the 2 log2(n) of a tree.
[[nodiscard]] constexpr HostAlgorithm host_algorithm(weft_inc_backend backend, std::uint64_t bytes) noexcept {
  if (backend == WEFT_INC_BACKEND_RING) return HostAlgorithm::ring;
  if (backend == WEFT_INC_BACKEND_TREE) return HostAlgorithm::tree;
  return bytes >= 64 * 1024 ? HostAlgorithm::ring : HostAlgorithm::tree;
}

/// Another rank at distance 2^k: number 2k is the one above (rank + 2^k), 2k + 1 the one below, modulo the ranks.
using Partner = std::uint32_t;
/// Partners of a rank: none of one that is alone.
[[nodiscard]] std::uint32_t partners(std::uint32_t ranks) noexcept;
/// The rank that it is.
[[nodiscard]] std::uint32_t partner_rank(std::uint32_t rank, std::uint32_t ranks, Partner partner) noexcept;
/// The number that `rank` has as the partner of its partner.
[[nodiscard]] constexpr Partner opposite(Partner partner) noexcept {
  return partner ^ 1;
}

/// One step: all of it may go on at the same time. What a step sends is what the steps before it have brought, or what
/// was there; what it receives may take the place of what they have sent.
struct Step {
  struct Part {
    bool active = false;
    Partner partner = 0;
    std::uint64_t offset = 0;  ///< in the vector, bytes
    std::uint64_t bytes = 0;   ///< 0: a message without data
  };
  Part send{}, receive{};
  bool combine = false;  ///< what is received is added to what is there; otherwise it takes its place
  // Where nothing has been written to the vector yet, what is there is this rank's contribution:
  bool sends_own = false;  ///< all that is sent is that
  bool keeps_own = false;  ///< and it is part of the result
  bool adds_own = false;   ///< what is received is added to that
};
using Schedule = std::vector<Step>;

/// The steps of a rank. The vector holds its contribution before, and the result after:
/// - allreduce, reduce, broadcast: `elements` of `element_bytes`; after a Reduce only the root's has a meaning
/// - reduce_scatter, allgather: `ranks` blocks of `elements` each; a rank's result, or contribution, is its own block
/// @param root  of Reduce and Broadcast
[[nodiscard]] Schedule host_schedule(Collective collective, HostAlgorithm algorithm, std::uint32_t rank,
                                     std::uint32_t ranks, std::uint32_t root, std::uint64_t elements,
                                     std::uint32_t element_bytes);

}  // namespace weft::inc::comm
