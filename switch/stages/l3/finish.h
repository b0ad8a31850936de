// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The last step of routing, which l3 and lb share: from a next hop to a packet that is ready to leave.
#pragma once

#include <cstring>
#include <utility>

#include "switch/base/rcu.h"
#include "switch/pipeline/batch.h"
#include "switch/pipeline/context.h"
#include "switch/stages/l3/counters.h"
#include "switch/stages/l3/flows.h"
#include "switch/stages/l3/icmp.h"
#include "switch/stages/l3/next_hop_choice.h"
#include "switch/stages/l3/resolver.h"
#include "switch/tables/route_table.h"
#include "switch/wire/checksum.h"

namespace weft::stages {

/// What all workers of a switch share.
struct L3Tables {
  const tables::Interfaces& interfaces;
  tables::NeighbourTable& neighbours;
  RcuDomain& domain;
  const RcuCell<tables::RouteTable>& routes;
};

struct L3Limits {
  std::size_t pending_packets;      ///< that may wait for one neighbour
  std::uint64_t icmp_errors_per_s;  ///< of one worker
};

/// Whether the decision for a packet may be cached for the next packets of its flow.
enum class FlowCaching : std::uint8_t {
  none,          ///< no: each packet is decided by itself
  next_hop,      ///< yes: the route has one next hop
  group_member,  ///< yes: `lb` chose this member for the whole flow
};

/// One per worker and switch, made by L3Shared.
///
/// A packet whose out_port is kGroupPort carries a group of routes() in PacketMeta::next_hop. That number belongs to
/// the route table of this burst, so whoever chooses among the group is adjacent to l3 (StageType::adjacent).
class L3Finish final : public L3Resolver::Sink, public NextHopChoice {
 public:
  L3Finish(const L3Tables& tables, const L3Limits& limits, std::uint16_t worker);

  /// Start of a burst or timer call of the l3 stage, which nothing of an earlier one reaches into: the newest routes
  /// are used from now on, and old ones may go.
  void begin(const pipeline::Context& context) noexcept {
    tables_.domain.quiescent(worker_);
    flows_.begin(tables_.routes.version(), tables_.neighbours.changes(), context.link_generation());
    routes_ = &tables_.routes.read();
  }
  /// The route table of this burst.
  [[nodiscard]] const tables::RouteTable& routes() const noexcept { return *routes_; }

  /// Sends packet `i` on its way to `hop`: decrements the TTL, writes the MAC addresses and sets out_port. A packet
  /// that cannot leave is taken out of the batch: dropped, with the ICMP error that is due, or held until its neighbour
  /// is resolved.
  template <FlowCaching caching>
  [[gnu::always_inline]] void forward_one(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i,
                                          const tables::NextHop& hop) noexcept {
    rte_mbuf* m = batch.packet[i];
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    const L3Resolver::Index neighbour = hop.attached ? attached(m, hop.port) : hop.neighbour;
    const tables::NeighbourWord word = tables_.neighbours.word(neighbour);
    const bool plain = word.settled() && parsed.ttl > 1 && parsed.l3_length <= hop.mtu_bytes && resolver_.idle();
    if (plain) [[likely]] {
      if (caching != FlowCaching::none) {
        flows_.remember(pipeline::meta(m), hop, word, caching == FlowCaching::group_member);
      }
      rewrite(m, hop, word);
    } else {
      forward_slow(context, batch, i, hop, neighbour);
    }
  }

  /// The flow cache; nullptr while it must not be used.
  [[nodiscard]] const L3Flows* flows(const pipeline::Context& context) const noexcept {
    return resolver_.idle() && !context.traced() ? &flows_ : nullptr;
  }
  /// A packet was given a group, for `lb` to choose from.
  void add_grouped() noexcept { ++grouped_; }
  /// Packets of groups that were forwarded from the flow cache.
  void add_balanced(std::uint32_t packets) noexcept { balanced_ += packets; }

  // NextHopChoice
  [[nodiscard]] Found find(pipeline::Context& context, pipeline::Batch& batch,
                           GroupedPacket* packets) noexcept override;
  [[nodiscard]] const tables::NextHops& next_hops() const noexcept override { return routes_->next_hops(); }
  void forward(pipeline::Context& context, pipeline::Batch& batch, std::span<const GroupedPacket> packets,
               bool keeps) noexcept override;

  /// Asks for all next hops of the routes that are not known and whose port has a link, so that they are when the first
  /// packets come: a burst is more than may wait for an answer.
  void resolve_next_hops(pipeline::Context& context) noexcept;

  /// Drops packet `i` for `reason` after an ICMP error, if one is due.
  void refuse(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, pipeline::DropReason reason,
              IcmpError error, std::uint32_t mtu_bytes = 0) noexcept;

  [[nodiscard]] L3Counters& counters() noexcept { return counters_; }
  [[nodiscard]] const L3Tables& tables() const noexcept { return tables_; }

  // Before the workers start.
  void ask_through(L3Kernel& kernel) noexcept { resolver_.ask_through(kernel, worker_); }

  // For the l3 stage.
  [[nodiscard]] TimeNs deadline() const noexcept { return resolver_.deadline(); }
  /// on_timer() is to be called now: another worker, the control thread or `lb` has left something to do.
  [[nodiscard]] bool has_mail() const noexcept {
    return tables_.domain.wanted(worker_) || resolver_.has_news() || resolver_.unarmed();
  }
  /// Sets the timer of the stage whose context this is.
  void arm(pipeline::Context& context) noexcept { context.at(resolver_.arm()); }
  [[nodiscard]] bool unarmed() const noexcept { return resolver_.unarmed(); }
  void on_timer(pipeline::Context& context) noexcept;
  [[nodiscard]] std::size_t held() const noexcept { return resolver_.held(); }
  void flush(pipeline::Context& context) noexcept { resolver_.flush(context); }
  void adopt(pipeline::Context& context, L3Finish& old, const pipeline::PortMap& ports) noexcept {
    resolver_.adopt(context, old.resolver_, ports, *this);
  }

  // L3Resolver::Sink
  void resolved(pipeline::Context& context, rte_mbuf* m, pipeline::PortIndex port,
                tables::NeighbourWord word) noexcept override;
  void failed(pipeline::Context& context, rte_mbuf* m) noexcept override;

 private:
  /// The neighbour that a packet's own destination is.
  [[nodiscard]] L3Resolver::Index attached(const rte_mbuf* m, pipeline::PortIndex port) const noexcept {
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    if (parsed.has(wire::ParsedFlag::ipv6)) return tables_.neighbours.find(port, ip_ends(m).destination);
    return tables_.neighbours.find_v4(port, static_cast<std::uint32_t>(parsed.address_key));
  }

  [[gnu::always_inline]] static void rewrite(rte_mbuf* m, const tables::NextHop& hop,
                                             tables::NeighbourWord word) noexcept {
    pipeline::PacketMeta& pm = pipeline::meta(m);
    std::uint8_t* frame = pipeline::frame(m);
    std::uint8_t* ip = frame + sizeof(wire::EthernetHeader);
    hop.write_macs(frame, word);
    if (pm.parsed.has(wire::ParsedFlag::ipv6)) {
      --wire::header_at<wire::Ipv6Header>(ip).hop_limit;
    } else {
      wire::decrement_ttl(wire::header_at<wire::Ipv4Header>(ip));
    }
    --pm.parsed.ttl;
    pm.out_port = hop.port;
  }

  void forward_slow(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, const tables::NextHop& hop,
                    L3Resolver::Index neighbour) noexcept;

  L3Tables tables_;
  std::uint16_t worker_;
  std::uint32_t balanced_ = 0;
  std::uint32_t grouped_ = 0;  ///< packets that were given a group and for which find() has not been called
  const tables::RouteTable* routes_;
  std::vector<tables::NextHop> by_port_;
  L3Counters counters_;
  L3Icmp icmp_;
  L3Resolver resolver_;
  L3Flows flows_;
};

}  // namespace weft::stages
