// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/switch_state.h"

#include <cassert>
#include <cstdlib>
#include <utility>

namespace weft::pipeline {

SwitchState::SwitchState(const Registry& registry, SwitchInfo info, std::vector<std::uint16_t> port_owner,
                         std::uint16_t workers, SteerMode steer, const SwitchState* previous)
    : info_(std::move(info)), workers_(workers), port_owner_(std::move(port_owner)) {
  if (steer == SteerMode::qp && workers > 1) {
    steer_table_ = previous != nullptr ? previous->steer_table_ : std::make_shared<SteerTable>();
  }
  assert(port_owner_.size() == info_.ports.size());
  if (info_.qos) buffer_ = std::make_unique<qos::SharedBuffer>(*info_.qos, workers > 1);
  link_up_ = std::make_unique<std::atomic<bool>[]>(info_.ports.size());
  told_depth_ = std::make_unique<ToldDepth[]>(info_.ports.size());
  for (std::size_t i = 0; i < info_.ports.size(); ++i) link_up_[i].store(true, std::memory_order_relaxed);
  for (const StageSpec& spec : info_.pipeline) {
    const StageType* type = registry.find(spec.name);
    if (type == nullptr) std::abort();  // the loader has checked every name
    types_.push_back(type);
    const auto before = previous != nullptr ? previous->position(spec.name) : std::nullopt;
    const bool keep = before && !type->depends_on_switch &&
                      (type->update || equal(spec.options, previous->info_.pipeline[*before].options));
    kept_.push_back(keep ? before : std::nullopt);
    shared_.push_back(nullptr);
    if (keep) {
      shared_.back() = previous->shared_[*before];
    } else if (type->make_shared) {
      StageBuild build = build_of(types_.size() - 1, 0);
      build.previous = before ? previous->shared(*before) : nullptr;
      shared_.back() = type->make_shared(build);
    }
  }
}

StageBuild SwitchState::build_of(std::size_t stage, std::uint16_t worker) const {
  return {info_.pipeline[stage].options,
          info_,
          worker,
          workers_,
          [this](std::string_view name) { return shared(name); },
          steer_table_.get()};
}

std::optional<std::size_t> SwitchState::position(std::string_view stage) const noexcept {
  for (std::size_t i = 0; i < types_.size(); ++i) {
    if (types_[i]->name == stage) return i;
  }
  return std::nullopt;
}

StageShared* SwitchState::shared(std::string_view stage) const noexcept {
  const auto at = position(stage);
  return at && *at < shared_.size() ? shared_[*at].get() : nullptr;
}

void SwitchState::adopt(SwitchState& old, const PortMap& ports) {
  for (std::size_t port = 0; port < old.info_.ports.size(); ++port) {
    const PortIndex now = ports(static_cast<PortIndex>(port));
    if (now != kNoPort) store_link(now, old.link_up(static_cast<PortIndex>(port)));
  }
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const auto before = old.position(types_[i]->name);
    if (!before || kept_[i] || !shared_[i]) continue;
    shared_[i]->adopt(*old.shared_[*before],
                      {ports, equal(info_.pipeline[i].options, old.info_.pipeline[*before].options)});
  }
}

bool SwitchState::store_link(PortIndex port, bool up) noexcept {
  if (link_up_[port].exchange(up, std::memory_order_relaxed) == up) return false;
  links_down_.fetch_add(up ? ~0u : 1u, std::memory_order_relaxed);
  link_generation_.fetch_add(1, std::memory_order_release);
  return true;
}

void SwitchState::set_link(PortIndex port, bool up) {
  if (!store_link(port, up)) return;
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
