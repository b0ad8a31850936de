// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/finish.h"

#include "switch/stages/l3/drops.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PortIndex;
using tables::NeighbourWord;
using tables::NextHop;

L3Finish::L3Finish(const L3Tables& tables, const L3Limits& limits, std::uint16_t worker)
    : tables_(tables),
      worker_(worker),
      routes_(&tables.routes.read()),
      icmp_(tables.interfaces, counters_, limits.icmp_errors_per_s),
      resolver_(tables.interfaces, tables.neighbours, counters_, limits.pending_packets) {
  for (PortIndex port = 0; port < tables.interfaces.size(); ++port) {
    by_port_.emplace_back(tables.interfaces[port], port);
  }
}

void L3Finish::refuse(Context& context, Batch& batch, std::uint16_t i, DropReason reason, IcmpError error,
                      std::uint32_t mtu_bytes) noexcept {
  icmp_.send(context, batch.packet[i], error, mtu_bytes);
  context.drop(batch, i, reason);
}

L3Finish::Found L3Finish::find(Context& context, Batch& batch, GroupedPacket* packets) noexcept {
  const std::uint32_t chosen = std::exchange(balanced_, 0);
  if (std::exchange(grouped_, 0) == 0) return {0, chosen};
  const tables::NextHops& hops = next_hops();
  std::uint32_t count = 0;
  tables::NextHopId group = tables::kUnreachable;
  std::span<const tables::NextHopId> members;
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const pipeline::PacketMeta& pm = pipeline::meta(m);
    if (pm.out_port != pipeline::kGroupPort) continue;
    if (pm.next_hop != group) [[unlikely]] {
      // A stage in between may have written something else.
      if (!hops.has_group(pm.next_hop)) [[unlikely]] {
        context.drop(batch, static_cast<std::uint16_t>(i), DropReason::no_egress);
        continue;
      }
      group = pm.next_hop;
      members = hops.members(group);
    }
    packets[count++] = {m, members.data(), static_cast<std::uint32_t>(members.size()), tables::kUnreachable,
                        static_cast<std::uint16_t>(i)};
  }
  return {count, chosen};
}

void L3Finish::forward(Context& context, Batch& batch, std::span<const GroupedPacket> packets, bool keeps) noexcept {
  const tables::NextHops& hops = next_hops();
  for (const GroupedPacket& packet : packets) {
    if (packet.choice == tables::kUnreachable) [[unlikely]] {
      context.drop(batch, packet.index, DropReason::egress_down);
      continue;
    }
    pipeline::meta(packet.packet).next_hop = packet.choice;
    if (keeps) {
      forward_one<FlowCaching::group_member>(context, batch, packet.index, hops.hop(packet.choice));
    } else {
      forward_one<FlowCaching::none>(context, batch, packet.index, hops.hop(packet.choice));
    }
  }
}

void L3Finish::forward_slow(Context& context, Batch& batch, std::uint16_t i, const NextHop& hop,
                            L3Resolver::Index neighbour) noexcept {
  rte_mbuf* m = batch.packet[i];
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (parsed.ttl <= 1) return refuse(context, batch, i, L3Drop::ttl_exceeded, IcmpError::time_exceeded);
  // weft does not fragment, so the sender is told even if it did not ask for it with the DF bit.
  if (parsed.l3_length > hop.mtu_bytes) {
    return refuse(context, batch, i, DropReason::egress_mtu, IcmpError::too_big, hop.mtu_bytes);
  }
  if (!context.link_up(hop.port)) return context.drop(batch, i, DropReason::egress_down);

  auto& table = tables_.neighbours;
  L3Resolver::Neighbour whom{neighbour, hop.port, {}};
  if (hop.attached) {
    whom.address = ip_ends(m).destination;
    if (neighbour == table.nobody()) whom.index = table.find_or_add(hop.port, whom.address, context.now);
  } else {
    whom.address = routes_->next_hops().address_of(hop);
  }
  if (whom.index == table.nobody()) {
    counters_.add(L3Counter::neighbours_full);
    return refuse(context, batch, i, L3Drop::neighbour_unresolved, IcmpError::host_unreachable);
  }
  const NeighbourWord word = table.word(whom.index);
  if (word.usable() && !resolver_.waits(whom.index)) {
    rewrite(m, hop, word);
    if (!word.settled() && table.begin_probe(whom.index, context.now)) resolver_.probe(context, whom);
    return;
  }
  if (!resolver_.hold(context, whom, m)) return context.drop(batch, i, L3Drop::neighbour_queue_full);
  batch.remove(i);
}

void L3Finish::resolve_next_hops(Context& context) noexcept {
  begin(context);
  for (const tables::NextHop& hop : routes_->next_hops().hops()) {
    if (hop.attached || !context.link_up(hop.port) || hop.neighbour == tables_.neighbours.nobody()) continue;
    if (tables_.neighbours.word(hop.neighbour).usable()) continue;
    resolver_.resolve(context, {hop.neighbour, hop.port, routes_->next_hops().address_of(hop)});
  }
}

void L3Finish::on_timer(Context& context) noexcept {
  begin(context);
  resolver_.on_timer(context, *this);
}

void L3Finish::resolved(Context& context, rte_mbuf* m, PortIndex port, NeighbourWord word) noexcept {
  rewrite(m, by_port_[port], word);
  context.resume(m);
}

void L3Finish::failed(Context& context, rte_mbuf* m) noexcept {
  icmp_.send(context, m, IcmpError::host_unreachable);
  context.drop(m, L3Drop::neighbour_unresolved);
}

}  // namespace weft::stages
