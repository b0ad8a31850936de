// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a job does: an iteration is a fixed list of phases, and each begins when all ranks have ended the one before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "switch/base/time.h"

namespace weft::flow {

enum class GroupKind : std::uint8_t {
  tensor,    ///< AllReduces of activations
  data,      ///< AllReduces of gradients
  pipeline,  ///< sends from the first rank to the second; switches can do nothing about them
};
[[nodiscard]] std::string_view to_string(GroupKind kind) noexcept;

/// Ranks of a job that communicate, by their numbers in the job.
struct GroupPlan {
  GroupKind kind = GroupKind::data;
  std::vector<std::uint32_t> ranks;
};

/// Collectives of one group in a phase, one after the other.
struct Collective {
  std::uint32_t group = 0;
  double bytes = 0;         ///< of the vector of each; above 0
  std::uint32_t count = 1;  ///< of collectives; at least 1
};

/// All ranks compute; then the groups communicate at the same time.
struct Phase {
  std::string what;
  TimeNs compute_ns = 0;
  std::vector<Collective> collectives;
};

struct JobPlan {
  std::string name;
  std::uint32_t ranks = 1;
  std::vector<GroupPlan> groups;
  std::vector<Phase> phases;  ///< of an iteration; some of its time goes into computing or communicating
  std::uint32_t iterations = 1;
};

}  // namespace weft::flow
