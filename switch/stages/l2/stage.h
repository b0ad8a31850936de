// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// 802.1Q bridging: VLAN membership, learning, forwarding, flooding.
#pragma once

#include "switch/pipeline/stage.h"
#include "switch/stages/kernel_punt/kernel_punt.h"
#include "switch/tables/fdb.h"

namespace weft::stages {

/// The forwarding database of a switch, and its way to the kernel; tables `fdb` and `kernel`.
class L2Shared : public pipeline::StageShared {
 public:
  explicit L2Shared(const pipeline::StageBuild& build);
  void housekeeping(TimeNs now) override;
  void on_link(pipeline::PortIndex port, bool up) override;
  /// Learned entries stay, but for those of ports that are gone or have left the VLAN.
  void adopt(pipeline::StageShared& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::vector<std::string_view> tables() const override;
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  [[nodiscard]] tables::Fdb& fdb() noexcept { return fdb_; }
  /// The way of link-local control frames; nullptr without SwitchInfo::kernel.
  [[nodiscard]] L3Kernel* kernel() noexcept { return kernel_.get(); }

 private:
  const pipeline::SwitchInfo& info_;
  tables::Fdb fdb_;
  std::uint32_t ageing_s_;
  std::atomic<std::uint32_t> now_s_{0};
  std::unique_ptr<L3Kernel> kernel_;
};

/// Order of the counters of the `l2` stage.
enum class L2Counter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/l2/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Registered as `l2`. Options: ageing_s, max_macs, storm_limit_pps, forward_link_local.
[[nodiscard]] pipeline::StageType l2_stage_type();

}  // namespace weft::stages
