// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/senders.h"

#include <algorithm>

#include "switch/runtime/port_names.h"

namespace weft {

std::string_view why_owner_sends(const pipeline::SwitchInfo& info, const pipeline::PortInfo& port,
                                 std::uint16_t tx_queues, std::uint16_t workers) {
  if (info.qos) return "the switch has qos";
  if (port.rate_mbps != 0 || port.delay_ns != 0) return "a rate or delay is emulated";
  if (tx_queues < workers) return "the device has fewer transmit queues than there are workers";
  return {};
}

std::vector<std::string> describe_senders(const pipeline::SwitchInfo& info, std::span<const std::uint16_t> tx_queues,
                                          std::uint16_t workers) {
  struct Line {
    std::string_view why;
    PortNames names{};
  };
  std::vector<std::string> said;
  if (workers == 1) return said;
  std::vector<Line> lines;
  for (const pipeline::PortInfo& port : info.ports) {
    const std::string_view why = why_owner_sends(info, port, tx_queues[port.index], workers);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.why == why; });
    if (line == lines.end()) line = lines.insert(lines.end(), Line{why});
    line->names.add(port.name);
  }
  for (const Line& line : lines) {
    said.push_back(info.name + ": " +
                   (line.why.empty()
                        ? "every worker sends itself through " + line.names.text()
                        : "the owner alone sends through " + line.names.text() + ": " + std::string(line.why)));
  }
  return said;
}

}  // namespace weft
