// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which packets a capture or a trace is about.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "switch/capture/query.h"
#include "switch/pipeline/drop_reason.h"
#include "switch/pipeline/flow_groups.h"
#include "switch/pipeline/port_map.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/parsed.h"

namespace weft::capture {

/// Conditions on one packet of one switch; all must hold. A condition on a RoCE header never holds without one.
class PacketFilter {
 public:
  using Reasons = std::bitset<pipeline::kDropReasonSlots>;

  bool rx = false, tx = false;
  Reasons drops{};
  std::vector<bool> ports{};  ///< by PortIndex; empty: all
  std::vector<wire::Qpn> dest_qps{};
  std::vector<pipeline::FlowGroups::Flow> flows{};
  std::bitset<256> opcodes{};
  struct PsnWindow {
    wire::Psn first{};
    std::uint32_t count = 0;
  };
  std::vector<PsnWindow> psns{};

  [[nodiscard]] bool port(pipeline::PortIndex index) const noexcept {
    return ports.empty() || (index < ports.size() && ports[index]);
  }
  /// The ports of the switch have other indexes now.
  void rename_ports(const pipeline::PortMap& map);
  /// True when the headers have to be looked at.
  [[nodiscard]] bool about_headers() const noexcept {
    return !dest_qps.empty() || !flows.empty() || opcodes.any() || !psns.empty();
  }
  [[nodiscard]] bool headers(const wire::Parsed& parsed) const noexcept;
};

/// The filter of one switch. `chosen` is false when the query is not about this switch.
struct SwitchFilter {
  bool chosen = false;
  PacketFilter filter{};
};

/// Filters by switch, or a sentence that says which word nobody knows, and what may have been meant.
struct Filters {
  std::vector<SwitchFilter> by_switch{};
  std::string error{};
};

/// What a switch of the process is, for queries about it.
struct SwitchView {
  const pipeline::SwitchInfo* info = nullptr;
  /// The flows of each of Query::groups on it, in their order; empty: of none.
  std::vector<std::vector<pipeline::FlowGroups::Flow>> groups{};
};

/// @param switches  all switches of the process, by index
/// @param reasons  why packets are dropped in this process
[[nodiscard]] Filters make_filters(const Query& query, const std::vector<SwitchView>& switches,
                                   const pipeline::DropReasons& reasons);

}  // namespace weft::capture
