// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/discovery.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft::inc::manager {

using policy::NodeId;

namespace {

/// More are no fabric, but reports that change all the time.
constexpr std::size_t kMaxFound = 100'000;
/// Of a port of which nobody knows more.
constexpr std::uint32_t kUsualMbps = 100'000;

/// The addresses by which two ends reach each other.
std::optional<std::pair<wire::IpAddress, wire::IpAddress>> meet(const std::vector<wire::IpPrefix>& a,
                                                                const std::vector<wire::IpPrefix>& b) {
  for (const wire::IpPrefix& x : a) {
    for (const wire::IpPrefix& y : b) {
      if (x.address == y.address || x.address.is_link_local() || y.address.is_link_local()) continue;
      if (x.contains(y.address) || y.contains(x.address)) return std::pair(x.address, y.address);
    }
  }
  return std::nullopt;
}

const Port* port_named(const NeighbourReport& report, const std::string& name) {
  const auto at = std::find_if(report.ports.begin(), report.ports.end(), [&](const Port& p) { return p.name == name; });
  return at == report.ports.end() ? nullptr : &*at;
}

/// The port that a neighbour calls its own: by the name of its interface, or by its MAC address, which ports may share.
const Port* port_heard(const NeighbourReport& of, const Neighbour& n) {
  constexpr std::string_view kName = "ifname ", kMac = "mac ";
  if (n.peer_port.starts_with(kName)) return port_named(of, n.peer_port.substr(kName.size()));
  if (const Port* described = port_named(of, n.peer_description)) return described;
  if (!n.peer_port.starts_with(kMac)) return nullptr;
  const std::string mac = n.peer_port.substr(kMac.size());
  const auto has = [&](const Port& p) { return p.mac == mac; };
  if (std::count_if(of.ports.begin(), of.ports.end(), has) != 1) return nullptr;
  return &*std::find_if(of.ports.begin(), of.ports.end(), has);
}

}  // namespace

std::optional<std::string> assemble(const StatedFabric& stated, const std::vector<FoundLink>& found, bool lone_switches,
                                    Fabric& out) {
  out = {};
  out.topology = stated.topology;
  out.addresses = stated.ends;
  for (const FoundLink& l : found) {
    out.topology.add_link(l.a, l.b, l.rate_mbps);
    out.addresses.push_back({l.a_address, l.b_address});
  }
  std::vector<NodeId> first;
  for (const policy::Link& l : out.topology.links()) first.push_back(l.lower);
  if (auto error = out.topology.finish(lone_switches)) return error;
  // finish() turns links so that the lower tier comes first.
  for (policy::LinkId id = 0; id < first.size(); ++id) {
    if (out.topology.link(id).lower != first[id]) std::swap(out.addresses[id].lower, out.addresses[id].upper);
  }
  out.index();
  return std::nullopt;
}

/// Hosts have links with switches only.
bool Discovery::may_be_linked(NodeId a, NodeId b) const {
  return a != b && (stated_.topology.node(a).is_switch || stated_.topology.node(b).is_switch);
}

NodeId Discovery::node_of(const Neighbour& n) const {
  for (const auto& [node, report] : reports_) {
    if (report.chassis == n.chassis) return node;
  }
  const NodeId named = stated_.topology.find(n.system);
  // Another system that says it has the name of one that reports is not that one.
  return named != policy::kNoNode && reports_.contains(named) ? policy::kNoNode : named;
}

std::optional<Discovery::End> Discovery::own_end(const NeighbourReport& report, const Neighbour& n) const {
  const Port* port = port_named(report, n.port);
  if (port == nullptr) return std::nullopt;
  return End{stated_.topology.find(report.node), port->name, port->addresses, port->rate_mbps};
}

std::optional<Discovery::End> Discovery::other_end(NodeId node, const Neighbour& n) const {
  if (const auto at = reports_.find(node); at != reports_.end()) {
    const Port* port = port_heard(at->second, n);
    if (port == nullptr) return std::nullopt;
    return End{node, port->name, port->addresses, port->rate_mbps};
  }
  const auto host = stated_.hosts.find(node);
  if (host == stated_.hosts.end()) return std::nullopt;
  return End{node, "", {{host->second, static_cast<std::uint8_t>(host->second.is_v6() ? 128 : 32)}}, 0};
}

std::string Discovery::end_text(NodeId node, const wire::IpAddress& address) const {
  return stated_.topology.node(node).name + " (" + address.to_string() + ")";
}

/// @param stated  receives whether the file has this very link
/// @return what the file says of one of its ends, or ""
std::string Discovery::contradicted_by_file(const FoundLink& l, bool& stated) {
  stated = false;
  std::string says;
  for (policy::LinkId id = 0; id < stated_.ends.size(); ++id) {
    const policy::Link& link = stated_.topology.link(id);
    const LinkAddresses& ends = stated_.ends[id];
    for (const bool turned : {false, true}) {
      const bool one = link.lower == (turned ? l.b : l.a) && ends.lower == (turned ? l.b_address : l.a_address);
      const bool other = link.upper == (turned ? l.a : l.b) && ends.upper == (turned ? l.a_address : l.b_address);
      if (one && other) {
        heard_[id] = stated = true;
        return "";
      }
      if (one || other) {
        says = end_text(link.lower, ends.lower) + " is connected with " + end_text(link.upper, ends.upper);
      }
    }
  }
  return says;
}

bool Discovery::take(const FoundLink& link, const std::string& words, std::vector<FoundLink>& seen) {
  bool stated = false;
  if (const std::string says = contradicted_by_file(link, stated); !says.empty()) {
    contradictions_.push_back("LLDP: " + words + "; the file: " + says);
    return false;
  }
  if (stated) return true;
  for (const FoundLink& other : seen) {
    if (other.same_ends(link)) return true;
    const bool common = (other.a == link.a && other.a_address == link.a_address) ||
                        (other.b == link.b && other.b_address == link.b_address) ||
                        (other.a == link.b && other.a_address == link.b_address) ||
                        (other.b == link.a && other.b_address == link.a_address);
    if (!common) continue;
    contradictions_.push_back("LLDP: " + words + "; and " + end_text(other.a, other.a_address) + " is connected with " +
                              end_text(other.b, other.b_address));
    return false;
  }
  seen.push_back(link);
  return true;
}

/// Goes through all reports again: what one says may make sense of another.
void Discovery::look(const std::string& reporter, Answer& answer) {
  contradictions_.clear();
  heard_.assign(heard_.size(), false);
  std::vector<FoundLink> seen;
  for (const auto& [node, report] : reports_) {
    for (const Neighbour& n : report.neighbours) {
      const auto useless = [&, &from = report](const std::string& why) {
        if (from.node == reporter) answer.sentences.push_back(n.port + ": " + why);
      };
      const NodeId peer = node_of(n);
      if (peer == policy::kNoNode) {
        useless("no switch or host of the manager's is " + (n.system.empty() ? n.chassis : n.system));
        continue;
      }
      const auto own = own_end(report, n), other = other_end(peer, n);
      const std::string& name = stated_.topology.node(peer).name;
      if (!may_be_linked(node, peer)) {
        useless("no link leads to " + name);
        continue;
      }
      if (!own || !other) {
        useless(!own ? "the report has no such port" : name + " has not reported its end");
        continue;
      }
      const auto addresses = meet(own->addresses, other->addresses);
      if (!addresses) {
        useless("it has no address in a network of " + name);
        continue;
      }
      const std::uint32_t rates[] = {own->rate_mbps, other->rate_mbps};
      std::uint32_t rate = std::min(rates[0] == 0 ? UINT32_MAX : rates[0], rates[1] == 0 ? UINT32_MAX : rates[1]);
      if (rate == UINT32_MAX) rate = kUsualMbps;
      FoundLink link{node, peer, addresses->first, addresses->second, rate};
      const std::string words = end_text(node, link.a_address) + " is connected with " + end_text(peer, link.b_address);
      if (peer < node) {
        std::swap(link.a, link.b);
        std::swap(link.a_address, link.b_address);
      }
      take(link, words, seen);
    }
  }
  up_.assign(found_.size(), false);
  for (const FoundLink& link : seen) {
    const auto at = std::find_if(found_.begin(), found_.end(), [&](const FoundLink& f) { return f.same_ends(link); });
    if (at != found_.end()) {
      up_[static_cast<std::size_t>(at - found_.begin())] = true;
    } else if (found_.size() < kMaxFound) {
      found_.push_back(link);
      up_.push_back(true);
    }
  }
}

Discovery::Answer Discovery::report(const NeighbourReport& report) {
  Answer answer;
  const NodeId node = stated_.topology.find(report.node);
  if (node == policy::kNoNode) {
    answer.sentences.push_back("the manager knows no switch or host " + report.node);
    return answer;
  }
  reports_[node] = report;
  look(report.node, answer);
  return answer;
}

std::string Discovery::source_of(policy::LinkId link) const {
  if (link >= stated_.ends.size()) return "lldp";
  return heard_[link] ? "configuration, lldp" : "configuration";
}

std::string Discovery::to_text() const {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const FoundLink& l : found_) {
    out.push_back({{"a", stated_.topology.node(l.a).name},
                   {"a_address", l.a_address.to_string()},
                   {"b", stated_.topology.node(l.b).name},
                   {"b_address", l.b_address.to_string()},
                   {"rate_mbps", l.rate_mbps}});
  }
  return out.dump();
}

bool Discovery::restore(const std::string& text) {
  try {
    for (const auto& j : nlohmann::json::parse(text)) {
      FoundLink l{
          stated_.topology.find(j.at("a").get<std::string>()), stated_.topology.find(j.at("b").get<std::string>()),
          wire::IpAddress::parse(j.at("a_address").get<std::string>()).value(),
          wire::IpAddress::parse(j.at("b_address").get<std::string>()).value(), j.at("rate_mbps").get<std::uint32_t>()};
      bool stated = false;
      if (l.a == policy::kNoNode || l.b == policy::kNoNode || !may_be_linked(l.a, l.b)) continue;
      if (!contradicted_by_file(l, stated).empty() || stated) continue;
      found_.push_back(l);
      up_.push_back(true);
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace weft::inc::manager
