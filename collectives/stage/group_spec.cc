// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/group_spec.h"

#include <algorithm>

#include "collectives/engine/inc_engine.h"
#include "switch/pipeline/find.h"

namespace weft::inc {
namespace {

using config::Schema;
using config::Value;
using wire::IpAddress;

/// UDP ports that RoCE senders use as entropy for ECMP (IBTA annex A17 leaves them free; RNICs begin here).
constexpr std::uint16_t kFirstPort = 0xc000;

Schema endpoint_schema() {
  using Key = Schema::Key;
  const Schema qpn = Schema::integer(2, 0xffffff), psn = Schema::integer(0, wire::Psn::kMask);
  const Schema rank = Schema::integer(0, kMaxRanks - 1);
  return Schema::map({
      Key::required_key("address", Schema::ip(), "IP address of this end, on the switch."),
      Key::required_key("qp", qpn, "QP number of this end."),
      Key::required_key("peer", Schema::ip(), "IP address of the other end: a rank's host or another switch."),
      Key::required_key("peer_qp", qpn, "QP number of the other end."),
      Key::optional_key("rank", rank, "The rank at the other end."),
      Key::optional_key("ranks", Schema::list(rank, 1), "The other end is a switch with these ranks below it."),
      Key::with_default(
          "parent", Schema::boolean(), Value(false),
          "The other end is the switch towards the root; all ranks that no endpoint names are behind it."),
      Key::with_default("first_rx", psn, Value(0), "PSN of the first packet that comes in."),
      Key::with_default("first_tx", psn, Value(0), "PSN of the first packet that goes out."),
      Key::with_default("loss_recovery", Schema::one_of({"gbn", "nic_sr", "irn"}), Value("gbn"),
                        "How the RNIC at the other end repairs losses."),
      Key::with_default("vaddr", Schema::integer(0, INT64_MAX), Value(0),
                        "Address of the memory where the other end takes RDMA WRITEs."),
      Key::with_default("rkey", Schema::integer(0, UINT32_MAX), Value(0), "Key of that memory."),
      Key::optional_key("source_port", Schema::integer(1, UINT16_MAX),
                        "UDP source port of packets that go out; default: one by the QP number."),
  });
}

nic::LossRecovery loss_recovery(const std::string& word) {
  if (word == "irn") return nic::LossRecovery::irn;
  return word == "nic_sr" ? nic::LossRecovery::nic_sr : nic::LossRecovery::gbn;
}

EndpointConfig read_endpoint(const Value& v) {
  EndpointConfig e;
  if (v.has("rank")) e.rank = static_cast<std::uint16_t>(v["rank"].integer());
  e.first_rx = wire::Psn(static_cast<std::uint32_t>(v["first_rx"].integer()));
  e.first_tx = wire::Psn(static_cast<std::uint32_t>(v["first_tx"].integer()));
  e.loss_recovery = loss_recovery(v["loss_recovery"].string());
  e.address = v["vaddr"].unsigned_integer();
  e.rkey = static_cast<std::uint32_t>(v["rkey"].integer());
  return e;
}

EdgeSpec read_edge(const Value& v) {
  EdgeSpec e;
  e.address = *IpAddress::parse(v["address"].string());
  e.peer = *IpAddress::parse(v["peer"].string());
  e.qp = wire::Qpn(static_cast<std::uint32_t>(v["qp"].integer()));
  e.peer_qp = wire::Qpn(static_cast<std::uint32_t>(v["peer_qp"].integer()));
  e.source_port = static_cast<std::uint16_t>(v.has("source_port") ? v["source_port"].unsigned_integer()
                                                                  : kFirstPort | (e.qp.value() & 0x3fff));
  return e;
}

/// Puts a rank behind an endpoint.
std::optional<std::string> place(std::int64_t rank, EndpointIndex e, std::vector<EndpointIndex>& way) {
  if (static_cast<std::size_t>(rank) >= way.size()) {
    return "rank " + std::to_string(rank) + " is none of " + std::to_string(way.size());
  }
  EndpointIndex& at = way[static_cast<std::size_t>(rank)];
  if (at != kMaxEndpoints) return "rank " + std::to_string(rank) + " is behind two endpoints";
  at = e;
  return std::nullopt;
}

std::optional<std::string> place_ranks(const Value& v, EndpointIndex e, GroupConfig& config) {
  const bool parent = v["parent"].boolean();
  if (v.has("rank") + v.has("ranks") + (parent ? 1 : 0) != 1) {
    return "endpoint " + std::to_string(e) + " has one of rank, ranks and parent";
  }
  if (parent && config.parent) return "two endpoints are the parent";
  if (parent) config.parent = e;
  if (v.has("rank")) return place(v["rank"].integer(), e, config.way);
  for (const Value& rank : v["ranks"].list_or_empty()) {
    if (auto error = place(rank.integer(), e, config.way)) return error;
  }
  return std::nullopt;
}

std::optional<std::string> check_edge(const EdgeSpec& e) {
  if (e.address.is_v6() != e.peer.is_v6()) return "address and peer are of one family";
  if (e.address == e.peer) return "address and peer are not the same";
  if (e.address.is_multicast() || e.peer.is_multicast() || e.address.is_unspecified() || e.peer.is_unspecified()) {
    return "address and peer are unicast addresses";
  }
  return std::nullopt;
}

/// Bytes of an IP packet beside its payload: headers up to RETH and immediate, pad, and ICRC.
std::uint32_t overhead_bytes(bool v6) noexcept {
  return (v6 ? 40u : 20u) + 8 + 12 + 16 + 4 + 4;
}

std::optional<std::string> check_mtu(const GroupSpec& spec, const pipeline::SwitchInfo& info) {
  std::uint32_t largest = 0;
  for (const pipeline::PortInfo& port : info.ports) {
    if (port.mtu_bytes == 0) return std::nullopt;  // the device's own, which is not known yet
    largest = std::max(largest, port.mtu_bytes);
  }
  const std::uint32_t needed = spec.config.mtu + overhead_bytes(spec.edges[0].address.is_v6());
  if (needed <= largest) return std::nullopt;
  return "mtu " + std::to_string(spec.config.mtu) + " makes IP packets of up to " + std::to_string(needed) +
         " bytes, and no port takes more than " + std::to_string(largest);
}

bool same_flow(const EdgeSpec& a, const EdgeSpec& b) {
  return a.address == b.address && a.qp == b.qp && a.peer == b.peer;
}

}  // namespace

bool Offer::has(Mode mode) const noexcept {
  return modes.empty() || std::find(modes.begin(), modes.end(), mode) != modes.end();
}

std::optional<std::string> Offer::refusal(const GroupSpec& group) const {
  if (!has(group.config.mode)) {
    std::string all;
    for (const Mode mode : modes) all += (all.empty() ? "" : ", ") + std::string(name(mode));
    return "mode " + std::string(name(group.config.mode)) + " is not offered here; `modes` are " + all;
  }
  const std::size_t children = group.config.endpoints.size() - (group.config.parent ? 1 : 0);
  if (!fan_in || children <= *fan_in) return std::nullopt;
  return std::to_string(children) + " children, and `fan_in` is " + std::to_string(*fan_in);
}

Offer read_offer(const config::Value& options) {
  Offer out;
  for (const config::Value& value : options["modes"].list_or_empty()) {
    for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
      if (value.string() == name(mode)) out.modes.push_back(mode);
    }
  }
  if (options.has("fan_in")) out.fan_in = static_cast<std::uint32_t>(options["fan_in"].unsigned_integer());
  return out;
}

bool is_routed(const pipeline::SwitchInfo& info) {
  return pipeline::find_stage(info, "l3") != nullptr;
}

Schema group_schema() {
  using Key = Schema::Key;
  const Schema dscp = Schema::integer(0, 63);
  return Schema::map({
      Key::required_key("id", Schema::integer(1, UINT32_MAX), "Number of the group, as ranks say it."),
      Key::with_default("mode", Schema::one_of({"i", "ii", "iii"}), Value("ii"),
                        "How the switch takes part in the connections: i, they end here, and whole messages are added "
                        "up; ii, they are translated and hosts repair; iii, every hop answers and repairs."),
      Key::required_key("ranks", Schema::integer(2, kMaxRanks), "Ranks of the group, on all switches."),
      Key::with_default("mtu", Schema::integer(256, 4096), Value(1024), "Payload of a full packet in bytes."),
      Key::with_default("message_packets", Schema::integer(1, 1u << 16), Value(4), "Packets of a full message."),
      Key::with_default("window", Schema::integer(1, 1u << 16), Value(4), "Messages that a rank has under way."),
      Key::optional_key("slots", Schema::integer(2, 1u << 20),
                        "Mode iii: packets that a pipe holds; default: twice the window."),
      Key::with_default(
          "timeout", Schema::integer(0, 31), Value(10),
          "Modes i and iii: packets are sent again after 4.096 us * 2^timeout without an answer; 10: 4.2 ms."),
      Key::with_default("adaptive_timeouts", Schema::boolean(), Value(true),
                        "Modes i and iii: a rank whose round trips take longer than the timeout is given that long, up "
                        "to 128 times the timeout; only from there on retries count."),
      Key::with_default(
          "retries", Schema::integer(0, 7), Value(7),
          "Modes i and iii: times in a row without an answer, each after twice the time, before the group fails."),
      Key::with_default("acks", Schema::one_of({"room", "arrival"}), Value("room"),
                        "Mode iii: room, ACKs are held back while their sender would run ahead of the pipe; arrival, "
                        "they are sent at once, as in EPIC's algorithm 2."),
      Key::with_default("early_cnp", Schema::boolean(), Value(true),
                        "Mode iii: ranks that run ahead of the others get CNPs."),
      Key::optional_key("invocations", Schema::integer(2, kMaxInvocations),
                        "Collectives that may be under way; default: as many as the mode needs."),
      Key::with_default("overflow", Schema::one_of({"wrap", "saturate"}), Value("wrap"),
                        "What integer SUM and PROD do beyond their range."),
      Key::with_default("reproducible", Schema::boolean(), Value(false),
                        "Sums are the same to the last bit whatever the order of arrival, by a buffer per child."),
      Key::with_default("duplicates", Schema::one_of({"cache", "reforward"}), Value("cache"),
                        "A packet that comes again gets its result, or is forwarded again as EPIC's algorithm 1 does."),
      Key::with_default("epsn_filter", Schema::boolean(), Value(false),
                        "Drops packets out of order of go-back-N ranks (EPIC appendices C and D)."),
      Key::with_default("rnr_timer", Schema::integer(0, 31), Value(12),
                        "Code of the time that RNR NAKs ask for (IBTA 9.7.5.2.8); 12: 0.64 ms."),
      Key::with_default("rnr_acks", Schema::boolean(), Value(true),
                        "An ACK follows each RNR NAK to a rank: Linux's rdma_rxe goes on waiting for that only."),
      Key::optional_key("block", Schema::integer(0, UINT32_MAX),
                        "Mode ii: number of the memory that it has in turns with all groups of the switch that name "
                        "the same one. Its ranks ask before each collective; without, memory of its own."),
      Key::with_default("dscp", dscp, Value(26), "DSCP of packets that go out."),
      Key::optional_key("ack_dscp", dscp, "DSCP of ACKs and NAKs; absent: as of other packets."),
      Key::with_default("cnp_dscp", dscp, Value(48), "DSCP of CNPs."),
      Key::required_key("endpoints", Schema::list(endpoint_schema(), 2), "The edges of the tree at this switch."),
  });
}

std::optional<std::string> read_group(const Value& v, const pipeline::SwitchInfo& info, GroupSpec& out) {
  GroupConfig& c = out.config;
  out.mark = v.mark();
  c.id = static_cast<std::uint32_t>(v["id"].integer());
  c.mtu = static_cast<std::uint32_t>(v["mtu"].integer());
  c.message_packets = static_cast<std::uint32_t>(v["message_packets"].integer());
  c.window = static_cast<std::uint32_t>(v["window"].integer());
  c.mode = v["mode"].string() == "iii" ? Mode::iii : v["mode"].string() == "i" ? Mode::i : Mode::ii;
  if (v.has("slots") && c.mode != Mode::iii) return "slots are for mode iii: other modes go by the window";
  const std::uint64_t slots =
      v.has("slots") ? v["slots"].unsigned_integer() : 2 * std::uint64_t{c.window} * c.message_packets;
  if (slots > UINT32_MAX) return "window and message_packets ask for " + std::to_string(slots) + " slots";
  c.slots = static_cast<std::uint32_t>(slots);
  c.invocations = v.has("invocations") ? static_cast<std::uint32_t>(v["invocations"].integer())
                                       : std::clamp(c.slots + 2, 64u, kMaxInvocations);
  c.overflow = v["overflow"].string() == "saturate" ? Overflow::saturate : Overflow::wrap;
  c.reproducible = v["reproducible"].boolean();
  c.duplicates = v["duplicates"].string() == "cache" ? Duplicates::cache : Duplicates::reforward;
  c.epsn_filter = v["epsn_filter"].boolean();
  c.rnr_timer = static_cast<std::uint8_t>(v["rnr_timer"].integer());
  c.rnr_acks = v["rnr_acks"].boolean();
  c.timeout = static_cast<std::uint8_t>(v["timeout"].integer());
  c.adaptive_timeouts = v["adaptive_timeouts"].boolean();
  c.retries = static_cast<std::uint8_t>(v["retries"].integer());
  c.acks = v["acks"].string() == "arrival" ? Acks::arrival : Acks::room;
  c.early_cnp = v["early_cnp"].boolean();
  if (v.has("block")) out.block = static_cast<std::uint32_t>(v["block"].unsigned_integer());
  if (out.block && c.mode != Mode::ii) return "a block is for mode ii: groups of other modes have memory of their own";
  out.dscp = static_cast<std::uint8_t>(v["dscp"].integer());
  out.ack_dscp = v.has("ack_dscp") ? static_cast<std::uint8_t>(v["ack_dscp"].integer()) : out.dscp;
  out.cnp_dscp = static_cast<std::uint8_t>(v["cnp_dscp"].integer());
  c.way.assign(v["ranks"].unsigned_integer(), EndpointIndex{kMaxEndpoints});
  for (const Value& endpoint : v["endpoints"].list()) {
    if (c.endpoints.size() == kMaxEndpoints) return "a group has 64 children and a parent at most";
    const auto e = static_cast<EndpointIndex>(c.endpoints.size());
    c.endpoints.push_back(read_endpoint(endpoint));
    out.edges.push_back(read_edge(endpoint));
    auto error = place_ranks(endpoint, e, c);
    if (!error) error = check_edge(out.edges.back());
    if (error) return "endpoint " + std::to_string(e) + ": " + *error;
    if (out.edges.back().address.is_v6() != out.edges.front().address.is_v6()) {
      return "all endpoints are of one address family";
    }
    for (EndpointIndex other = 0; other < e; ++other) {
      if (!same_flow(out.edges[other], out.edges[e])) continue;
      return "endpoints " + std::to_string(other) + " and " + std::to_string(e) + " have the same address, qp and peer";
    }
  }
  if (c.parent) std::replace(c.way.begin(), c.way.end(), EndpointIndex{kMaxEndpoints}, *c.parent);
  if (auto error = IncEngine::check(c)) return error;
  return check_mtu(out, info);
}

std::optional<std::string> conflict(const GroupSpec& a, const GroupSpec& b) {
  if (a.config.id == b.config.id) return "there is a group " + std::to_string(a.config.id) + " already";
  for (const EdgeSpec& one : a.edges) {
    for (const EdgeSpec& other : b.edges) {
      if (!same_flow(one, other)) continue;
      return "group " + std::to_string(b.config.id) + " has the endpoint " + one.address.to_string() + " qp " +
             std::to_string(one.qp.value()) + " with the peer " + one.peer.to_string() + " already";
    }
  }
  return std::nullopt;
}

}  // namespace weft::inc
