// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/switch_state.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

namespace weft::pipeline {

SwitchState::SwitchState(const Registry& registry, SwitchInfo info, std::vector<std::uint16_t> port_owner,
                         std::uint16_t workers, Steering steer, const SwitchState* previous)
    : drop_reasons_(registry.drop_reasons()),
      info_(std::move(info)),
      links_(info_.ports.size()),
      workers_(workers),
      port_owner_(std::move(port_owner)),
      tx_per_worker_(info_.ports.size()),
      owners_(previous != nullptr ? previous->owners_ : std::make_shared<OwnerTable>()),
      steers_qps_(steer.mode == SteerMode::qp && workers > 1) {
  assert(port_owner_.size() == info_.ports.size());
  if (previous == nullptr && steer.as_cards) owners_->spread_as_cards(workers);
  if (info_.qos) buffer_ = std::make_unique<qos::SharedBuffer>(*info_.qos, workers > 1);
  told_ = std::make_unique<ToldPort[]>(info_.ports.size() * workers);
  mtu_bytes_ = std::make_unique<std::atomic<std::uint32_t>[]>(info_.ports.size());
  for (const PortInfo& port : info_.ports) mtu_bytes_[port.index] = port.mtu_bytes;
  for (const StageSpec& spec : info_.pipeline) {
    const StageType* type = registry.find(spec.name);
    if (type == nullptr) std::abort();  // the loader has checked every name
    types_.push_back(type);
    const auto before = previous != nullptr ? previous->position(spec.name) : std::nullopt;
    const bool keep = before && !type->depends_on_switch &&
                      (type->update || config::equal(spec.options, previous->info_.pipeline[*before].options));
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
          [this](std::type_index type) { return find_offered(type); },
          steer_table(),
          nullptr,
          &links_,
          owners_.get()};
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

void* SwitchState::find_offered(std::type_index type) const noexcept {
  for (const auto& shared : shared_) {
    void* offered = shared ? shared->offered(type) : nullptr;
    if (offered != nullptr) return offered;
  }
  return nullptr;
}

void SwitchState::adopt(SwitchState& old, const PortMap& ports) {
  for (std::size_t port = 0; port < old.info_.ports.size(); ++port) {
    const auto was = static_cast<PortIndex>(port);
    if (ports(was) == kNoPort) continue;
    links_.set_up(ports(was), old.links_.up(was));
    links_.set_excluded(ports(was), old.links_.excluded(was));
  }
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const auto before = old.position(types_[i]->name);
    if (!before || kept_[i] || !shared_[i]) continue;
    shared_[i]->adopt(*old.shared_[*before],
                      {ports, config::equal(info_.pipeline[i].options, old.info_.pipeline[*before].options)});
  }
}

void SwitchState::set_link(PortIndex port, bool up) {
  if (!links_.set_up(port, up)) return;
  for (const auto& shared : shared_) {
    if (shared) shared->on_link(port, up);
  }
}

void SwitchState::set_mtu(PortIndex port, std::uint32_t mtu_bytes) {
  if (mtu_bytes_[port].exchange(mtu_bytes, std::memory_order_relaxed) == mtu_bytes) return;
  for (const auto& shared : shared_) {
    if (shared) shared->on_mtu(port, mtu_bytes);
  }
  links_.note_change();
}

void SwitchState::set_options(std::size_t stage, config::Value options) {
  info_.pipeline[stage].options = std::move(options);
  links_.note_change();
}

std::vector<PathSet> SwitchState::path_sets() const {
  std::vector<PathSet> all;
  for (const auto& shared : shared_) {
    if (!shared) continue;
    for (PathSet& set : shared->path_sets()) all.push_back(std::move(set));
  }
  return all;
}

// Empty, or why a path set must not change so: all of it would be excluded, or nothing be left that has a link.
std::string SwitchState::why_not(const PathSet& set, std::span<const PathChange> changes) const {
  bool concerned = false, could_be_used = false, all_excluded = true;
  std::string others;
  for (const PortIndex port : set.ports) {
    const auto change = std::find_if(changes.begin(), changes.end(), [&](const auto& c) { return c.port == port; });
    const bool excluded = change != changes.end() ? change->excluded : links_.excluded(port);
    if (!excluded && links_.up(port)) return "";
    could_be_used = could_be_used || links_.path_up(port);
    all_excluded = all_excluded && excluded;
    if (change != changes.end() && change->excluded) {
      concerned = true;
      continue;
    }
    others += (others.empty() ? "" : ", ") + info_.ports[port].name + (excluded ? " is excluded" : " is down");
  }
  if (!concerned || (!could_be_used && !all_excluded)) return "";
  return set.name + " would have no path left" + (others.empty() ? "" : ": " + others);
}

std::string SwitchState::change_paths(std::span<const PathChange> changes) {
  const std::vector<PathSet> sets = path_sets();
  for (const PathChange& change : changes) {
    const bool member = std::any_of(sets.begin(), sets.end(), [&](const PathSet& set) {
      return std::find(set.ports.begin(), set.ports.end(), change.port) != set.ports.end();
    });
    // A port without routes may be included again as well.
    if (member || links_.excluded(change.port)) continue;
    return "port " + info_.ports[change.port].name + " is no path: it is in no equal-cost group and no uplink";
  }
  for (const PathSet& set : sets) {
    if (auto error = why_not(set, changes); !error.empty()) return error;
  }
  // Included ports first, so that no worker ever sees a moment without any path.
  for (const bool excluded : {false, true}) {
    for (const PathChange& change : changes) {
      if (change.excluded == excluded) links_.set_excluded(change.port, excluded);
    }
  }
  return "";
}

void SwitchState::housekeeping(TimeNs now) {
  for (const auto& shared : shared_) {
    if (shared) shared->housekeeping(now);
  }
}

}  // namespace weft::pipeline
