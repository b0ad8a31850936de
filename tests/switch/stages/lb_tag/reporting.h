// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Switches with Gemma, whose neighbours are the test's hands.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "switch/stages/lb/gemma_report.h"
#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {

/// Leaf `number` with policy gemma.
/// @param options  of lb_tag's gemma
/// @param lb       of lb's
inline CongaLeaf gemma_leaf(unsigned number, const std::string& options = "{}", const std::string& lb = "{}") {
  return {.number = number, .tag = ", gemma: " + options, .lb = "{ policy: gemma, gemma: " + lb + " }"};
}

/// A switch above two leaves and below two cores: ports l1 and l2 to leaves 1 and 2, c1 and c2 to cores, behind which
/// leaf 3 is. Its own addresses are 10.1.N.0, N from 1 in this order, those of others .1 with other_mac(N).
/// @param gemma  more options of lb_tag's gemma
/// @param tag    other options of lb_tag; "": those of an aggregation switch
inline std::string aggregation_yaml(const std::string& gemma = "", const std::string& tag = "") {
  const char* const names[] = {"l1", "l2", "c1", "c2"};
  std::string ports, addresses, neighbours;
  for (unsigned i = 0; i < 4; ++i) {
    const std::string name = names[i], net = "10.1." + std::to_string(i + 1);
    ports += "  - { name: " + name + ", type: \"null\", mtu_bytes: 4216 }\n";
    addresses += "  - { port: " + name + ", address: " + net + ".0/31 }\n";
    neighbours += "  - { port: " + name + ", address: " + net + ".1, mac: \"" + other_mac(i + 1).to_string() + "\" }\n";
  }
  const std::string own = tag.empty() ? "uplinks: [c1, c2], leaves: [{ id: 1, prefixes: [10.0.1.0/24] }, "
                                        "{ id: 2, prefixes: [10.0.2.0/24] }, { id: 3, prefixes: [10.0.3.0/24] }]"
                                      : tag;
  return "name: agg\nseed: 7\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours +
         "routes:\n  - { prefix: 10.0.1.0/24, via: [10.1.1.1] }\n  - { prefix: 10.0.2.0/24, via: [10.1.2.1] }\n"
         "  - { prefix: 10.0.3.0/24, via: [10.1.3.1, 10.1.4.1] }\npipeline:\n  - parse\n  - lb_tag: { " +
         own + ", gemma: { downlinks: [{ port: l1, leaves: [1] }, { port: l2, leaves: [2] }]" + gemma +
         " } }\n  - l3\n  - lb: { policy: " + (tag.empty() ? "gemma" : "ecmp") + " }\n";
}

/// A report as a neighbour sends it.
inline Bytes report_of(const std::vector<GemmaEntry>& entries) {
  Bytes frame(std::max(report_bytes(entries.size()), wire::kMinFrameBytes));
  EXPECT_NE(write_report(frame, {other_mac(9), wire::IpAddress::v4(0x0a010900), 48}, entries), 0u);
  return frame;
}
/// What a report says.
inline std::vector<GemmaEntry> told_by(const Bytes& frame) {
  const wire::Parsed parsed = parsed_of(frame);
  EXPECT_EQ(validity(frame), TagValidity::ok);
  EXPECT_EQ(tag_kind(frame.data(), parsed), TagKind::gemma_report);
  std::vector<GemmaEntry> entries(kMaxReportEntries);
  const auto found = read_report(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed, entries);
  return {found.begin(), found.end()};
}

}  // namespace weft::stages::testing
