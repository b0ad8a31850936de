// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/stage.h"
#include "switch/stages/l3/next_hop_choice.h"

namespace weft::stages {

/// The table `lb`: a row for each member of each group, with the policy and weight that the options of the stage give
/// it, and whether packets may be spread over its port. Workers do not use it. Needs NextHopChoices.
class LbShared : public pipeline::StageShared {
 public:
  explicit LbShared(const pipeline::StageBuild& build);

  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"lb"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  [[nodiscard]] std::int64_t weight_of(const std::string& port) const;
  [[nodiscard]] std::string_view path_text(pipeline::PortIndex port) const;

  const NextHopChoices& choices_;
  const config::Value& options_;  ///< of the switch, where `weftctl set` changes them
  const pipeline::SwitchInfo& info_;
  const pipeline::Links* links_;  ///< nullptr: all up
};

}  // namespace weft::stages
