// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The hot path of routing, and the stage type. What is rare is in receive.cc.
#include "switch/stages/l3/stage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "switch/stages/kernel_punt/drops.h"
#include "switch/stages/l3/drops.h"

namespace weft::stages {
namespace {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::Context;
using wire::ParsedFlag;

constexpr std::uint32_t kIpOffset = sizeof(wire::EthernetHeader);
/// Of eight bytes as they lie in a frame: a MAC address.
constexpr std::uint64_t kMacMask = 0xffffffffffff;
constexpr std::uint8_t kPlainV4 = kIpOffset + sizeof(wire::Ipv4Header);

std::uint64_t load64(const std::uint8_t* at) noexcept {
  std::uint64_t v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
std::uint32_t load32(const std::uint8_t* at) noexcept {
  std::uint32_t v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// The checksum of an IPv4 header of 20 bytes. One's complement sums do not depend on the byte order (RFC 1071 2B), and
// 2^64 - 1 is a multiple of 2^16 - 1: the words are added as they are, carries included. The sum is right when it is a
// multiple of 2^16 - 1. Those are the numbers whose product with its inverse modulo 2^64 is no larger than their
// quotient can be. Saves 2.6 of 15 cycles per packet (micro_pipeline; bench/results/plain_forms.json).
bool checksum_right(const std::uint8_t* ip) noexcept {
  constexpr std::uint64_t kOnes = 0xffff, kInverse = 0xfffefffefffeffff;
  static_assert(kOnes * kInverse == 1);
  std::uint64_t sum = 0;
  const bool carry = __builtin_add_overflow(load64(ip), load64(ip + 8), &sum);
  const bool again = __builtin_add_overflow(sum, std::uint64_t{load32(ip + 16)} + (carry ? 1 : 0), &sum);
  sum += again ? 1 : 0;
  return sum * kInverse <= ~std::uint64_t{0} / kOnes;
}

// First octets of IPv4 addresses that need a closer look: 0, 127, 169 (link-local), 224 to 239, 255.
class FirstOctets {
 public:
  constexpr FirstOctets() {
    for (const unsigned octet : {0u, 127u, 169u, 255u}) mark(octet);
    for (unsigned octet = 224; octet < 240; ++octet) mark(octet);
  }
  [[nodiscard]] constexpr bool special(std::uint32_t octet) const noexcept {
    return (bits_[octet / 64] >> octet % 64 & 1) != 0;
  }

 private:
  constexpr void mark(unsigned octet) { bits_[octet / 64] |= std::uint64_t{1} << octet % 64; }
  std::uint64_t bits_[4] = {};
};
constexpr FirstOctets kFirstOctets;

// An untagged IPv4 packet with a plain, right header and ordinary addresses.
[[gnu::always_inline]] inline bool is_ordinary_v4(const wire::Parsed& parsed, const std::uint8_t* frame) noexcept {
  return parsed.l4_offset == kPlainV4 && !kFirstOctets.special(static_cast<std::uint32_t>(parsed.address_key >> 56)) &&
         !kFirstOctets.special(static_cast<std::uint32_t>(parsed.address_key >> 24) & 0xff) &&
         checksum_right(frame + kIpOffset);
}

// An untagged IPv6 packet whose addresses are neither link-local or multicast (fe80::/10, ff00::/8, and with them all
// of fe00::/7) nor in ::/64, where the unspecified, the loopback and the IPv4-mapped addresses are.
[[gnu::always_inline]] inline bool is_ordinary_v6(const wire::Parsed& parsed, const std::uint8_t* frame) noexcept {
  constexpr std::uint8_t kV6 = ParsedFlag::ipv6;
  if ((parsed.flags & (kV6 | ParsedFlag::vlan_tagged)) != kV6 || parsed.l4_offset == 0) return false;
  const std::uint8_t* source = frame + kIpOffset + offsetof(wire::Ipv6Header, source);
  const std::uint8_t* destination = frame + kIpOffset + offsetof(wire::Ipv6Header, destination);
  return source[0] < 0xfe && destination[0] < 0xfe && load64(source) != 0 && load64(destination) != 0;
}

}  // namespace

L3Stage::L3Stage(const pipeline::StageBuild& build, L3Shared& shared)
    : interfaces_(shared.worker(build.worker).tables().interfaces),
      finish_(shared.worker(build.worker)),
      local_(interfaces_, finish_.tables().neighbours, finish_.counters()),
      kernel_(shared.kernel()),
      worker_(build.worker) {
  for (pipeline::PortIndex port = 0; port < interfaces_.size(); ++port) {
    own_mac_.push_back(tables::NeighbourWord(interfaces_[port].mac, tables::NeighbourState::none).mac_bytes());
  }
}

void L3Stage::work(Context& context) noexcept {
  if (kernel_ != nullptr) kernel_->send_waiting(context);
  finish_.on_timer(context);
  finish_.arm(context);
}

void L3Stage::ingress(Context& context, Batch& batch) {
  finish_.begin(context);
  LookupV4 v4;
  LookupV6 v6;
  std::uint64_t rare = 0;
  for (std::uint64_t left = follow_flows(context, batch); left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint16_t>(std::countr_zero(left));
    const pipeline::PacketMeta& pm = pipeline::meta(batch.packet[i]);
    const std::uint8_t* frame = pipeline::frame(batch.packet[i]);
    // Packets that a stage of the switch made have no link-layer destination yet.
    const bool to_router = pm.in_port >= own_mac_.size() || (load64(frame) ^ own_mac_[pm.in_port]) << 16 == 0;
    if (to_router && is_ordinary_v4(pm.parsed, frame)) [[likely]] {
      v4.index[v4.size] = i;
      v4.address[v4.size++] = static_cast<std::uint32_t>(pm.parsed.address_key);
    } else if (to_router && is_ordinary_v6(pm.parsed, frame)) {
      v6.index[v6.size] = i;
      std::memcpy(&v6.address[v6.size++], frame + kIpOffset + offsetof(wire::Ipv6Header, destination), 16);
    } else {
      rare |= std::uint64_t{1} << i;
    }
  }
  if (v4.size != 0) route(context, batch, v4);
  if (v6.size != 0) route(context, batch, v6);
  for (; rare != 0; rare &= rare - 1) receive(context, batch, static_cast<std::uint16_t>(std::countr_zero(rare)));
  if (finish_.unarmed()) [[unlikely]]
    finish_.arm(context);
}

// Forwards packets whose flow is cached. Bit i of the result: packet i still has to be looked up.
std::uint64_t L3Stage::follow_flows(const Context& context, const Batch& batch) noexcept {
  const L3Flows* const flows = finish_.flows(context);
  if (flows == nullptr) [[unlikely]]
    return batch.all();
  const std::uint32_t size = batch.size;
  std::array<std::uint32_t, Batch::kCapacity> slots;
  for (std::uint32_t i = 0; i < size; ++i) slots[i] = flows->slot(pipeline::meta(batch.packet[i]).qp_handle);
  std::uint32_t from = 1u << 16;  // no port
  std::uint64_t own_mac = 0, mac_mask = 0;
  std::uint64_t left = 0;
  std::uint32_t balanced = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const pipeline::PacketMeta& pm = pipeline::meta(m);
    const std::uint8_t* frame = pipeline::frame(m);
    if (pm.in_port != from) [[unlikely]] {
      from = pm.in_port;
      const bool outside = from < own_mac_.size();
      // Packets that a stage of the switch made have no link-layer destination yet.
      own_mac = outside ? own_mac_[from] : 0;
      mac_mask = outside ? kMacMask : 0;
    }
    const L3Adjacency* adjacency = flows->find(slots[i], pm.parsed);
    if (adjacency == nullptr || ((load64(frame) ^ own_mac) & mac_mask) != 0 || pm.parsed.l4_offset != kPlainV4 ||
        pm.parsed.ttl <= 1 || pm.parsed.l3_length > adjacency->max_bytes || !checksum_right(frame + kIpOffset))
        [[unlikely]] {
      left |= std::uint64_t{1} << i;
      continue;
    }
    balanced += adjacency->balanced;
    L3Flows::forward(m, *adjacency);
  }
  finish_.add_balanced(balanced);
  return left;
}

template <typename Address>
void L3Stage::route(Context& context, Batch& batch, Lookup<Address>& lookup) noexcept {
  finish_.routes().fib().lookup(std::span<const Address>(lookup.address, lookup.size), lookup.next_hop);
  for (std::uint16_t k = 0; k < lookup.size; ++k) dispatch(context, batch, lookup.index[k], lookup.next_hop[k]);
}

void L3Stage::dispatch(Context& context, Batch& batch, std::uint16_t i, tables::NextHopId id) noexcept {
  if (tables::NextHops::is_group(id)) {
    pipeline::PacketMeta& pm = pipeline::meta(batch.packet[i]);
    pm.out_port = pipeline::kGroupPort;
    pm.next_hop = id;
    finish_.add_grouped();
  } else if (tables::NextHops::is_hop(id)) [[likely]] {
    pipeline::meta(batch.packet[i]).next_hop = id;
    finish_.forward_one<FlowCaching::next_hop>(context, batch, i, finish_.routes().next_hops().hop(id));
  } else {
    dispatch_special(context, batch, i, id);
  }
}

void L3Stage::route_one(Context& context, Batch& batch, std::uint16_t i, const wire::IpAddress& destination) noexcept {
  tables::NextHopId id;
  const auto& fib = finish_.routes().fib();
  if (destination.is_v6()) {
    fib.lookup(std::span(&destination.bytes(), 1), {&id, 1});
  } else {
    const std::uint32_t address = destination.v4_value();
    fib.lookup(std::span(&address, 1), {&id, 1});
  }
  dispatch(context, batch, i, id);
}

namespace {

Schema l3_options() {
  using Key = Schema::Key;
  return Schema::map({
      Key::with_default("neighbour_reachable_s", Schema::integer(1, 86'400), Value(30),
                        "Seconds after an answer until a neighbour is asked again when it is next used."),
      Key::with_default("pending_packets", Schema::integer(0, 1024), Value(16),
                        "Packets that may wait for one neighbour's address, per worker."),
      Key::with_default("icmp_errors_per_s", Schema::integer(0, 1'000'000), Value(1000),
                        "ICMP errors a second, a twentieth of them at once; 0 sends none."),
      Key::with_default("large_table_routes", Schema::integer(0, 1 << 24), Value(1024),
                        "An address family with more routes than this gets a table of 64 MiB."),
      Key::with_default("max_neighbours", Schema::integer(1, 1 << 20), Value(4096),
                        "Neighbours that the table is meant to hold."),
  });
}

void check_l3(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  std::size_t hops = 0;
  for (const auto& route : info.routes) hops += route.via.size();
  const Value& room = options["max_neighbours"];
  if (info.neighbours.size() + hops > room.unsigned_integer()) {
    diagnostics.error(room.mark(), "max_neighbours: " + std::to_string(room.unsigned_integer()) + " is less than the " +
                                       std::to_string(info.neighbours.size()) + " static neighbours and " +
                                       std::to_string(hops) + " next hops of the configuration");
  }
}

// weftctl l3 route address=10.0.0.1: which route takes the address.
pipeline::StageCommand route_command() {
  pipeline::StageCommand command{.verb = "route",
                                 .summary = "Says which route takes an address, and where it leads.",
                                 .arguments = config::Schema::map({config::Schema::Key::required_key(
                                     "address", config::Schema::ip(), "IPv4 or IPv6 address of a destination.")}),
                                 .run = {}};
  command.run = [](pipeline::StageAccess& stage, const config::Value& arguments, std::string& error) {
    const auto address = wire::IpAddress::parse(arguments["address"].string());
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    const bool there = stage.with_shared(
        [&](pipeline::StageShared& shared) { rows.push_back(dynamic_cast<L3Shared&>(shared).route_of(*address)); });
    if (!there) error = "a reload has replaced the router meanwhile; ask again";
    return rows;
  };
  return command;
}

}  // namespace

pipeline::StageType l3_stage_type() {
  pipeline::StageType type;
  type.name = "l3";
  type.summary = "IPv4 and IPv6 routing with ARP, neighbour discovery and ICMP.";
  type.needs = {"parsed"};
  type.provides = {"forward", "group"};
  type.options = l3_options();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/l3/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {L3Drop::block(), KernelDrop::block()};
  type.check = check_l3;
  type.commands = {route_command()};
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<L3Shared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<L3Stage>(build, dynamic_cast<L3Shared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
