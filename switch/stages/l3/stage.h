// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// IPv4 and IPv6 routing: header checks, longest prefix match, next hops, ARP and neighbour discovery, ICMP.
//
// Every port is a routed port: frames to its own MAC address are routed, all others are none of its business. Of tagged
// frames only priority tags (VID 0) are accepted; the tag is taken off.
#pragma once

#include "switch/pipeline/stage.h"
#include "switch/stages/kernel_punt/kernel_punt.h"
#include "switch/stages/l3/local.h"
#include "switch/stages/l3/shared.h"

namespace weft::stages {

class L3Stage : public pipeline::Stage {
 public:
  L3Stage(const pipeline::StageBuild& build, L3Shared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return finish_.deadline(); }
  void on_timer(pipeline::Context& context, std::uint32_t) override { work(context); }
  [[nodiscard]] bool takes_mail() const override { return true; }
  [[nodiscard]] bool has_mail() const override {
    return (kernel_ != nullptr && kernel_->waiting(worker_)) || finish_.has_mail();
  }
  void on_mail(pipeline::Context& context) override { work(context); }
  void on_links(pipeline::Context& context) override {
    if (worker_ == 0) finish_.resolve_next_hops(context);
  }
  [[nodiscard]] std::size_t held() const override { return finish_.held(); }
  void flush(pipeline::Context& context) override { finish_.flush(context); }
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override {
    finish_.adopt(context, dynamic_cast<L3Stage&>(old).finish_, adoption.ports);
  }
  [[nodiscard]] std::span<const Counter> counters() const override { return finish_.counters().all(); }

 private:
  /// Packets of one address family on their way through the lookup.
  template <typename Address>
  struct Lookup {
    std::uint16_t size = 0;
    std::uint16_t index[pipeline::Batch::kCapacity];
    Address address[pipeline::Batch::kCapacity];
    tables::NextHopId next_hop[pipeline::Batch::kCapacity];
  };
  using LookupV4 = Lookup<std::uint32_t>;
  using LookupV6 = Lookup<std::array<std::uint8_t, 16>>;

  [[nodiscard]] std::uint64_t follow_flows(const pipeline::Context& context, const pipeline::Batch& batch) noexcept;
  template <typename Address>
  void route(pipeline::Context& context, pipeline::Batch& batch, Lookup<Address>& lookup) noexcept;
  void route_one(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i,
                 const wire::IpAddress& destination) noexcept;
  [[gnu::always_inline]] inline void dispatch(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i,
                                              tables::NextHopId id) noexcept;
  void dispatch_special(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i,
                        tables::NextHopId id) noexcept;

  [[nodiscard]] bool is_for_kernel(const rte_mbuf* m) const noexcept;
  void work(pipeline::Context& context) noexcept;
  void deliver(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  void receive(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  void receive_ip(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, bool link_multicast) noexcept;
  void receive_v4(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, bool link_multicast) noexcept;
  void receive_v6(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, bool link_multicast) noexcept;

  const tables::Interfaces& interfaces_;
  L3Finish& finish_;
  L3Local local_;
  L3Kernel* kernel_;  ///< nullptr: the switch answers for itself
  std::uint16_t worker_;
  std::vector<std::uint64_t> own_mac_;  ///< by port, as the first six bytes of a frame lie in memory
};

/// Registered as `l3`; provides `forward` and `group`. Options: neighbour_reachable_s, pending_packets,
/// icmp_errors_per_s, large_table_routes, max_neighbours.
[[nodiscard]] pipeline::StageType l3_stage_type();

}  // namespace weft::stages
