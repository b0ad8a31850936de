// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which member of an equal-cost group a hash belongs to: fields of the hash, weights (WCMP), and members that leave
// without moving other members' flows.
//
// hash_fields has SONiC's names (its table HASH, `ecmp_hash`). Without the BTH's fields all queue pairs that share
// addresses and ports share a path. RDMA_BTH_DEST_QP keeps the packets of a queue pair together in each direction;
// RDMA_BTH_OPCODE does not, since the packets of one message have several opcodes.
//
// weights: a member gets its weight's share of the hashes. A member whose path is down or excluded stays in the group:
// only its own flows move, to the others by their weights.
//
// resilient: the same when a route loses a next hop or gets one, which changes the group itself. Every member has a
// score for the hash, made from its port's name and its router's address, and the highest one wins (rendezvous hashing:
// Thaler and Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 1998). Who leaves takes only
// its own flows along, who comes takes only its share; neither order, position nor a restart matter. It is not linear:
// Themis needs switches above (`tiers_above`) without it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/lb/policy.h"
#include "switch/tables/ecmp_hash.h"

namespace weft::stages {

/// Bits of a set of fields.
struct HashField {
  static constexpr std::uint8_t SRC_IP = 1;
  static constexpr std::uint8_t DST_IP = 2;
  static constexpr std::uint8_t IP_PROTOCOL = 4;
  static constexpr std::uint8_t L4_SRC_PORT = 8;
  static constexpr std::uint8_t L4_DST_PORT = 16;
  static constexpr std::uint8_t RDMA_BTH_DEST_QP = 32;
  static constexpr std::uint8_t RDMA_BTH_OPCODE = 64;
  static constexpr std::uint8_t five_tuple = SRC_IP | DST_IP | IP_PROTOCOL | L4_SRC_PORT | L4_DST_PORT;
};

/// What policies that hash have in common. Immutable.
class MemberHash {
 public:
  /// Options: hash_fields, weights, resilient; the seed is that of the switch.
  explicit MemberHash(const pipeline::StageBuild& build);

  /// Of the packet's fields.
  [[nodiscard]] std::uint32_t hash(const rte_mbuf* m) const noexcept {
    return fields_ == HashField::five_tuple ? flow_hash(hash_, m) : hash_of_fields(m);
  }
  /// The member that the hash belongs to; kUnreachable when no path is up.
  [[nodiscard]] tables::NextHopId member(std::span<const tables::NextHopId> members, LinkView& links,
                                         std::uint32_t hash) const noexcept {
    if (!weighted_ && !resilient_) [[likely]]
      return member_by_hash(members, links, hash);
    return resilient_ ? highest_score(members, links, hash) : weighted_member(members, links, hash);
  }

  /// member() is EcmpHash::member() as long as all paths are up.
  [[nodiscard]] bool plain() const noexcept { return !weighted_ && !resilient_; }
  /// Packets with equal addresses, protocol and ports have equal hashes.
  [[nodiscard]] bool same_for_flow() const noexcept {
    return (fields_ & (HashField::RDMA_BTH_DEST_QP | HashField::RDMA_BTH_OPCODE)) == 0;
  }
  /// 1 to 64; 1 unless an option says otherwise.
  [[nodiscard]] std::uint32_t weight(pipeline::PortIndex port) const noexcept { return weight_of_port_[port]; }
  [[nodiscard]] bool weighted() const noexcept { return weighted_; }

 private:
  [[nodiscard]] std::uint32_t hash_of_fields(const rte_mbuf* m) const noexcept;
  [[nodiscard]] tables::NextHopId weighted_member(std::span<const tables::NextHopId> members, LinkView& links,
                                                  std::uint32_t hash) const noexcept;
  [[nodiscard]] tables::NextHopId highest_score(std::span<const tables::NextHopId> members, LinkView& links,
                                                std::uint32_t hash) const noexcept;

  tables::EcmpHash hash_;
  std::uint8_t fields_ = 0;
  bool weighted_ = false;
  bool resilient_;
  std::vector<std::uint32_t> weight_of_port_;
  std::vector<std::uint64_t> name_of_port_;  ///< hashes of the names
};

/// The options hash_fields, weights and resilient.
[[nodiscard]] std::vector<config::Schema::Key> member_hash_options();
/// Mistakes in them, and notes about what may surprise.
void check_member_hash(const config::Value& options, const pipeline::SwitchInfo& info,
                       config::Diagnostics& diagnostics);

}  // namespace weft::stages
