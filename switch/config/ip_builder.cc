// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Addresses, neighbours and routes of a switch.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "switch/config/config_schema.h"
#include "switch/config/switch_builder.h"

namespace weft::config {
namespace {

using pipeline::InterfaceAddress;
using pipeline::PortIndex;
using pipeline::RouteInfo;
using wire::IpAddress;
using wire::IpPrefix;
using wire::MacAddress;

bool is_v6_link_local(const IpAddress& a) {
  return a.is_v6() && a.is_link_local();
}

// Why an address cannot be that of one interface; "" when it can.
std::string not_unicast(const IpAddress& a) {
  if (a.is_unspecified()) return "the unspecified address";
  if (a.is_multicast()) return "a multicast address";
  if (a.is_loopback()) return "a loopback address";
  if (!a.is_v6() && a.v4_value() == 0xffffffff) return "the broadcast address";
  return {};
}

// True when every host bit of the address is one.
bool is_last(const IpPrefix& prefix) {
  const auto& bytes = prefix.address.bytes();
  const unsigned first = prefix.address.is_v6() ? 0 : 96;
  for (unsigned bit = first + prefix.length; bit < 128; ++bit) {
    if ((bytes[bit / 8] & (0x80u >> bit % 8)) == 0) return false;
  }
  return true;
}

// Why the address cannot be a host of its own subnet; "" when it can. RFC 3021 and RFC 6164 give both addresses of the
// smallest subnets to hosts.
std::string not_host(const IpPrefix& prefix) {
  const unsigned bits = prefix.address.is_v6() ? 128 : 32;
  if (prefix.length + 1u >= bits) return {};
  const IpPrefix network = prefix.network();
  if (network.address == prefix.address) {
    return (prefix.address.is_v6() ? "the subnet-router anycast address of " : "the network address of ") +
           network.to_string();
  }
  if (!prefix.address.is_v6() && is_last(prefix)) return "the broadcast address of " + network.to_string();
  return {};
}

class IpBuilder {
 public:
  explicit IpBuilder(SwitchScope& scope) : scope_(scope) {}

  void build() {
    each("addresses", [this](const Value& item) { read_address(item); });
    // That a router has no address at all is a mistake of its own.
    if (scope_.info.addresses.empty()) complete_ = false;
    check_overlaps();
    each("neighbours", [this](const Value& item) { read_neighbour(item); });
    each("routes", [this](const Value& item) { read_route(item); });
  }

 private:
  template <typename F>
  void each(const char* section, F&& f) {
    for (const auto& item : scope_.source[section].list_or_empty()) {
      if (!item.is_null()) f(item);
    }
  }

  void error(const Mark& mark, std::string text) { scope_.diagnostics.error(mark, std::move(text)); }
  [[nodiscard]] const std::string& port_name(PortIndex port) const { return scope_.info.ports[port].name; }

  void read_address(const Value& item) {
    const auto port = scope_.port(item["port"]);
    const Value& value = item["address"];
    if (!port || value.is_null()) {
      complete_ = false;
      return;
    }
    const IpPrefix prefix = *IpPrefix::parse(value.string());
    std::string wrong = not_unicast(prefix.address);
    if (wrong.empty() && prefix.length == 0) wrong = "a subnet that holds every address";
    if (wrong.empty()) wrong = not_host(prefix);
    if (!wrong.empty()) {
      error(value.mark(), "address: " + prefix.to_string() + " is " + wrong + ", not that of an interface");
      complete_ = false;
      return;
    }
    check_ipv6_mtu(*port, prefix);
    // A link-local address is only known on its own link.
    const auto owner = std::pair(prefix.address, is_v6_link_local(prefix.address) ? *port : pipeline::kNoPort);
    const auto [first, inserted] = own_.emplace(owner, scope_.info.addresses.size());
    if (!inserted) {
      const auto& other = scope_.info.addresses[first->second];
      error(value.mark(), "address: " + prefix.address.to_string() + " is already an address of port '" +
                              port_name(other.port) + "'" + at_line(other.mark));
      return;
    }
    scope_.info.addresses.push_back({*port, prefix, value.mark()});
    if (is_v6_link_local(prefix.address)) return;
    connected_.emplace(prefix.network(), *port);
    lengths_.insert(prefix.length);
  }

  void check_ipv6_mtu(PortIndex port, const IpPrefix& prefix) {
    const auto& info = scope_.info.ports[port];
    if (!prefix.address.is_v6() || info.mtu_bytes == 0 || info.mtu_bytes >= kMinIpv6Mtu) return;
    if (!small_mtu_.insert(port).second) return;
    const auto& ports = scope_.source["ports"].list();
    const auto source = std::find_if(ports.begin(), ports.end(), [&](const Value& p) {
      return p.is_map() && p["name"].is_string() && p["name"].string() == info.name;
    });
    error((*source)["mtu_bytes"].mark(), "mtu_bytes: port '" + info.name + "' has an IPv6 address and needs at least " +
                                             std::to_string(kMinIpv6Mtu) + ", found " + std::to_string(info.mtu_bytes));
  }

  // Two ports must not be connected to overlapping subnets. Sorted, a subnet directly follows those that hold it.
  void check_overlaps() {
    struct Subnet {
      IpPrefix network;
      std::size_t address;
    };
    std::vector<Subnet> sorted;
    for (std::size_t i = 0; i < scope_.info.addresses.size(); ++i) {
      const auto& prefix = scope_.info.addresses[i].prefix;
      if (!is_v6_link_local(prefix.address)) sorted.push_back({prefix.network(), i});
    }
    std::sort(sorted.begin(), sorted.end(), [](const Subnet& a, const Subnet& b) {
      return std::tuple(a.network.address, a.network.length, a.address) <
             std::tuple(b.network.address, b.network.length, b.address);
    });
    std::vector<Subnet> around;
    for (const auto& subnet : sorted) {
      while (!around.empty() && !around.back().network.contains(subnet.network.address)) around.pop_back();
      if (!around.empty()) report_overlap(around.back().address, subnet.address);
      around.push_back(subnet);
    }
  }

  void report_overlap(std::size_t a, std::size_t b) {
    const auto& first = scope_.info.addresses[std::min(a, b)];
    const auto& second = scope_.info.addresses[std::max(a, b)];
    if (first.port == second.port) return;
    error(second.mark, "address: subnet " + second.prefix.network().to_string() + " of port '" +
                           port_name(second.port) + "' overlaps " + first.prefix.network().to_string() + " of port '" +
                           port_name(first.port) + "'" + at_line(first.mark));
  }

  // The port whose connected subnet holds the address.
  [[nodiscard]] std::optional<PortIndex> connected_port(const IpAddress& a) const {
    for (auto length = lengths_.rbegin(); length != lengths_.rend(); ++length) {
      if (!a.is_v6() && *length > 32) continue;
      const auto found = connected_.find(IpPrefix{a, *length}.network());
      if (found != connected_.end()) return found->second;
    }
    return std::nullopt;
  }

  // The switch's own interface with this address.
  [[nodiscard]] const InterfaceAddress* own(const IpAddress& a, std::optional<PortIndex> port) const {
    const auto found =
        own_.find(std::pair(a, is_v6_link_local(a) ? port.value_or(pipeline::kNoPort) : pipeline::kNoPort));
    return found == own_.end() ? nullptr : &scope_.info.addresses[found->second];
  }

  // Why `a` cannot be a neighbour in the subnet of `port` that holds it; "" when it can.
  [[nodiscard]] std::string not_neighbour(const IpAddress& a, std::optional<PortIndex> port) const {
    if (std::string wrong = not_unicast(a); !wrong.empty()) return wrong;
    if (const auto* mine = own(a, port)) return "this switch's own address on port '" + port_name(mine->port) + "'";
    for (const auto length : lengths_) {
      if (!a.is_v6() && length > 32) continue;
      if (!connected_.contains(IpPrefix{a, length}.network())) continue;
      if (std::string wrong = not_host({a, length}); !wrong.empty()) return wrong;
    }
    return {};
  }

  void read_neighbour(const Value& item) {
    const auto port = scope_.port(item["port"]);
    const Value& address = item["address"];
    const Value& mac_value = item["mac"];
    if (!mac_value.is_null()) {
      const auto mac = *MacAddress::parse(mac_value.string());
      if (mac.is_multicast() || mac.is_zero()) {
        error(mac_value.mark(), "mac: expected a unicast address, found " + mac.to_string());
      }
    }
    if (!port || address.is_null()) return;
    const IpAddress a = *IpAddress::parse(address.string());
    if (const std::string wrong = not_neighbour(a, port); !wrong.empty()) {
      error(address.mark(), "address: " + a.to_string() + " is " + wrong + ", not a neighbour");
    } else if (complete_ && !is_v6_link_local(a) && connected_port(a) != port) {
      error(address.mark(),
            "address: " + a.to_string() + " is in no subnet connected to port '" + port_name(*port) + "'");
    }
    const auto [first, inserted] = neighbours_.emplace(std::pair(*port, a), address.mark());
    if (!inserted) {
      error(address.mark(), "address: neighbour " + a.to_string() + " of port '" + port_name(*port) +
                                "' stands twice, first at line " + std::to_string(first->second.line));
    }
    if (mac_value.is_null()) return;
    scope_.info.neighbours.push_back({*port, a, *MacAddress::parse(mac_value.string()), item.mark()});
  }

  void read_route(const Value& item) {
    RouteInfo route;
    route.mark = item.mark();
    const Value& prefix = item["prefix"];
    const Value& via = item["via"];
    const Value& blackhole = item["blackhole"];
    if (!prefix.is_null()) {
      route.prefix = *IpPrefix::parse(prefix.string());
      check_prefix(route.prefix, prefix.mark());
    }
    route.blackhole = !blackhole.is_null() && blackhole.boolean();
    if (route.blackhole && !via.is_null()) {
      error(blackhole.mark(), "blackhole: the route has 'via' too" + at_line(via.mark()) + "; expected one of them");
    }
    if (!via.is_null()) {
      for (const auto& hop : via.list()) read_hop(hop, route, prefix.is_null());
    } else if (!route.blackhole) {
      error(item.mark(), "routes: expected 'via' or 'blackhole: true', found neither");
    }
    scope_.info.routes.push_back(std::move(route));
  }

  void check_prefix(const IpPrefix& prefix, const Mark& mark) {
    if (prefix.network() != prefix) {
      error(mark, "prefix: " + prefix.to_string() + " has host bits; the network is " + prefix.network().to_string());
      return;
    }
    if (prefix.address.is_multicast()) {
      error(mark, "prefix: " + prefix.to_string() + " is multicast; only unicast is routed");
      return;
    }
    if (const auto found = connected_.find(prefix); found != connected_.end()) {
      error(mark,
            "prefix: " + prefix.to_string() + " is the connected subnet of port '" + port_name(found->second) + "'");
    }
    const auto [first, inserted] = prefixes_.emplace(prefix, mark);
    if (!inserted) {
      error(mark,
            "prefix: " + prefix.to_string() + " is routed twice, first at line " + std::to_string(first->second.line));
    }
  }

  void read_hop(const Value& item, RouteInfo& route, bool any_family) {
    if (item.is_null()) return;
    RouteInfo::Hop hop;
    const Value& address = item.is_map() ? item["address"] : item;
    if (item.is_map() && item.has("port")) {
      hop.port = scope_.port(item["port"]);
      if (!hop.port) return;
    }
    if (address.is_null()) return;
    hop.address = *IpAddress::parse(address.string());
    const std::string text = "via: " + hop.address.to_string();
    if (route.via.size() == kMaxHops) {
      error(address.mark(), "via: more than " + std::to_string(kMaxHops) + " next hops");
    } else if (!any_family && hop.address.is_v6() != route.prefix.address.is_v6()) {
      error(address.mark(), text + " and prefix " + route.prefix.to_string() + " are of different address families");
    } else if (const std::string wrong = not_neighbour(hop.address, hop.port); !wrong.empty()) {
      error(address.mark(), text + " is " + wrong + ", not a next hop");
    } else if (!hop.port && is_v6_link_local(hop.address)) {
      error(address.mark(), text + " is link-local; expected { address: " + hop.address.to_string() + ", port: ... }");
    } else if (!hop.port && complete_ && !connected_port(hop.address)) {
      error(address.mark(), text + " is in no connected subnet; add an address to a port, or name the port");
    } else if (std::any_of(route.via.begin(), route.via.end(),
                           [&](const RouteInfo::Hop& h) { return h.address == hop.address && h.port == hop.port; })) {
      error(address.mark(), text + " stands twice in this route");
    }
    if (route.via.size() <= kMaxHops) route.via.push_back(hop);
  }

  SwitchScope& scope_;
  bool complete_ = true;                                        // every address is known
  std::map<std::pair<IpAddress, PortIndex>, std::size_t> own_;  // position in info.addresses
  std::map<IpPrefix, PortIndex> connected_;                     // by network
  std::set<std::uint8_t> lengths_;                              // of the networks in connected_
  std::set<PortIndex> small_mtu_;                               // reported already
  std::map<std::pair<PortIndex, IpAddress>, Mark> neighbours_;
  std::map<IpPrefix, Mark> prefixes_;
};

}  // namespace

void build_ip(SwitchScope& scope) {
  IpBuilder(scope).build();
}

}  // namespace weft::config
