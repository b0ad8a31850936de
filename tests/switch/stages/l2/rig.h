// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A bridge with access ports and trunks, and frames for it.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "switch/stages/l2/stage.h"
#include "switch/stages/parse/stage.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"
#include "tests/support/harness.h"

namespace weft::stages::l2_rig {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PortIndex;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::Harness;
using testing::HarnessOptions;
using ::testing::IsEmpty;
using testing::SentFrame;
using wire::FrameBuilder;
using wire::MacAddress;

inline MacAddress host(int n) {
  return MacAddress::from_u64(0x020000000a00u + static_cast<unsigned>(n));
}
inline MacAddress mac(std::string_view text) {
  return *MacAddress::parse(text);
}
inline const MacAddress kBroadcast = mac("ff:ff:ff:ff:ff:ff");

// Compares what a packet's parse record says at the end with what its bytes say.
class RecordCheck : public pipeline::Stage {
 public:
  void egress(Context&, PortIndex, Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      rte_mbuf* m = batch.packet[i];
      wire::Parsed fresh;
      const wire::Parsed& kept = pipeline::meta(m).parsed;
      // Behind the tag that was taken away is another one, of which the record knows nothing.
      if (kept.validity == wire::Validity::vlan_nested) continue;
      wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, fresh);
      EXPECT_EQ(kept.l3_offset, fresh.l3_offset);
      EXPECT_EQ(kept.l4_offset, fresh.l4_offset);
      EXPECT_EQ(kept.flags, fresh.flags);
      EXPECT_EQ(kept.vlan_tci, fresh.vlan_tci);
      EXPECT_EQ(kept.kind, fresh.kind);
      EXPECT_EQ(kept.pair_hash(), fresh.pair_hash());
    }
  }
};

inline const pipeline::Registry& registry() {
  static const pipeline::Registry kRegistry = [] {
    pipeline::Registry made;
    made.add(parse_stage_type());
    made.add(l2_stage_type());
    pipeline::StageType check;
    check.name = "record_check";
    check.needs = {"parsed"};
    check.has_egress = true;
    check.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<RecordCheck>(); };
    made.add(std::move(check));
    return made;
  }();
  return kRegistry;
}

// Three access ports of VLAN 10, one of VLAN 20, a trunk of both without a native VLAN, a trunk with native VLAN 10,
// and VLAN 30 that exists and nobody is in.
inline std::string vlan_switch(const std::string& l2 = "l2", const std::string& more = "") {
  return R"(
name: s
ports:
  - { name: a, type: "null", access_vlan: 10 }
  - { name: b, type: "null", access_vlan: 10 }
  - { name: c, type: "null", access_vlan: 10 }
  - { name: d, type: "null", access_vlan: 20 }
  - { name: t, type: "null", trunk: { vlans: [10, 20] } }
  - { name: n, type: "null", trunk: { vlans: [20], native: 10 } }
vlans: [10, 20, 30]
pipeline: [parse, )" +
         l2 + ", record_check]\n" + more;
}

inline FrameBuilder from_to(MacAddress source, MacAddress destination) {
  FrameBuilder frame;
  frame.eth(source, destination)
      .ipv4("10.0.0.1", "10.0.0.2")
      .udp(5000)
      .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(17), wire::Psn(5));
  return frame;
}
inline Bytes untagged(MacAddress source, MacAddress destination, std::size_t payload = 64) {
  return from_to(source, destination).payload(payload).build();
}
inline Bytes tagged(std::uint16_t vid, MacAddress source, MacAddress destination, std::size_t payload = 64,
                    std::uint8_t pcp = 0) {
  return from_to(source, destination).vlan(vid, pcp).payload(payload).build();
}

inline std::vector<Bytes> bytes_of(const std::vector<SentFrame>& frames) {
  std::vector<Bytes> out;
  for (const auto& f : frames) out.push_back(f.bytes);
  return out;
}

// Names of the ports that sent exactly one frame, and that it was this one.
inline std::set<std::string> sent_by(Harness& h, const std::map<std::string, Bytes>& expected) {
  std::set<std::string> ports;
  for (const auto& port : h.state().info().ports) {
    const auto frames = h.take(port.name);
    if (frames.empty()) continue;
    ports.insert(port.name);
    EXPECT_EQ(frames.size(), 1u) << port.name;
    if (expected.contains(port.name)) {
      EXPECT_EQ(frames[0].bytes, expected.at(port.name)) << port.name;
    }
  }
  return ports;
}

// Forgets what was sent so far.
inline void discard(Harness& h) {
  for (const auto& port : h.state().info().ports) h.take(port.name);
}

}  // namespace weft::stages::l2_rig
