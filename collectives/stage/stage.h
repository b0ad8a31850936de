// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// inc: runs groups of in-network collectives on a switch (EPIC). Packets from a peer of an endpoint to that endpoint
// end here: their ICRC is checked, the group's unit gets them, and what it sends goes on as packets of the switch's
// own, through l3 and lb like any other, or on a bridge to the port where the peer was seen. All packets of a group
// come to one worker. Everything else passes.
//
// Addresses of endpoints that no router has are answered for: whoever asks by ARP or neighbour discovery gets the MAC
// address of the port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/stage/emitter.h"
#include "collectives/stage/shared.h"
#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"

namespace weft::inc {

/// Counters of the stage, in the order in which it shows them.
enum class IncCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "collectives/stage/counters.def"
#undef WEFT_COUNTER
  count_,
};

class IncStage : public pipeline::Stage {
 public:
  IncStage(const pipeline::StageBuild& build, IncShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t token) const override;
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override {
    return {"inc_groups", "inc_endpoints", "inc_slots", "inc_activity", "inc_memory"};
  }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  /// From now on packets are looked up in this table; it holds the one that was in use afterwards.
  void exchange_table(std::unique_ptr<GroupTable>& table);
  /// Who is waited for in a group, and since when; nullopt when another worker runs it, or none.
  [[nodiscard]] std::optional<nlohmann::ordered_json> explain(std::uint32_t id) const;

 private:
  /// Packets of a burst that a group has taken. Their buffers are freed behind the burst.
  struct Taken {
    rte_mbuf* packet[pipeline::Batch::kCapacity];
    std::uint32_t count = 0;
    std::uint64_t payload_bytes = 0;
  };
  void on_roce(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i, Taken& taken) noexcept;
  /// What is known of a packet's ICRC.
  enum class Icrc : std::uint8_t {
    right,
    wrong,
    later,  ///< right when wire::payload_crc() of the packet is what read() says
  };
  [[nodiscard]] bool take(pipeline::Context& context, const GroupTable::Flow& flow, const rte_mbuf* m,
                          const nic::Packet& packet, Icrc icrc, std::uint32_t payload_crc) noexcept;
  [[nodiscard]] Icrc read(const rte_mbuf* m, bool at_once, Edge& edge, nic::Packet& packet,
                          std::uint32_t& payload_crc) noexcept;
  void on_arp(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  void on_neighbour(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  [[nodiscard]] bool answers_for(const wire::IpAddress& address) const noexcept;
  void learn(const rte_mbuf* m, Edge& edge) const noexcept;
  void count(IncCounter c, std::uint64_t n = 1) noexcept { counters_.add(c, n); }
  void touch(RunningGroup& group) noexcept;
  void count_groups(pipeline::Context& context) noexcept;
  void set_gauges() noexcept;
  [[nodiscard]] nlohmann::ordered_json group_row(const RunningGroup& g) const;
  /// What explain() says, with counters that show whether the group goes on.
  [[nodiscard]] nlohmann::ordered_json activity_row(const RunningGroup& g) const;
  /// Of the switch's slot memory as a whole, and what of it a group holds.
  [[nodiscard]] nlohmann::ordered_json pool_row() const;
  [[nodiscard]] nlohmann::ordered_json abilities_row() const;
  [[nodiscard]] nlohmann::ordered_json memory_row(const RunningGroup& g) const;
  [[nodiscard]] nlohmann::ordered_json endpoint_row(const RunningGroup& g, std::size_t e) const;
  [[nodiscard]] double seconds_since(TimeNs then) const noexcept;

  const pipeline::SwitchInfo& info_;
  IncShared& shared_;
  std::uint16_t worker_;
  bool routed_;
  std::vector<wire::IpAddress> own_addresses_;  ///< that l3 answers for
  std::unique_ptr<GroupTable> table_;
  std::vector<std::uint8_t> whole_;     ///< a frame that came in more than one buffer
  std::vector<RunningGroup*> touched_;  ///< had packets in this burst; has room for all
  CounterSet<IncCounter> counters_;
  Emitter emitter_;
};

/// Registered as `inc`; needs `parsed`, and stands in front of l2 or l3.
[[nodiscard]] pipeline::StageType inc_stage_type();

/// The commands of the stage: create, remove, show, explain.
[[nodiscard]] std::vector<pipeline::StageCommand> inc_commands();

/// What a group failed of, for people: which rank said what.
[[nodiscard]] std::string describe(const Failure& failure, const GroupSpec& spec);
/// "allreduce fp32 sum, 4096 bytes": what a control message asks for.
[[nodiscard]] std::string describe(const ControlMessage& message);

}  // namespace weft::inc
