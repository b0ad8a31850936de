// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `psn`: Themis-S, the half of Themis at the sender's ToR (Liu et al., APNET 2025, 3.2).
//
// the paper          here
// N                  members of the group whose paths are up, each as often as its weight says
// P_base             what `ecmp` would choose among those N, by the hash of the flow
// Path_i             (PSN mod N + P_base) mod N, an index into those N in the order of the configuration
//
// With tiers above (`tiers_above`) N is that number times the paths M above each uplink. The uplink is chosen here, by
// PSN mod N modulo the number of uplinks; the quotient says by how much the choice of the switches above changes: the
// source port is changed by PathMap::delta() of it, and ICRC and UDP checksum with it. Packets of equal PSN mod N have
// equal paths, and the N paths are all there are.
//
// Only requests of RC queue pairs that the switch knows of (`accept`) are sprayed by PSN: they are what the receiver's
// ToR can judge. A READ request goes by its PSN as every other request does. READ and ATOMIC responses carry PSNs of
// the other direction and have no NACK to be judged; these, CNPs and all other packets go as with `ecmp`.
//
// ACKs of all queue pairs take the paths in turn (`spray_acks`). With one ACK per packet they are a twentieth of the
// load. If all ACKs of a flow took one path, that path would be overloaded as soon as the data fills all paths evenly.
// Order means nothing to them: an ACK says what all earlier ones said, and a requester drops one that a later one has
// overtaken. Three exceptions go as with `ecmp`. NAKs: one that is lost costs a timeout, so that those of a queue pair
// better share their luck; there are few. ACKs of queue pairs that have had READ or ATOMIC responses: an ACK in front
// of such a response would mean that it is lost. ACKs of queue pairs that are not known.
//
// Requests to a receiver that keeps no early packets go as with `ecmp` too. The receiver's ToR finds such receivers and
// marks their responses; nack_filter reads the mark here, at the sender's ToR, and tells rdma_track.
//
// When a port goes down or is excluded, or a route loses a next hop, N shrinks and the other paths share the packets at
// once; it grows back the same way. The receiver's ToR sees by the arrival of packets that the mapping has changed
// (nack_filter). With one member left this is ecmp.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "switch/pipeline/edit_roce.h"
#include "switch/stages/lb/member_hash.h"
#include "switch/stages/lb/path_map.h"
#include "switch/stages/lb/policy.h"
#include "switch/stages/lb/psn_paths.h"
#include "switch/stages/rdma_track/known.h"
#include "switch/tables/qp_entry.h"
#include "switch/wire/ib.h"
#include "switch/wire/icrc.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/ip.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/roce_editor.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using tables::EcmpHash;
using tables::NextHopId;

constexpr std::uint32_t kMaxSlots = 256;

class PsnPolicy : public LbPolicy {
 public:
  explicit PsnPolicy(const pipeline::StageBuild& build)
      : hash_(build),
        known_(build),
        above_(path_map_of(build.options)),
        icrc_mode_(build.info.icrc == pipeline::IcrcUpdate::full ? wire::IcrcMode::full : wire::IcrcMode::incremental),
        icrc_changes_(above_ ? above_->paths() * kLengths : 0),
        spray_acks_(build.options["spray_acks"].boolean()) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }
  void adopt(LbPolicy& old, const pipeline::PortMap& /*ports*/) noexcept override {
    if (const auto* before = dynamic_cast<const PsnPolicy*>(&old)) next_ack_ = before->next_ack_;
  }

  void choose(Context& /*context*/, LinkView& links, std::span<LbItem> items) noexcept override {
    if (above_) prefetch_ends(items);
    const bool plain = !hash_.weighted() && links.all_up();
    group_ = nullptr;
    for (LbItem& item : items) {
      const std::uint32_t hash = hash_.hash(item.packet);
      const pipeline::PacketMeta& pm = pipeline::meta(item.packet);
      const bool request = kRcRequests[pm.parsed.opcode];
      if (request ? !is_sprayed(pm) : !spray_acks_ || !is_free_ack(pm)) {
        item.choice = hash_.member(item.members(), links, hash);
        continue;
      }
      if (item.first_member != group_) prepare(item, links, plain);
      const std::uint32_t base = request ? EcmpHash::member(hash, paths_.value()) : 0;
      std::uint32_t turn = request ? pm.parsed.psn.value() : next_ack_++;
      if (above_ && count_ != 0) {
        const std::uint32_t path = all_paths_.remainder(turn);
        turn = paths_.remainder(path);
        move(item.packet, paths_.quotient(path));
      }
      item.choice = count_ == 0 ? tables::kUnreachable : slots_[paths_.remainder(turn + base)];
    }
  }

  void explain(Context&, LinkView&, const LbItem& item, pipeline::PathReason& reason) noexcept override {
    const pipeline::PacketMeta& pm = pipeline::meta(item.packet);
    const bool request = kRcRequests[pm.parsed.opcode];
    if (request ? is_sprayed(pm) : spray_acks_ && is_free_ack(pm)) {
      reason.rule = request ? "PSN" : "ACKs in turn";
    } else {
      reason.rule = kByHash;
    }
  }

 private:
  // A request of a known queue pair whose receiver is not known to drop early packets.
  [[nodiscard]] bool is_sprayed(const pipeline::PacketMeta& pm) const noexcept {
    const tables::QpEntry* entry = known_.entry(pm);
    return entry != nullptr && !entry->in_order();
  }
  // An ACK of a known queue pair without READ or ATOMIC responses, which an ACK must not overtake. rdma_track notes
  // them (ResponseFlag::synced), so that they are known also after a change of policy.
  [[nodiscard]] bool is_free_ack(const pipeline::PacketMeta& pm) const noexcept {
    if (pm.parsed.opcode != static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)) return false;
    const tables::QpEntry* entry = known_.entry(pm);
    return entry != nullptr && !entry->response.has(tables::ResponseFlag::synced) &&
           wire::Syndrome(pm.parsed.syndrome).is_ack();
  }
  void prepare(const LbItem& item, LinkView& links, bool plain) noexcept {
    group_ = item.first_member;
    if (plain) {
      slots_ = item.first_member;
      count_ = item.member_count;
    } else {
      expand(item, links);
    }
    if (paths_.value() == count_) return;
    paths_ = PathCount(std::max(count_, 1u));
    if (above_) all_paths_ = PathCount(paths_.value() * above_->paths());
  }
  // Where the ICRCs are, which nothing has touched so far.
  static void prefetch_ends(std::span<const LbItem> items) noexcept {
    for (const LbItem& item : items) __builtin_prefetch(pipeline::frame(item.packet) + item.packet->data_len - 1, 1);
  }
  // Changes the source port, and with it the way that the switches above choose.
  void move(rte_mbuf* m, std::uint32_t way) noexcept {
    const std::uint16_t delta = above_->delta(way);
    if (delta == 0) return;
    wire::Parsed& parsed = pipeline::meta(m).parsed;
    std::uint8_t* frame = pipeline::frame(m);
    auto& udp = wire::header_at<wire::UdpHeader>(frame + parsed.l4_offset);
    const bool plain = m->data_len == m->pkt_len && !pipeline::shares_bytes(m) && udp.checksum.value() == 0;
    if (!plain || icrc_mode_ == wire::IcrcMode::full) [[unlikely]]
      return move_any(m, delta);
    parsed.source_port ^= delta;
    udp.source_port.set(parsed.source_port);
    std::uint8_t* icrc = frame + wire::roce_layout(frame, parsed).icrc;
    wire::store_icrc(icrc, wire::load_icrc(icrc) ^ icrc_change(way, udp.length.value()));
  }
  // CRCs are linear: how a changed field changes the ICRC depends only on its distance from the end of the packet. Most
  // packets have one of a few lengths, so the differences are cached by length.
  std::uint32_t icrc_change(std::uint32_t way, std::uint16_t udp_length) noexcept {
    IcrcChange& known = icrc_changes_[way * kLengths + udp_length / 4 % kLengths];
    if (known.udp_length != udp_length) {
      constexpr std::uint32_t kBehind = sizeof(wire::be32) + wire::kIcrcBytes;
      const wire::FieldEdit edit{wire::byte_swap(std::uint32_t{above_->delta(way)} << 16), udp_length - kBehind};
      known = {udp_length, wire::icrc_update(0, {&edit, 1})};
    }
    return known.change;
  }
  // Without a buffer for a copy of the shared bytes the packet keeps its source port, and so its usual path above: it
  // is still correct, and the receiver's ToR sees it as a packet whose path has changed.
  void move_any(rte_mbuf* m, std::uint16_t delta) const noexcept {
    const std::uint16_t port = pipeline::meta(m).parsed.source_port ^ delta;
    (void)pipeline::edit_roce(m, icrc_mode_, [port](wire::RoceEditor& editor) { editor.set_source_port(port); });
  }
  void expand(const LbItem& item, LinkView& links) noexcept {
    slots_ = expanded_.data();
    count_ = 0;
    for (const NextHopId member : item.members()) {
      if (!links.up(member)) continue;
      for (std::uint32_t i = hash_.weight(links.port(member)); i > 0 && count_ < kMaxSlots; --i) {
        expanded_[count_++] = member;
      }
    }
  }

  MemberHash hash_;
  KnownPairs known_;
  std::optional<PathMap> above_;
  wire::IcrcMode icrc_mode_;
  static constexpr std::uint32_t kLengths = 32;
  struct IcrcChange {
    std::uint32_t udp_length = 0;  ///< 0: of no length yet
    std::uint32_t change = 0;
  };
  std::vector<IcrcChange> icrc_changes_;  ///< kLengths of each way above an uplink
  bool spray_acks_;
  std::uint32_t next_ack_ = 0;
  // Of the group at hand.
  const NextHopId* group_ = nullptr;
  const NextHopId* slots_ = nullptr;
  std::uint32_t count_ = 0;
  PathCount paths_{1};
  PathCount all_paths_{1};
  std::array<NextHopId, kMaxSlots> expanded_{};
};

}  // namespace

std::optional<PathMap> path_map_of(const config::Value& options) {
  if (!options.has("tiers_above")) return std::nullopt;
  std::vector<HashTier> tiers;
  for (const config::Value& tier : options["tiers_above"].list()) {
    tiers.push_back(
        ecmp_tier(tier["seed"].unsigned_integer(), static_cast<std::uint32_t>(tier["members"].unsigned_integer())));
  }
  return PathMap::build(tiers);
}

std::unique_ptr<LbPolicy> make_psn_policy(const pipeline::StageBuild& build) {
  return std::make_unique<PsnPolicy>(build);
}

}  // namespace weft::stages
