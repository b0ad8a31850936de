// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/lldp.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace weft::inc::manager {
namespace {

using nlohmann::json;

/// LLDP's texts have 255 bytes at most; what is longer is none of them.
constexpr std::size_t kMaxText = 255;

/// lldpd writes one of something as itself, and several as a list.
void for_each(const json& one_or_list, const std::function<void(const json&)>& f) {
  if (!one_or_list.is_array()) return f(one_or_list);
  for (const json& item : one_or_list) f(item);
}

std::string text(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || at == object.end() || !at->is_string()) return "";
  auto out = at->get<std::string>();
  return out.size() <= kMaxText ? out : "";
}

/// "mac 02:00:00:00:00:01"; "" when there is none.
std::string identity(const json& object) {
  if (!object.is_object() || !object.contains("id")) return "";
  const std::string kind = text(object["id"], "type"), value = text(object["id"], "value");
  return kind.empty() || value.empty() ? "" : kind + " " + value;
}

struct Chassis {
  std::string identity, name;
};

/// A system with a name stands under its name: { "leaf1": { "id": ... } }.
Chassis chassis_of(const json& object) {
  if (!object.is_object()) return {};
  if (const std::string id = identity(object); !id.empty()) return {id, ""};
  if (object.size() != 1) return {};
  return {identity(object.begin().value()), object.begin().key()};
}

void read_interface(const std::string& name, const json& value, std::vector<Neighbour>& out) {
  if (!value.is_object() || text(value, "via") != "LLDP" || !value.contains("chassis") || !value.contains("port")) {
    return;
  }
  const Chassis chassis = chassis_of(value["chassis"]);
  Neighbour n{name, chassis.identity, chassis.name, identity(value["port"]), text(value["port"], "descr")};
  const bool fits = n.port.size() <= kMaxText && n.system.size() <= kMaxText;
  if (fits && !n.port.empty() && !n.chassis.empty() && !n.peer_port.empty()) out.push_back(std::move(n));
}

}  // namespace

std::optional<std::vector<Neighbour>> read_neighbours(std::string_view input) {
  const json root = json::parse(input, nullptr, false);
  if (!root.is_object() || !root.contains("lldp") || !root["lldp"].is_object()) return std::nullopt;
  std::vector<Neighbour> out;
  const auto interfaces = root["lldp"].find("interface");
  if (interfaces == root["lldp"].end()) return out;
  for_each(*interfaces, [&](const json& entry) {
    if (!entry.is_object()) return;
    for (const auto& [name, value] : entry.items()) {
      for_each(value, [&, &port = name](const json& one) { read_interface(port, one, out); });
    }
  });
  return out;
}

std::optional<std::string> read_own_chassis(std::string_view input) {
  const json root = json::parse(input, nullptr, false);
  if (!root.is_object() || !root.contains("local-chassis")) return std::nullopt;
  const json& local = root["local-chassis"];
  if (!local.is_object() || !local.contains("chassis")) return std::nullopt;
  const std::string id = chassis_of(local["chassis"]).identity;
  return id.empty() ? std::nullopt : std::optional(id);
}

std::optional<NeighbourReport> read_switch_rows(const std::vector<std::string>& ports,
                                                const std::vector<std::string>& neighbours) {
  NeighbourReport out;
  for (const std::string& line : ports) {
    const json row = json::parse(line, nullptr, false);
    Port port{text(row, "port"), text(row, "mac"), {}, 0};
    out.chassis = text(row, "chassis");
    if (port.name.empty() || out.chassis.empty() || !row.contains("addresses") || !row["addresses"].is_array()) {
      return std::nullopt;
    }
    const auto rate = row.find("rate_mbps");
    if (rate != row.end() && rate->is_number_unsigned()) {
      port.rate_mbps = static_cast<std::uint32_t>(std::min<std::uint64_t>(rate->get<std::uint64_t>(), UINT32_MAX));
    }
    for (const json& one : row["addresses"]) {
      const auto address = wire::IpPrefix::parse(one.is_string() ? one.get<std::string>() : "");
      if (!address) return std::nullopt;
      port.addresses.push_back(*address);
    }
    out.ports.push_back(std::move(port));
  }
  for (const std::string& line : neighbours) {
    const json row = json::parse(line, nullptr, false);
    Neighbour n{text(row, "port"), text(row, "chassis"), text(row, "system"), text(row, "peer_port"),
                text(row, "peer_description")};
    if (n.port.empty()) return std::nullopt;
    // Identities in hexadecimal can be longer than any text.
    if (!n.chassis.empty() && !n.peer_port.empty()) out.neighbours.push_back(std::move(n));
  }
  return out.ports.empty() ? std::nullopt : std::optional(std::move(out));
}

std::optional<std::vector<Port>> read_ports(std::string_view input) {
  const json root = json::parse(input, nullptr, false);
  if (!root.is_array()) return std::nullopt;
  std::vector<Port> out;
  for (const json& interface : root) {
    Port port{text(interface, "ifname"), text(interface, "address"), {}, 0};
    if (port.name.empty() || text(interface, "link_type") != "ether") continue;
    const auto addresses = interface.find("addr_info");
    if (addresses != interface.end() && addresses->is_array()) {
      for (const json& a : *addresses) {
        if (!a.is_object() || !a.contains("prefixlen") || !a["prefixlen"].is_number_unsigned()) continue;
        const auto address = wire::IpPrefix::parse(text(a, "local") + "/" + a["prefixlen"].dump());
        if (address) port.addresses.push_back(*address);
      }
    }
    out.push_back(std::move(port));
  }
  return out;
}

}  // namespace weft::inc::manager
