// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/workers.h"

#include <utility>

#include "switch/pipeline/steer.h"
#include "switch/stages/nack_filter/options.h"

namespace weft::stages {

NackFilterShared::NackFilterShared(const pipeline::StageBuild& build)
    : workers_(build.workers),
      owners_(build.owners),
      uplinks_{"the set of uplinks of nack_filter", {}},
      rings_(build.workers > 1 ? build.workers : std::uint16_t{0}) {
  const NackOptions options = nack_options(build.options, build.info);
  for (const pipeline::PortInfo& port : build.info.ports) {
    if (options.uplink_of_port[port.index] != NackOptions::kNoUplink) uplinks_.ports.push_back(port.index);
  }
}

std::uint16_t NackFilterShared::owner(const wire::Parsed& parsed) const noexcept {
  return owners_ != nullptr ? owners_->worker_of(parsed, workers_)
                            : pipeline::worker_by_hash(parsed.pair_hash(), workers_);
}

void NackFilterShared::adopt(StageShared& old_shared, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<NackFilterShared&>(old_shared);
  // With other options all queue pairs start over, so that messages about earlier packets are discarded.
  if (adoption.same_options && old.workers_ == workers_) std::swap(rings_, old.rings_);
}

}  // namespace weft::stages
