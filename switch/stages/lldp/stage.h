// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// lldp: says at each port who the switch is, and hears who is at the other end (IEEE 802.1AB, transmission and
// reception to "nearest bridge"). For ports that the kernel has no interfaces of: where it has, lldpd speaks there.
#pragma once

#include <vector>

#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/lldp/neighbours.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class LldpCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lldp/counters.def"
#undef WEFT_COUNTER
  count_,
};

class LldpStage : public pipeline::Stage {
 public:
  explicit LldpStage(const pipeline::StageBuild& build);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] std::uint32_t timers() const override { return kTimers; }
  [[nodiscard]] TimeNs deadline(std::uint32_t token) const override;
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  void on_links(pipeline::Context& context) override;
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"lldp", "lldp_ports"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  enum Timer : std::uint32_t { kSend, kExpire, kTimers };
  void say(pipeline::Context& context, pipeline::PortIndex port) noexcept;
  void hear(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  void count(LldpCounter c) noexcept { counters_.add(c, 1); }
  [[nodiscard]] nlohmann::ordered_json neighbour_row(std::size_t port, const LldpNeighbour& neighbour) const;
  [[nodiscard]] nlohmann::ordered_json port_row(std::size_t port) const;

  const pipeline::SwitchInfo& info_;
  bool sends_;  ///< of several workers the first does
  TimeNs interval_ns_;
  std::uint16_t ttl_s_;
  TimeNs next_send_ = 0;
  wire::MacAddress chassis_{};
  std::vector<bool> up_;  ///< by port
  LldpNeighbours neighbours_;
  CounterSet<LldpCounter> counters_;
};

/// Registered as `lldp`; needs `parsed`. Options: interval_s, hold.
[[nodiscard]] pipeline::StageType lldp_stage_type();

}  // namespace weft::stages
