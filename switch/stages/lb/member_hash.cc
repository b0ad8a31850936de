// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/member_hash.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "switch/config/schema/suggest.h"
#include "switch/pipeline/find.h"
#include "switch/wire/hash.h"
#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

using config::Schema;
using config::Value;
using tables::EcmpHash;
using tables::NextHopId;

constexpr std::pair<std::string_view, std::uint8_t> kFields[] = {
    {"DST_IP", HashField::DST_IP},
    {"SRC_IP", HashField::SRC_IP},
    {"IP_PROTOCOL", HashField::IP_PROTOCOL},
    {"L4_DST_PORT", HashField::L4_DST_PORT},
    {"L4_SRC_PORT", HashField::L4_SRC_PORT},
    {"RDMA_BTH_DEST_QP", HashField::RDMA_BTH_DEST_QP},
    {"RDMA_BTH_OPCODE", HashField::RDMA_BTH_OPCODE},
};

std::uint8_t field_of(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFields), std::end(kFields), [&](const auto& f) { return f.first == name; });
  return found->second;  // the schema knows no other words
}

std::uint64_t hash_of_text(std::string_view text) noexcept {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = wire::mix64(hash ^ static_cast<unsigned char>(c), wire::detail::kMix0);
  return hash;
}

}  // namespace

MemberHash::MemberHash(const pipeline::StageBuild& build)
    : hash_(build.info.seed),
      resilient_(build.options["resilient"].boolean()),
      weight_of_port_(build.info.ports.size(), 1),
      name_of_port_(build.info.ports.size()) {
  for (const Value& name : build.options["hash_fields"].list()) fields_ |= field_of(name.string());
  const Value& weights = build.options["weights"];
  for (const pipeline::PortInfo& port : build.info.ports) {
    name_of_port_[port.index] = hash_of_text(port.name);
    if (weights.is_null() || !weights.has(port.name)) continue;
    weight_of_port_[port.index] = static_cast<std::uint32_t>(weights[port.name].unsigned_integer());
    weighted_ = weighted_ || weight_of_port_[port.index] != 1;
  }
}

std::uint32_t MemberHash::hash_of_fields(const rte_mbuf* m) const noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const auto kept = [this](std::uint8_t field, auto value) {
    return (fields_ & field) != 0 ? value : decltype(value){};
  };
  std::array<std::uint64_t, 6> key{};
  std::size_t words = 0;
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    const std::uint8_t* addresses = pipeline::frame(m) + parsed.l3_offset + offsetof(wire::Ipv6Header, source);
    for (const std::uint8_t field : {HashField::SRC_IP, HashField::SRC_IP, HashField::DST_IP, HashField::DST_IP}) {
      key[words] = kept(field, wire::detail::load_be64(addresses + 8 * words));
      ++words;
    }
  } else {
    key[words++] = kept(HashField::SRC_IP, parsed.address_key & 0xffff'ffff'0000'0000) |
                   kept(HashField::DST_IP, parsed.address_key & 0xffff'ffff);
  }
  key[words++] = EcmpHash::ports_word(kept(HashField::L4_SRC_PORT, parsed.source_port),
                                      kept(HashField::L4_DST_PORT, parsed.destination_port),
                                      kept(HashField::IP_PROTOCOL, parsed.protocol));
  // Fields of the BTH are 0 in the parse record of other packets.
  if (!same_for_flow()) {
    key[words++] = std::uint64_t{kept(HashField::RDMA_BTH_DEST_QP, parsed.dest_qp.value())} << 8 |
                   kept(HashField::RDMA_BTH_OPCODE, parsed.opcode);
  }
  return hash_.words({key.data(), words});
}

NextHopId MemberHash::weighted_member(std::span<const NextHopId> members, LinkView& links,
                                      std::uint32_t hash) const noexcept {
  std::uint32_t all = 0;
  std::uint32_t up = 0;
  for (const NextHopId member : members) {
    const std::uint32_t weight = weight_of_port_[links.port(member)];
    all += weight;
    up += links.up(member) ? weight : 0;
  }
  if (up == 0) return tables::kUnreachable;
  std::uint32_t skip = EcmpHash::member(hash, all);
  for (const NextHopId member : members) {
    const std::uint32_t weight = weight_of_port_[links.port(member)];
    if (skip >= weight) {
      skip -= weight;
      continue;
    }
    if (links.up(member)) return member;
    break;
  }
  skip = EcmpHash::member(EcmpHash::second_choice(hash, all), up);
  for (const NextHopId member : members) {
    if (!links.up(member)) continue;
    const std::uint32_t weight = weight_of_port_[links.port(member)];
    if (skip < weight) return member;
    skip -= weight;
  }
  return tables::kUnreachable;
}

NextHopId MemberHash::highest_score(std::span<const NextHopId> members, LinkView& links,
                                    std::uint32_t hash) const noexcept {
  const std::uint64_t flow = wire::mix64(hash ^ wire::detail::kMix0, wire::detail::kMix1);
  NextHopId best = tables::kUnreachable;
  double best_score = 0;
  for (const NextHopId member : members) {
    if (!links.up(member)) continue;
    const pipeline::PortIndex port = links.port(member);
    const auto& address = links.address(member).bytes();
    const std::uint64_t who = wire::mix64(wire::detail::load_be64(address.data()) ^ name_of_port_[port],
                                          wire::detail::load_be64(address.data() + 8) ^ wire::detail::kMix2);
    const double uniform = (wire::detail::spread32(flow ^ who) + 1.0) / 4294967297.0;  // inside (0, 1)
    // Of exponential variates with rates w, each is the smallest with probability w / (sum of all w).
    const double score = weighted_ ? weight_of_port_[port] / -std::log(uniform) : uniform;
    if (score <= best_score) continue;
    best = member;
    best_score = score;
  }
  return best;
}

std::vector<Schema::Key> member_hash_options() {
  using Key = Schema::Key;
  std::vector<std::string> words;
  Value::List five_tuple;
  for (const auto& [name, field] : kFields) {
    words.emplace_back(name);
    if ((field & HashField::five_tuple) != 0) five_tuple.emplace_back(std::string(name));
  }
  return {
      Key::with_default(
          "hash_fields", Schema::list(Schema::one_of(std::move(words)), 1), Value(std::move(five_tuple)),
          "What is hashed, by SONiC's names. RDMA_BTH_DEST_QP spreads queue pairs that share a UDP source "
          "port; RDMA_BTH_OPCODE breaks the order within a queue pair."),
      Key::optional_key("weights", Schema::dictionary(Schema::integer(1, 64)),
                        "Share of a port among unequal paths, by its name; 1 where none is given. For ecmp, random, "
                        "letflow and psn."),
      Key::with_default("resilient", Schema::boolean(), Value(false),
                        "A next hop that leaves a route moves only its own flows, and one that comes takes only its "
                        "share (rendezvous hashing)."),
  };
}

void check_member_hash(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  std::uint8_t seen = 0;
  for (const Value& name : options["hash_fields"].list()) {
    const std::uint8_t field = field_of(name.string());
    if ((seen & field) != 0) diagnostics.error(name.mark(), "hash_fields: " + name.string() + " stands there twice");
    seen |= field;
    if (field != HashField::RDMA_BTH_OPCODE) continue;
    diagnostics.note(name.mark(),
                     "hash_fields: RDMA_BTH_OPCODE sends the packets of one message over several paths, which breaks "
                     "the order within a queue pair");
  }
  if (!options.has("weights")) return;
  for (const auto& [name, weight] : options["weights"].map()) {
    if (pipeline::find_port(info, name) != nullptr) continue;
    diagnostics.error(weight.mark(), "weights: the switch has no port '" + name + "'" +
                                         config::suggestion(name, pipeline::port_names(info)));
  }
}

}  // namespace weft::stages
