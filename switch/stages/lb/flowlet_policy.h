// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What policies that choose for flowlets have in common: the flowlet table, and what follows from it. A flow whose
// member leaves the group, or has no path, begins a flowlet at once.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "switch/stages/lb/flowlets.h"
#include "switch/stages/lb/member_hash.h"
#include "switch/stages/lb/policy.h"

namespace weft::stages {

class FlowletPolicy : public LbPolicy {
 public:
  /// Options: letflow, whatever the policy, and those of MemberHash.
  explicit FlowletPolicy(const pipeline::StageBuild& build);

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }
  void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept override;
  /// Takes the flowlets of any policy that has them.
  void adopt(LbPolicy& old, const pipeline::PortMap& ports) noexcept override;
  /// `flowlets`
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"flowlets"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::uint64_t& cursor, std::size_t max) const override;

 protected:
  /// Before the first pick() of a burst.
  virtual void begin_burst() noexcept {}
  /// The member for a new flowlet; kUnreachable when no path is up.
  /// @param before  that of the flow's last flowlet; kUnreachable when the flow is new, or the member is gone
  [[nodiscard]] virtual tables::NextHopId pick(pipeline::Context& context, LinkView& links, const LbItem& item,
                                               tables::NextHopId before) noexcept = 0;

  [[nodiscard]] const MemberHash& hash() const noexcept { return hash_; }

 private:
  [[nodiscard]] tables::NextHopId begin_flowlet(pipeline::Context& context, LinkView& links, const LbItem& item,
                                                Flowlet& entry, FlowletTable::Begin begin,
                                                tables::NextHopId before) noexcept;

  MemberHash hash_;
  FlowletTable table_;
  const pipeline::SwitchInfo& info_;
  TimeNs now_ = 0;
};

}  // namespace weft::stages
