// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/placement.h"

namespace weft {

std::vector<std::string> describe_steering(const pipeline::Steering& steer) {
  if (!steer.as_cards) return {};
  std::vector<std::string> lines{
      "packets between IPv4 addresses belong to the workers that cards with RSS bring them to",
      "packets over IPv6 belong to workers by a hash that cards do not have: those that a card brings to another "
      "worker are handed over in software"};
  if (steer.mode == pipeline::SteerMode::qp) {
    lines.emplace_back(
        "steer: qp gives queue pairs to workers, and cards know none of them: those of their packets that a card "
        "brings to another worker are handed over in software");
  }
  return lines;
}

std::vector<std::string> describe_not_begun(std::span<const std::uint64_t> loops, std::span<const unsigned> cpus,
                                            unsigned seconds) {
  std::vector<std::string> lines;
  for (std::size_t w = 0; w < loops.size(); ++w) {
    if (loops[w] != 0) continue;
    lines.push_back("worker " + std::to_string(w) + " on CPU " + std::to_string(cpus[w]) + " has not begun after " +
                    std::to_string(seconds) +
                    " s, because something else keeps its CPU: until it does, its ports receive nothing, and packets "
                    "that belong to it are dropped when its rings are full (handoff_full)");
  }
  return lines;
}

}  // namespace weft
