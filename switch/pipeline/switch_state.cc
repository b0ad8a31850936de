// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/switch_state.h"

#include <cassert>
#include <cstdlib>

namespace weft::pipeline {

SwitchState::SwitchState(const Registry& registry, SwitchInfo info, std::vector<std::uint16_t> port_owner,
                         std::uint16_t workers, SteerMode steer)
    : info_(std::move(info)), workers_(workers), port_owner_(std::move(port_owner)) {
  if (steer == SteerMode::qp && workers > 1) steer_table_ = std::make_unique<SteerTable>();
  assert(port_owner_.size() == info_.ports.size());
  link_up_ = std::make_unique<std::atomic<bool>[]>(info_.ports.size());
  for (std::size_t i = 0; i < info_.ports.size(); ++i) link_up_[i].store(true, std::memory_order_relaxed);
  for (const StageSpec& spec : info_.pipeline) {
    const StageType* type = registry.find(spec.name);
    if (type == nullptr) std::abort();  // the loader has checked every name
    types_.push_back(type);
    const StageBuild build{
        spec.options, info_, 0, workers_, [this](std::string_view name) { return shared(name); }, steer_table_.get()};
    shared_.push_back(type->make_shared ? type->make_shared(build) : nullptr);
  }
}

StageShared* SwitchState::shared(std::string_view stage) const noexcept {
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    if (types_[i]->name == stage) return shared_[i].get();
  }
  return nullptr;
}

void SwitchState::set_link(PortIndex port, bool up) {
  if (link_up_[port].exchange(up, std::memory_order_relaxed) == up) return;
  for (const auto& shared : shared_) {
    if (shared) shared->on_link(port, up);
  }
}

void SwitchState::housekeeping(TimeNs now) {
  for (const auto& shared : shared_) {
    if (shared) shared->housekeeping(now);
  }
}

}  // namespace weft::pipeline
