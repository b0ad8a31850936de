// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/shared.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::stages {

using nlohmann::ordered_json;
using pipeline::PortIndex;

namespace {

std::vector<CongestionTables::Port> rates_of(const pipeline::SwitchInfo& info, const LbTagOptions& options) {
  std::vector<CongestionTables::Port> ports;
  for (const pipeline::PortInfo& port : info.ports) {
    ports.push_back({.rate_mbps = port.rate_mbps != 0 ? port.rate_mbps : options.link_mbps});
  }
  return ports;
}

LeafView view_of(const LbTagOptions& options) {
  std::vector<LeafMap::Entry> entries;
  std::uint16_t self = LeafMap::kNone;
  for (std::size_t leaf = 0; leaf < options.leaves.size(); ++leaf) {
    if (options.leaves[leaf].id == options.leaf) self = static_cast<std::uint16_t>(leaf);
    for (const wire::IpPrefix& prefix : options.leaves[leaf].prefixes) {
      entries.push_back({prefix, static_cast<std::uint16_t>(leaf)});
    }
  }
  return {LeafMap(entries), self};
}

// Of ports whose rate is not that of the usual link; see GemmaEdge::scaled().
std::vector<double> scales_of(const pipeline::SwitchInfo& info, const LbTagOptions& options) {
  std::vector<double> scales;
  for (const pipeline::PortInfo& port : info.ports) {
    const bool known = port.rate_mbps != 0 && options.link_mbps != 0;
    scales.push_back(known ? static_cast<double>(options.link_mbps) / static_cast<double>(port.rate_mbps) : 1);
  }
  return scales;
}

std::size_t leaves_below(const LbTagOptions& options) {
  std::size_t leaves = 0;
  if (!options.gemma) return leaves;
  for (const LbTagOptions::Gemma::Downlink& downlink : options.gemma->downlinks) leaves += downlink.leaves.size();
  return leaves;
}

// Who is told by the switch scans: what it adds up counts at once.
DownlinkRules below_rules(const LbTagOptions& options) {
  return {.scan_ns = 0, .age_ns = options.gemma ? options.gemma->table.age_ns : 0};
}

}  // namespace

LbTagShared::LbTagShared(const pipeline::StageBuild& build)
    : info_(build.info),
      options_(lb_tag_options(build.options, build.info)),
      leaves_(view_of(options_)),
      path_of_port_(build.info.ports.size(), kNoPath),
      mtu_(build.info.ports.size()),
      congestion_(options_.rules, rates_of(build.info, options_), options_.leaf ? options_.leaves.size() : 0,
                  options_.uplinks.size(), build.workers),
      owners_(build.owners),
      mails_(options_.conweave && build.workers > 1 ? build.workers : std::uint16_t{0}),
      pauses_(options_.leaves.size(), options_.uplinks.size()),
      answered_(options_.leaves.size()),
      downlinks_(options_.gemma ? options_.gemma->table : DownlinkRules{}, options_.gemma ? options_.leaves.size() : 0,
                 options_.uplinks.size()),
      below_(below_rules(options_), leaves_below(options_), 1),
      downlink_of_port_(build.info.ports.size(), kNoPath),
      scale_of_port_(scales_of(info_, options_)),
      told_bytes_(options_.gemma ? options_.gemma->downlinks.size() : 0) {
  for (std::size_t i = 0; i < options_.uplinks.size(); ++i) {
    path_of_port_[options_.uplinks[i]] = static_cast<std::uint16_t>(i);
  }
  for (std::size_t i = 0; i < told_bytes_.size(); ++i) {
    downlink_of_port_[options_.gemma->downlinks[i].port] = static_cast<std::uint16_t>(i);
  }
  for (const pipeline::PortInfo& port : build.info.ports) mtu_[port.index] = port.mtu_bytes;
  find_least_mtu();
  if (options_.conweave) sources_.assign(build.workers, ConweaveSource(options_.conweave->source));
  publish<CongestionView>(*this);
  publish<ConweaveEdge>(*this);
  publish<GemmaEdge>(*this);
}

std::uint16_t LbTagShared::leaf_with(std::uint16_t id) const noexcept {
  for (std::size_t i = 0; i < options_.leaves.size(); ++i) {
    if (options_.leaves[i].id == id) return static_cast<std::uint16_t>(i);
  }
  return LeafMap::kNone;
}

void LbTagShared::find_least_mtu() noexcept {
  std::uint32_t least = ~0u;
  for (const PortIndex port : options_.uplinks) least = std::min(least, mtu(port));
  least_mtu_.store(least, std::memory_order_relaxed);
}

void LbTagShared::on_mtu(PortIndex port, std::uint32_t mtu_bytes) {
  mtu_[port].store(mtu_bytes, std::memory_order_relaxed);
  find_least_mtu();
}

bool LbTagShared::good(std::uint16_t leaf, std::uint16_t path, TimeNs now) const noexcept {
  if (leaf >= answered_.size()) return false;
  const TimeNs answered = answered_[leaf].load(std::memory_order_relaxed);
  return answered != 0 && now <= answered + kAnswerAge && !pauses_.paused(leaf, path, now);
}

std::uint8_t LbTagShared::path_metric(PortIndex port, std::uint16_t leaf, TimeNs now) const noexcept {
  const std::uint8_t local = congestion_.local(port, now);
  const std::uint16_t path = path_of(port);
  if (leaf >= congestion_.leaves() || path == kNoPath) return local;
  return std::max(local, congestion_.remote(leaf, path, now));
}

void LbTagShared::adopt(StageShared& old, const pipeline::Adoption& adoption) {
  if (!adoption.same_options || !adoption.ports.identity()) return;
  auto& before = dynamic_cast<LbTagShared&>(old);
  congestion_.adopt(before.congestion_);
  now_ = before.now_.load();
  // One by one: stages refer to those of this object.
  const auto shared = static_cast<std::ptrdiff_t>(std::min(sources_.size(), before.sources_.size()));
  std::swap_ranges(sources_.begin(), sources_.begin() + shared, before.sources_.begin());
  if (mails_.workers() == before.mails_.workers()) std::swap(mails_, before.mails_);
  pauses_.adopt(before.pauses_);
  downlinks_.adopt(before.downlinks_);
  below_.adopt(before.below_);
  for (std::size_t i = 0; i < answered_.size(); ++i) answered_[i] = before.answered_[i].load();
}

ordered_json LbTagShared::row(std::size_t leaf, std::size_t path, bool to_leaf) const {
  const TimeNs now = now_.load(std::memory_order_relaxed);
  const PathMetric told = to_leaf ? congestion_.to_leaf(leaf, path) : congestion_.from_leaf(leaf, path);
  if (told.told == 0) return nullptr;
  const ordered_json uplink = to_leaf ? ordered_json(info_.ports[options_.uplinks[path]].name) : nullptr;
  const ordered_json link = to_leaf ? ordered_json(congestion_.local(options_.uplinks[path], now)) : nullptr;
  return {{"leaf", options_.leaves[leaf].id},
          {"direction", to_leaf ? "to" : "from"},
          {"path", path},
          {"uplink", uplink},
          {"link", link},
          {"metric", told.metric},
          {"age_us", PathMetric::stamp(now) - told.told},
          {"counts", told.fresh(options_.rules, now)}};
}

// First what was told, by leaf and path, then what is told, by downlink.
ordered_json LbTagShared::gemma_rows(std::uint64_t& cursor, std::size_t max) const {
  const TimeNs now = now_.load(std::memory_order_relaxed);
  const std::size_t paths = options_.uplinks.size();
  const std::size_t of_others = options_.leaves.size() * paths, all = of_others + told_bytes_.size();
  ordered_json rows = ordered_json::array();
  for (; cursor < all && rows.size() < max; ++cursor) {
    if (cursor >= of_others) {
      const LbTagOptions::Gemma::Downlink& downlink = options_.gemma->downlinks[cursor - of_others];
      rows.push_back({{"direction", "tells"},
                      {"port", info_.ports[downlink.port].name},
                      {"leaves", downlink.leaves},
                      {"bytes", told_bytes_[cursor - of_others].load(std::memory_order_relaxed)},
                      {"told_us", nullptr},
                      {"interval_us", interval_.load(std::memory_order_relaxed) / kUs}});
      continue;
    }
    const std::size_t leaf = cursor / paths, path = cursor % paths;
    const TimeNs age = downlinks_.age(leaf, path, now);
    if (age == kNever) continue;
    rows.push_back({{"direction", "told"},
                    {"port", info_.ports[options_.uplinks[path]].name},
                    {"leaves", {options_.leaves[leaf].id}},
                    {"bytes", downlinks_.bytes(leaf, path, now)},
                    {"told_us", age / kUs},
                    {"interval_us", nullptr}});
  }
  if (cursor >= all) cursor = kEnd;
  return rows;
}

ordered_json LbTagShared::rows(std::string_view /*table*/, std::uint64_t& cursor, std::size_t max) const {
  if (options_.gemma) return gemma_rows(cursor, max);
  ordered_json rows = ordered_json::array();
  const std::size_t paths = congestion_.paths();
  const std::size_t of_leaf = paths + CongestionTables::kPaths;
  for (; cursor < congestion_.leaves() * of_leaf && rows.size() < max; ++cursor) {
    const std::size_t leaf = cursor / of_leaf;
    const std::size_t at = cursor % of_leaf;
    ordered_json row = at < paths ? this->row(leaf, at, true) : this->row(leaf, at - paths, false);
    if (!row.is_null()) rows.push_back(std::move(row));
  }
  if (cursor >= congestion_.leaves() * of_leaf) cursor = kEnd;
  return rows;
}

}  // namespace weft::stages
