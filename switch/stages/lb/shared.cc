// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/shared.h"

#include <nlohmann/json.hpp>

namespace weft::stages {

using nlohmann::ordered_json;

LbShared::LbShared(const pipeline::StageBuild& build)
    : choices_(build.capability<NextHopChoices>()), options_(build.options), info_(build.info), links_(build.links) {}

std::int64_t LbShared::weight_of(const std::string& port) const {
  const config::Value& weights = options_["weights"];
  return weights.is_map() && weights.has(port) ? weights[port].integer() : 1;
}

std::string_view LbShared::path_text(pipeline::PortIndex port) const {
  if (links_ == nullptr || links_->path_up(port)) return "up";
  return links_->excluded(port) ? "excluded" : "down";
}

// A group is never cut: its last members may come on top of `max`.
ordered_json LbShared::rows(std::string_view /*table*/, std::uint64_t& cursor, std::size_t max) const {
  const std::vector<NextHopGroup> groups = choices_.groups(cursor, max);
  ordered_json rows = ordered_json::array();
  for (const NextHopGroup& group : groups) {
    for (const NextHopGroup::Member& member : group.members) {
      const std::string& port = info_.ports[member.port].name;
      rows.push_back({{"group", group.number},
                      {"routes", group.routes},
                      {"policy", options_["policy"].string()},
                      {"member", member.text},
                      {"port", port},
                      {"weight", weight_of(port)},
                      {"path", path_text(member.port)}});
    }
  }
  cursor = rows.size() < max || groups.empty() ? kEnd : groups.back().number + 1;
  return rows;
}

}  // namespace weft::stages
