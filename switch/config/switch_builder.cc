// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/switch_builder.h"

#include <map>
#include <utility>

#include "switch/config/schema/suggest.h"

namespace weft::config {
namespace {

using pipeline::PortIndex;
using pipeline::SwitchInfo;
using wire::MacAddress;

bool is_member(const pipeline::PortVlans& vlans, std::uint16_t vid) {
  return vlans.native == vid || vlans.tagged.test(vid);
}

void build_static_macs(SwitchScope& scope) {
  std::map<std::pair<MacAddress, std::uint16_t>, Mark> seen;
  auto& diagnostics = scope.diagnostics;
  const Value& list = scope.source["static_macs"];
  if (list.is_null()) return;
  for (const auto& item : list.list()) {
    if (item.is_null()) continue;
    const auto port = scope.port(item["port"]);
    const Value& mac_value = item["mac"];
    if (mac_value.is_null()) continue;
    const auto mac = *MacAddress::parse(mac_value.string());
    const auto vid = static_cast<std::uint16_t>(item["vlan"].integer());
    const Mark& vlan_mark = item["vlan"].mark().line > 0 ? item["vlan"].mark() : item.mark();
    if (mac.is_multicast() || mac.is_zero()) {
      diagnostics.error(mac_value.mark(), "mac: expected a unicast address, found " + mac.to_string());
    }
    const auto [first, inserted] = seen.emplace(std::pair(mac, vid), mac_value.mark());
    if (!inserted) {
      diagnostics.error(mac_value.mark(), "mac: " + mac.to_string() + " in VLAN " + std::to_string(vid) +
                                              " stands twice, first at line " + std::to_string(first->second.line));
    }
    if (!port) continue;
    const auto& info = scope.info.ports[*port];
    if (!is_member(info.vlans, vid)) {
      diagnostics.error(vlan_mark, "vlan: port '" + info.name + "' is not a member of VLAN " + std::to_string(vid));
    }
    scope.info.static_macs.push_back({mac, vid, *port, item.mark()});
  }
}

}  // namespace

std::string at_line(const Mark& mark) {
  return mark.line > 0 ? " (line " + std::to_string(mark.line) + ")" : "";
}

std::optional<PortIndex> SwitchScope::port(const Value& name) const {
  if (name.is_null()) return std::nullopt;
  std::vector<std::string> known;
  for (const auto& p : info.ports) {
    if (p.name == name.string()) return p.index;
  }
  if (!ports_complete) return std::nullopt;
  for (const auto& p : info.ports) known.push_back(p.name);
  diagnostics.error(name.mark(), "port: unknown port " + quote(name.string()) + suggestion(name.string(), known));
  return std::nullopt;
}

SwitchInfo build_switch(const Value& source, std::size_t index, const pipeline::Registry& registry,
                        Diagnostics& diagnostics) {
  SwitchInfo info;
  info.index = static_cast<std::uint8_t>(index);
  info.mark = source.mark();
  info.seed = index + 1;
  if (source.has("name")) info.name = source["name"].string();
  if (source.has("seed")) info.seed = source["seed"].unsigned_integer();
  if (source["icrc"].string() == "full") info.icrc = pipeline::IcrcUpdate::full;

  SwitchScope scope{source, registry, diagnostics, info};
  build_ports(scope);
  build_ip(scope);
  build_static_macs(scope);
  build_faults(scope);
  build_pipeline(scope);
  build_qos(scope);
  build_kernel(scope);
  return info;
}

}  // namespace weft::config
