// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Leaves and a spine that speak with tags, each a production pipeline on virtual time. Leaf N has hosts 10.0.N.0/24
// behind h1, and uplinks s1 to s4; all links carry 100 Gbit/s.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "switch/config/config.h"
#include "switch/stages/lb/tag.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"
#include "tests/support/parsed.h"
#include "tests/switch/stages/leaf.h"

namespace weft::stages::testing {

using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::parsed_of;
using wire::FrameBuilder;
using wire::MacAddress;

inline constexpr unsigned kUplinks = 4;

struct CongaLeaf {
  unsigned number = 1;
  std::string tag{};  ///< more options of lb_tag, ", age_us: 100" for example
  std::string lb = "{ policy: conga }";
  unsigned mtu = 4216;  ///< of uplinks; that of hosts is 4200
  std::string leaves =
      "[{ id: 1, prefixes: [10.0.1.0/24] }, { id: 2, prefixes: [10.0.2.0/24] }, "
      "{ id: 3, prefixes: [10.0.3.0/24] }]";
};

inline std::string conga_yaml(const CongaLeaf& setup) {
  LeafText leaf;
  leaf.host(1, setup.number, 1);
  leaf.uplinks(kUplinks, setup.number, setup.mtu);
  return leaf.with("  - parse\n  - lb_tag: { leaf: " + std::to_string(setup.number) + ", uplinks: [" +
                   leaf.uplink_names() + "], link_mbps: 100000, leaves: " + setup.leaves + setup.tag +
                   " }\n  - rdma_track\n  - l3\n  - lb: " + setup.lb + "\n");
}

/// What is wrong with a configuration; empty when all is well.
inline std::string mistakes(const std::string& yaml) {
  config::Diagnostics diagnostics;
  static_cast<void>(config::load_switch(yaml, weft::testing::all_stages(), diagnostics));
  return diagnostics.to_string();
}

/// A packet of a host of leaf `from` to one of leaf `to`.
inline FrameBuilder packet(unsigned from, unsigned to, std::uint16_t source_port = 50000) {
  FrameBuilder frame;
  return frame.eth(other_mac(1), leaf_mac(0))
      .ipv4("10.0." + std::to_string(from) + ".2", "10.0." + std::to_string(to) + ".2")
      .udp(source_port)
      .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(7))
      .payload(256);
}

/// The same frame with a tag, as it comes out of a spine to uplink `uplink` (from 1) of a leaf.
inline Bytes tagged(FrameBuilder frame, const LbTag& tag, unsigned uplink = 1) {
  const Bytes plain = frame.eth(other_mac(0x10 + uplink), leaf_mac(uplink)).build();
  Bytes out(kTagBytes + plain.size());
  std::copy(plain.begin(), plain.end(), out.begin() + kTagBytes);
  put_tag_on(out.data(), parsed_of(plain), tag);
  return out;
}

inline TagValidity validity(const Bytes& frame) {
  return tag_validity(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed_of(frame));
}
inline LbTag tag_of(const Bytes& frame) {
  EXPECT_EQ(validity(frame), TagValidity::ok);
  return read_tag(frame.data(), parsed_of(frame));
}

/// What left through all uplinks, and through which (from 0).
struct Sent {
  unsigned uplink;
  Bytes bytes;
};
inline std::vector<Sent> upwards(Harness& h) {
  std::vector<Sent> sent;
  for (unsigned i = 0; i < kUplinks; ++i) {
    for (auto& frame : h.take("s" + std::to_string(i + 1))) sent.push_back({i, std::move(frame.bytes)});
  }
  return sent;
}

}  // namespace weft::stages::testing
