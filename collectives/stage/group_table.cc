// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/group_table.h"

#include <algorithm>
#include <bit>

namespace weft::inc {

GroupTable::GroupTable(std::span<const std::shared_ptr<RunningGroup>> groups, std::uint16_t worker)
    : all_(groups.begin(), groups.end()), bits_(16, 0) {
  std::size_t edges = 0;
  for (const auto& group : all_) {
    for (const EdgeSpec& e : group->spec.edges) {
      if (std::find(addresses_.begin(), addresses_.end(), e.address) == addresses_.end()) {
        addresses_.push_back(e.address);
      }
      if (!e.address.is_v6()) bits_[word(e.address.v4_value())] |= std::uint64_t{1} << bit(e.address.v4_value());
    }
    if (group->worker != worker) continue;
    own_.push_back(group.get());
    edges += group->edges.size();
  }
  flows_.resize(std::bit_ceil(2 * edges + 1));
  mask_ = flows_.size() - 1;
  for (RunningGroup* group : own_) {
    for (std::size_t i = 0; i < group->edges.size(); ++i) {
      const EdgeSpec& e = group->spec.edges[i];
      const Flow flow{address_key(e.peer, e.address), group, e.qp, static_cast<EndpointIndex>(i)};
      std::size_t at = slot(flow.address_key, flow.qp);
      while (flows_[at].group != nullptr) at = (at + 1) & mask_;
      flows_[at] = flow;
    }
  }
}

bool GroupTable::has_address(const wire::IpAddress& address) const noexcept {
  return std::find(addresses_.begin(), addresses_.end(), address) != addresses_.end();
}

}  // namespace weft::inc
