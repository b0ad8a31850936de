// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Ports and VLANs of a switch.
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "switch/config/config_schema.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/switch_builder.h"

namespace weft::config {
namespace {

using pipeline::kMaxVid;
using pipeline::PortInfo;

using VidSet = std::bitset<4096>;

// A veth port is an af_packet ring with frames of 8192 bytes, of which the ring's own header takes up to 96.
constexpr std::int64_t kMaxVethMtu = 8192 - 96 - 18;

// "20-30" as two ids.
std::optional<std::pair<int, int>> parse_range(std::string_view text) {
  int first = 0;
  int last = 0;
  const char* const end = text.data() + text.size();
  const auto low = std::from_chars(text.data(), end, first);
  if (low.ec != std::errc{} || low.ptr == end || *low.ptr != '-') return std::nullopt;
  const auto high = std::from_chars(low.ptr + 1, end, last);
  if (high.ec != std::errc{} || high.ptr != end) return std::nullopt;
  if (first < 1 || last > kMaxVid || first > last) return std::nullopt;
  return std::pair(first, last);
}

// The ids of a list of ids and ranges.
VidSet parse_vids(const Value& list, const std::string& what, Diagnostics& diagnostics) {
  VidSet out;
  for (std::size_t i = 0; i < list.list().size(); ++i) {
    const Value& item = list.list()[i];
    if (item.is_null()) continue;
    std::pair<int, int> range;
    if (item.is_string()) {
      const auto parsed = parse_range(item.string());
      if (!parsed) {
        diagnostics.error(item.mark(), what + "[" + std::to_string(i) + "]: expected a VLAN id from 1 to " +
                                           std::to_string(kMaxVid) + ", or a range such as \"20-30\", found " +
                                           quote(item.string()));
        continue;
      }
      range = *parsed;
    } else {
      range.first = range.second = static_cast<int>(item.integer());
    }
    for (int vid = range.first; vid <= range.second; ++vid) {
      if (out.test(static_cast<std::size_t>(vid))) {
        diagnostics.error(item.mark(),
                          what + "[" + std::to_string(i) + "]: VLAN " + std::to_string(vid) + " is listed twice");
        break;
      }
      out.set(static_cast<std::size_t>(vid));
    }
  }
  return out;
}

void read_vlans(const Value& port, PortInfo& info, Diagnostics& diagnostics) {
  const Value& access = port["access_vlan"];
  const Value& trunk = port["trunk"];
  if (!access.is_null()) info.vlans.native = static_cast<std::uint16_t>(access.integer());
  if (trunk.is_null()) return;
  if (!access.is_null()) {
    diagnostics.error(trunk.mark(), "trunk: port '" + info.name + "' has an access_vlan" + at_line(access.mark()) +
                                        "; a port has one or the other");
    return;
  }
  info.vlans.native.reset();
  if (trunk.has("vlans")) info.vlans.tagged = parse_vids(trunk["vlans"], "vlans", diagnostics);
  const Value& native = trunk["native"];
  if (native.is_null()) return;
  info.vlans.native = static_cast<std::uint16_t>(native.integer());
  if (info.vlans.tagged.test(*info.vlans.native)) {
    diagnostics.error(native.mark(), "native: VLAN " + std::to_string(*info.vlans.native) +
                                         " is also in 'vlans'; it is sent tagged or untagged, not both");
  }
}

void check_generator(const PortInfo& info, Diagnostics& diagnostics) {
  const Value& device = info.device;
  const Value& source = device["source"];
  const auto check_family = [&](const std::string& key, const Value& address) {
    if (source.is_null() || address.is_null() ||
        wire::IpAddress::parse(source.string())->is_v6() == wire::IpAddress::parse(address.string())->is_v6()) {
      return;
    }
    diagnostics.error(address.mark(), key + ": " + address.string() + " and source " + source.string() +
                                          " are of different address families");
  };
  check_family("destination", device["destination"]);
  for (const Value& more : device["more_destinations"].list_or_empty()) {
    // What is no map has been reported.
    if (!more.is_map()) continue;
    check_family("address", more["address"]);
    const Value& mac = more["mac"];
    if (!mac.is_null() && wire::MacAddress::parse(mac.string())->is_multicast()) {
      diagnostics.error(mac.mark(), "mac: expected a unicast address, found " + mac.string());
    }
  }
  const std::int64_t last = device["first_qpn"].integer() + device["qps"].integer() - 1;
  if (last > kMaxQpn) {
    diagnostics.error(
        device["qps"].mark().line > 0 ? device["qps"].mark() : device["first_qpn"].mark(),
        "qps: QP numbers end at " + std::to_string(kMaxQpn) + ", found a last one of " + std::to_string(last));
  }
  const Value& rss = device["rss"];
  if (!rss.is_null() && rss.boolean()) {
    if (!source.is_null() && wire::IpAddress::parse(source.string())->is_v6()) {
      diagnostics.error(rss.mark(), "rss: only packets of IPv4 are spread; without it there is one receive queue");
    }
    if (device["heed_pfc"].boolean()) {
      diagnostics.error(rss.mark(), "rss: a port that heeds PFC has one receive queue; without 'heed_pfc'");
    }
  }
  const Value& control = device["control"];
  const std::size_t begin = control.is_null() ? 0 : control["payload"].list_or_empty().size();
  if (begin != 0 && begin + kRoceOverheadBytes > info.mtu_bytes) {
    diagnostics.error(control["payload"].mark(),
                      "payload: " + std::to_string(begin) + " bytes and up to " + std::to_string(kRoceOverheadBytes) +
                          " of headers are more than the mtu_bytes of " + std::to_string(info.mtu_bytes));
  }
  const Value& payload = device["payload_bytes"];
  if (payload.integer() + kRoceOverheadBytes > info.mtu_bytes) {
    diagnostics.error(payload.mark().line > 0 ? payload.mark() : info.mark,
                      "payload_bytes: " + std::to_string(payload.integer()) + " and up to " +
                          std::to_string(kRoceOverheadBytes) + " bytes of headers are more than the mtu_bytes of " +
                          std::to_string(info.mtu_bytes));
  }
}

void check_pcap(const Value& port, const PortInfo& info, Diagnostics& diagnostics) {
  const Value& device = info.device;
  const auto mark_of = [&](const char* key) { return device[key].mark(); };
  if (!device.has("rx_file") && !device.has("tx_file")) {
    diagnostics.error(port.mark(), "port '" + info.name + "': a pcap port needs 'rx_file', 'tx_file' or both");
    return;
  }
  const std::string& pace = device["pace"].string();
  const bool loops = device["loops"].integer() != 1;
  if (!device.has("rx_file")) {
    if (device["infinite"].boolean())
      diagnostics.error(mark_of("infinite"), "infinite: there is no 'rx_file' to repeat");
    if (pace != "none") diagnostics.error(mark_of("pace"), "pace: there is no 'rx_file' that it could be of");
  }
  if (device.has("speed") && pace != "capture") {
    diagnostics.error(mark_of("speed"), "speed: only with 'pace: capture', whose times it changes");
  }
  if (device.has("rate_pps") && pace != "rate")
    diagnostics.error(mark_of("rate_pps"), "rate_pps: only with 'pace: rate'");
  if (!device.has("rate_pps") && pace == "rate") diagnostics.error(mark_of("pace"), "pace: 'rate' needs 'rate_pps'");
  if (loops && pace == "none") diagnostics.error(mark_of("loops"), "loops: only with a pace; or 'infinite: true'");
  if (loops && device["infinite"].boolean())
    diagnostics.error(mark_of("loops"), "loops: with 'infinite: true' it never ends");
}

void check_type(const Value& port, const PortInfo& info, Diagnostics& diagnostics) {
  if (info.type == "generator") check_generator(info, diagnostics);
  if (info.type == "pcap") check_pcap(port, info, diagnostics);
  if (info.type == "veth" && info.mtu_bytes > kMaxVethMtu) {
    diagnostics.error(port["mtu_bytes"].mark(), "mtu_bytes: a veth port carries at most " +
                                                    std::to_string(kMaxVethMtu) + ", found " +
                                                    std::to_string(info.mtu_bytes));
  }
}

// The keys that only this type of port has.
Value own_keys(const Value& port) {
  static const auto kCommon = common_port_keys();
  Value::Map own;
  for (const auto& child : port.map()) {
    const auto same = [&](const auto& k) { return k.name == child.first; };
    if (child.first != "type" && std::none_of(kCommon.begin(), kCommon.end(), same)) own.push_back(child);
  }
  Value out{std::move(own)};
  out.set_mark(port.mark());
  return out;
}

PortInfo read_port(const Value& port, Diagnostics& diagnostics) {
  PortInfo info;
  info.name = port["name"].string();
  info.mark = port.mark();
  if (const Value& mac = port["mac"]; !mac.is_null()) {
    info.mac = *wire::MacAddress::parse(mac.string());
    if (info.mac.is_multicast() || info.mac.is_zero()) {
      diagnostics.error(mac.mark(), "mac: expected a unicast address, found " + info.mac.to_string());
    }
  }
  read_vlans(port, info, diagnostics);
  if (!port.has("type")) return info;
  info.type = port["type"].string();
  info.device = own_keys(port);
  const bool device_has_mtu = info.type == "pci" || info.type == "veth" || info.type == "tap";
  info.mtu_bytes = device_has_mtu ? 0 : kDefaultMtu;
  if (port.has("mtu_bytes")) info.mtu_bytes = static_cast<std::uint32_t>(port["mtu_bytes"].integer());
  info.rate_mbps = port["rate_mbps"].unsigned_integer();
  info.delay_ns = port["delay_ns"].unsigned_integer();
  info.framing = {static_cast<std::int16_t>(port["overhead_bytes"].integer()),
                  static_cast<std::uint16_t>(port["mpu_bytes"].integer())};
  info.queue_packets = static_cast<std::uint32_t>(port["queue_packets"].integer());
  if (port.has("worker")) info.worker = static_cast<std::uint16_t>(port["worker"].integer());
  check_type(port, info, diagnostics);
  return info;
}

// Position of the key that made a port a member of a VLAN, or of the port.
const Mark& vlan_mark(const Value& port) {
  for (const auto* key : {"access_vlan", "trunk"}) {
    if (port.has(key)) return port[key].mark();
  }
  return port.mark();
}

void read_switch_vlans(SwitchScope& scope, const std::vector<const Value*>& sources) {
  VidSet used;
  for (const auto& port : scope.info.ports) {
    used |= port.vlans.tagged;
    if (port.vlans.native) used.set(*port.vlans.native);
  }
  VidSet exist = used;
  if (const Value& vlans = scope.source["vlans"]; !vlans.is_null()) {
    exist = parse_vids(vlans, "vlans", scope.diagnostics);
    for (std::size_t i = 0; i < scope.info.ports.size(); ++i) {
      const auto& port = scope.info.ports[i];
      VidSet missing = port.vlans.tagged;
      if (port.vlans.native) missing.set(*port.vlans.native);
      missing &= ~exist;
      if (missing.none()) continue;
      scope.diagnostics.error(vlan_mark(*sources[i]), "port '" + port.name + "' is in VLAN " +
                                                          std::to_string(missing._Find_first()) +
                                                          ", which 'vlans' does not list" + at_line(vlans.mark()));
    }
  }
  for (std::uint16_t vid = 1; vid <= kMaxVid; ++vid) {
    if (exist.test(vid)) scope.info.vlans.push_back(vid);
  }
}

}  // namespace

void build_ports(SwitchScope& scope) {
  const Value& list = scope.source["ports"];
  if (list.is_null()) {
    scope.ports_complete = false;
    return;
  }
  std::map<std::string, Mark> names;
  std::vector<const Value*> sources;
  for (const auto& item : list.list()) {
    if (item.is_null() || !item.has("name")) {
      scope.ports_complete = false;
      continue;
    }
    const Value& name = item["name"];
    const auto [first, inserted] = names.emplace(name.string(), name.mark());
    if (!inserted) {
      scope.diagnostics.error(name.mark(), "name: port '" + name.string() + "' is declared twice, first at line " +
                                               std::to_string(first->second.line));
    }
    if (scope.info.ports.size() == kMaxPorts) {
      scope.diagnostics.error(item.mark(), "ports: more than " + std::to_string(kMaxPorts) + " in one switch");
      break;
    }
    PortInfo info = read_port(item, scope.diagnostics);
    info.index = static_cast<pipeline::PortIndex>(scope.info.ports.size());
    scope.info.ports.push_back(std::move(info));
    sources.push_back(&item);
  }
  read_switch_vlans(scope, sources);
}

}  // namespace weft::config
