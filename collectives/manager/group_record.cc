// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/group_record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "collectives/engine/inc_engine.h"

namespace weft::inc::manager {

using nlohmann::json;
using nlohmann::ordered_json;
using policy::Decision;
using policy::Topology;

namespace {

constexpr std::array<std::string_view, 3> kStates{"installing", "running", "removing"};
/// A switch hands its memory out in whole cache lines.
constexpr std::uint64_t kLine = 64;
constexpr std::uint32_t kMaxPsn = 0xffffff;
constexpr std::uint32_t kMaxWords = 1u << 16;
constexpr std::uint32_t kMaxPeriodUs = 1'000'000'000;

void require(bool condition, const char* otherwise) {
  if (!condition) throw std::invalid_argument(otherwise);
}

void no_mistake(const std::string& mistake) {
  if (!mistake.empty()) throw std::invalid_argument(mistake);
}

/// JSON's numbers may be negative, have a fraction, or be larger than T.
template <class T>
T number(const json& j) {
  require(j.is_number_unsigned() && j.get<std::uint64_t>() <= std::numeric_limits<T>::max(),
          "a number is negative, has a fraction or is too large");
  return j.get<T>();
}

/// One that records of earlier versions lack.
template <class T>
T number_or_0(const json& j, const char* name) {
  return j.contains(name) ? number<T>(j.at(name)) : T{0};
}

Mode mode_from(const std::string& word) {
  require(word == "i" || word == "ii" || word == "iii", "there is no such mode");
  return word == "i" ? Mode::i : word == "iii" ? Mode::iii : Mode::ii;
}

ordered_json member_json(const Member& m) {
  return {{"address", m.address.to_string()},
          {"qp", m.qp},
          {"first_psn", m.first_psn},
          {"expects_psn", m.expects_psn},
          {"loss_recovery", m.loss_recovery}};
}

ordered_json options_json(const GroupOptions& o) {
  return {{"mode", name(o.mode)},
          {"mtu", o.mtu},
          {"message_packets", o.message_packets},
          {"window", o.window},
          {"least_window", o.least_window},
          {"reproducible", o.reproducible},
          {"rate_mbps", o.rate_mbps},
          {"prefer", o.prefer == policy::Prefer::latency ? "latency" : "bandwidth"},
          {"types", o.types},
          {"duty_per_mille", o.duty_per_mille},
          {"period_us", o.period_us},
          {"job", o.job}};
}

ordered_json endpoint_json(const EndpointRecord& e) {
  return {{"address", e.address.to_string()},
          {"qp", e.qp},
          {"peer", e.peer.to_string()},
          {"peer_qp", e.peer_qp},
          {"first_rx", e.first_rx},
          {"first_tx", e.first_tx},
          {"ranks", e.ranks},
          {"is_rank", e.is_rank}};
}

/// A link of which there may be several between two nodes: its place among those.
std::size_t place_of(const Topology& t, policy::LinkId link) {
  std::size_t place = 0;
  for (const policy::Arc& arc : t.up(t.link(link).lower)) {
    if (arc.to == t.link(link).upper && arc.link < link) ++place;
  }
  return place;
}

ordered_json tree_json(const Decision& d, const Topology& t) {
  ordered_json edges = ordered_json::array(), switches = ordered_json::array();
  for (const auto& e : d.tree.edges) {
    edges.push_back({t.node(e.child).name, t.node(e.parent).name, place_of(t, e.link)});
  }
  for (std::size_t i = 0; i < d.memory.size(); ++i) {
    switches.push_back({{"name", t.node(d.memory[i].node).name},
                        {"children", d.tree.switches[i].children},
                        {"bytes", d.memory[i].bytes},
                        {"block", d.memory[i].block}});
  }
  ordered_json out{
      {"edges", std::move(edges)}, {"switches", std::move(switches)}, {"units", d.units}, {"width_mbps", d.width_mbps}};
  // Of groups that are staggered.
  if (d.staggered) out["offset_ns"] = d.offset_ns;
  return out;
}

wire::IpAddress address_from(const json& j) {
  const auto address = wire::IpAddress::parse(j.get<std::string>());
  if (!address) throw std::invalid_argument("an address is none");
  return *address;
}

policy::NodeId node_from(const json& j, const Topology& t) {
  const policy::NodeId node = t.find(j.get<std::string>());
  if (node == policy::kNoNode) throw std::invalid_argument("there is no such node");
  return node;
}

policy::TreeEdge edge_from(const json& j, const Topology& t) {
  policy::TreeEdge e{node_from(j.at(0), t), node_from(j.at(1), t), policy::kNoLink};
  std::size_t place = number<std::size_t>(j.at(2));
  for (const policy::Arc& arc : t.up(e.child)) {
    if (arc.to == e.parent && place-- == 0) e.link = arc.link;
  }
  if (e.link == policy::kNoLink) throw std::invalid_argument("there is no such link");
  return e;
}

Decision decision_from(const json& j, const Topology& t) {
  Decision d;
  for (const auto& e : j.at("edges")) d.tree.edges.push_back(edge_from(e, t));
  for (const auto& s : j.at("switches")) {
    const policy::NodeId node = node_from(s.at("name"), t);
    d.tree.switches.push_back({node, number<std::uint32_t>(s.at("children")), false});
    d.memory.push_back({node, number<std::uint64_t>(s.at("bytes")), number<std::uint32_t>(s.at("block")), false});
  }
  d.units = number<std::uint32_t>(j.at("units"));
  d.width_mbps = number<std::uint32_t>(j.at("width_mbps"));
  d.staggered = j.contains("offset_ns");
  d.offset_ns = number_or_0<std::uint64_t>(j, "offset_ns");
  require(!d.tree.switches.empty(), "a tree has no switches");
  d.tree.switches.back().root = true;
  d.tree.root = d.tree.switches.back().node;
  return d;
}

GroupOptions options_from(const json& j) {
  GroupOptions o;
  o.mode = mode_from(j.at("mode").get<std::string>());
  o.mtu = number<std::uint32_t>(j.at("mtu"));
  o.message_packets = number<std::uint32_t>(j.at("message_packets"));
  o.window = number<std::uint32_t>(j.at("window"));
  o.least_window = number<std::uint32_t>(j.at("least_window"));
  o.reproducible = j.at("reproducible").get<bool>();
  o.rate_mbps = number<std::uint32_t>(j.at("rate_mbps"));
  o.prefer = j.at("prefer") == "latency" ? policy::Prefer::latency : policy::Prefer::bandwidth;
  o.types = number<std::uint16_t>(j.at("types"));
  o.duty_per_mille = number_or_0<std::uint32_t>(j, "duty_per_mille");
  o.period_us = number_or_0<std::uint32_t>(j, "period_us");
  o.job = number_or_0<std::uint32_t>(j, "job");
  return o;
}

EndpointRecord endpoint_from(const json& j) {
  std::vector<std::uint32_t> ranks;
  for (const json& rank : j.at("ranks")) ranks.push_back(number<std::uint32_t>(rank));
  return {address_from(j.at("address")),
          address_from(j.at("peer")),
          number<std::uint32_t>(j.at("qp")),
          number<std::uint32_t>(j.at("peer_qp")),
          number<std::uint32_t>(j.at("first_rx")),
          number<std::uint32_t>(j.at("first_tx")),
          std::move(ranks),
          j.at("is_rank").get<bool>()};
}

void check_endpoint(const EndpointRecord& e, const GroupRecord& r) {
  require(e.qp <= kMaxPsn && e.peer_qp <= kMaxPsn && e.first_rx <= kMaxPsn && e.first_tx <= kMaxPsn,
          "a number of a queue pair or PSN has more than 24 bits");
  require(!e.is_rank || e.ranks.size() == 1, "an endpoint that is a rank's has several ranks, or none");
  require(std::all_of(e.ranks.begin(), e.ranks.end(), [&](auto rank) { return rank < r.members.size(); }),
          "an endpoint has a rank that the group does not have");
}

/// What is left of a group that is removed is some of its switches, without edges.
void check_record(const GroupRecord& r, const Topology& topology) {
  require(r.id != 0, "a group's number is 0");
  no_mistake(mistake_of(r.options));
  for (const Member& m : r.members) no_mistake(mistake_of(m));
  const policy::Tree& tree = r.decision.tree;
  require(r.switches.size() == tree.switches.size(), "endpoints are of another tree");
  std::set<policy::NodeId> nodes;
  std::set<std::uint32_t> ranks;
  for (std::size_t i = 0; i < r.switches.size(); ++i) {
    const policy::Node& node = topology.node(tree.switches[i].node);
    require(node.is_switch && nodes.insert(tree.switches[i].node).second,
            "a tree has a switch twice, or a host in its place");
    require(node.name == r.switches[i].name, "endpoints are of another switch");
    for (const EndpointRecord& e : r.switches[i].endpoints) {
      check_endpoint(e, r);
      require(!e.is_rank || ranks.insert(e.ranks.front()).second, "a rank has two endpoints");
    }
  }
  require(r.state != GroupState::running || ranks.size() == r.members.size(), "a rank has no endpoint");
  std::set<policy::LinkId> links;
  for (const policy::TreeEdge& e : tree.edges) {
    require(links.insert(e.link).second && nodes.contains(e.parent),
            "a tree has a link twice, or one that leads to none of its switches");
  }
}

GroupRecord record_from(const json& j, const Topology& topology) {
  GroupRecord r;
  r.id = number<GroupId>(j.at("group"));
  r.generation = number<std::uint64_t>(j.at("generation"));
  const auto state = std::find(kStates.begin(), kStates.end(), j.at("state").get<std::string>());
  require(state != kStates.end(), "there is no such state");
  r.state = static_cast<GroupState>(state - kStates.begin());
  r.tenant = j.value("tenant", "");
  for (const auto& m : j.at("members")) {
    r.members.push_back({address_from(m.at("address")), number<std::uint32_t>(m.at("qp")),
                         number<std::uint32_t>(m.at("first_psn")), number<std::uint32_t>(m.at("expects_psn")),
                         m.at("loss_recovery").get<std::string>()});
  }
  r.options = options_from(j.at("options"));
  r.decision = decision_from(j.at("tree"), topology);
  for (const auto& s : j.at("endpoints")) {
    SwitchRecord& record = r.switches.emplace_back();
    record.name = s.at("switch").get<std::string>();
    for (const auto& e : s.at("endpoints")) record.endpoints.push_back(endpoint_from(e));
  }
  check_record(r, topology);
  return r;
}

}  // namespace

std::string_view to_string(GroupState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

std::string mistake_of(const GroupOptions& o) {
  if (o.mtu < 256 || o.mtu > 4096) return "mtu is between 256 and 4096";
  if (o.message_packets == 0 || o.message_packets > kMaxWords) return "message_packets is between 1 and 65536";
  if (o.window == 0 || o.window > kMaxWords) return "window is between 1 and 65536";
  if (o.least_window == 0 || o.least_window > o.window) return "least_window is between 1 and window";
  if (o.duty_per_mille > 1000) return "duty_per_mille is at most 1000";
  if (o.period_us > kMaxPeriodUs) return "period_us is at most 1000000000";
  return "";
}

std::string mistake_of(const Member& m) {
  if (m.qp == 0 || m.qp > kMaxPsn) return "a qp is between 1 and 16777215";
  if (m.first_psn > kMaxPsn || m.expects_psn > kMaxPsn) return "a PSN has 24 bits";
  const auto& recovery = m.loss_recovery;
  if (recovery != "gbn" && recovery != "nic_sr" && recovery != "irn") return "loss_recovery is gbn, nic_sr or irn";
  return "";
}

policy::MemoryDemand memory_demand(const GroupOptions& options) {
  // It grows by as much with each message and each endpoint: three groups tell all.
  const auto bytes = [&](std::uint32_t window, std::size_t endpoints) {
    GroupConfig c;
    c.mode = options.mode;
    c.mtu = options.mtu;
    c.message_packets = options.message_packets;
    c.window = window;
    c.slots = 2 * window * options.message_packets;
    c.reproducible = options.reproducible;
    c.endpoints.resize(endpoints);
    return std::uint64_t{IncEngine::memory_bytes(c)};
  };
  const std::uint64_t with_2 = bytes(2, 2) - bytes(1, 2), with_3 = bytes(2, 3) - bytes(1, 3);
  policy::MemoryDemand d;
  d.unit_bytes_per_endpoint = with_3 - with_2;
  d.unit_bytes = with_2 - 2 * d.unit_bytes_per_endpoint;
  d.fixed_bytes = bytes(1, 2) - with_2 + kLine;
  d.units = options.window;
  d.least_units = options.least_window;
  d.message_bytes = options.message_packets * options.mtu;
  return d;
}

std::set<policy::NodeId> switches_of(const GroupRecord& record) {
  std::set<policy::NodeId> out;
  for (const auto& s : record.decision.tree.switches) out.insert(s.node);
  return out;
}

std::string to_text(const GroupRecord& r, const Topology& topology) {
  ordered_json members = ordered_json::array(), switches = ordered_json::array();
  for (const Member& m : r.members) members.push_back(member_json(m));
  for (const SwitchRecord& s : r.switches) {
    ordered_json endpoints = ordered_json::array();
    for (const EndpointRecord& e : s.endpoints) endpoints.push_back(endpoint_json(e));
    switches.push_back({{"switch", s.name}, {"endpoints", std::move(endpoints)}});
  }
  ordered_json out{{"group", r.id},
                   {"generation", r.generation},
                   {"state", to_string(r.state)},
                   {"members", std::move(members)},
                   {"options", options_json(r.options)},
                   {"tree", tree_json(r.decision, topology)},
                   {"endpoints", std::move(switches)}};
  if (!r.tenant.empty()) out["tenant"] = r.tenant;
  return out.dump();
}

std::optional<GroupRecord> from_text(const std::string& text, const Topology& topology, std::string* why) {
  try {
    return record_from(json::parse(text), topology);
  } catch (const std::exception& e) {
    if (why != nullptr) *why = e.what();
    return std::nullopt;
  }
}

std::string switch_spec(const GroupRecord& r, std::size_t at) {
  ordered_json endpoints = ordered_json::array();
  for (const EndpointRecord& e : r.switches[at].endpoints) {
    ordered_json j{
        {"address", e.address.to_string()}, {"qp", e.qp}, {"peer", e.peer.to_string()}, {"peer_qp", e.peer_qp}};
    if (e.is_rank) {
      j["rank"] = e.ranks.front();
      j["loss_recovery"] = r.members[e.ranks.front()].loss_recovery;
    } else if (e.ranks.empty()) {
      j["parent"] = true;
    } else {
      j["ranks"] = e.ranks;
    }
    j["first_rx"] = e.first_rx;
    j["first_tx"] = e.first_tx;
    endpoints.push_back(std::move(j));
  }
  const GroupOptions& o = r.options;
  ordered_json j{{"id", r.id},
                 {"mode", name(o.mode)},
                 {"ranks", r.members.size()},
                 {"mtu", o.mtu},
                 {"message_packets", o.message_packets},
                 {"window", r.decision.units},
                 {"reproducible", o.reproducible},
                 {"endpoints", std::move(endpoints)}};
  if (takes_turns(o)) j["block"] = r.decision.memory[at].block;
  if (o.mode == Mode::iii) j["slots"] = 2 * r.decision.units * o.message_packets;
  return j.dump();
}

}  // namespace weft::inc::manager
