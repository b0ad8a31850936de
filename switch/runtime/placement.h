// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the log says of workers and their packets when a switch starts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "switch/pipeline/steer.h"

namespace weft {

/// Which packets come to their workers by themselves, because a card with RSS brings them there, and which are handed
/// over in software however many receive queues a card has. Nothing without such a card.
[[nodiscard]] std::vector<std::string> describe_steering(const pipeline::Steering& steer);

/// A line for each worker that has finished no loop in the time that it had to begin.
/// @param loops  finished, by worker
/// @param cpus   of the workers, as many
/// @param seconds  how long they had
[[nodiscard]] std::vector<std::string> describe_not_begun(std::span<const std::uint64_t> loops,
                                                          std::span<const unsigned> cpus, unsigned seconds);

}  // namespace weft
