// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Two leaves and their uplinks for tests of Themis: the sender's leaf chooses paths (`lb: psn`), the receiver's judges
// NACKs (`nack_filter`). Each is a production pipeline on virtual time; the spines between them are this test's hands.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "switch/stages/nack_filter/stage.h"
#include "switch/stages/rdma_track/stage.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
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
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

inline constexpr Qpn kSenderQp{17}, kReceiverQp{34};

struct LeafSetup {
  unsigned uplinks = 2;
  std::string lb = "{ policy: psn }";
  std::string filter{};  ///< more options of nack_filter, ", guard_us: 0" for example
  std::string qps = "{ a: { address: 10.0.1.2, qpn: 17 }, b: { address: 10.0.3.2, qpn: 34 } }";
  std::string host_port{};  ///< more of ports h1 and h2, ", rate_mbps: 1" for example
  std::string track{};      ///< more options of rdma_track
  bool ipv6 = false;        ///< fd00:0:A::B instead of 10.0.A.B
};

/// Text in which every 10.A.B.C is fd00:A:B::C, and so every prefix.
inline std::string with_ipv6_addresses(std::string text) {
  text = std::regex_replace(text, std::regex(R"(10\.(\d+)\.0\.0/16)"), "\"fd00:$1::/32\"");
  text = std::regex_replace(text, std::regex(R"(10\.(\d+)\.(\d+)\.(\d+)/24)"), "\"fd00:$1:$2::$3/48\"");
  return std::regex_replace(text, std::regex(R"(10\.(\d+)\.(\d+)\.(\d+))"), "\"fd00:$1:$2::$3\"");
}

/// @param subnet  1 for the sender's leaf (hosts 10.0.1.2 and 10.0.2.2), 3 for the receiver's (10.0.3.2, 10.0.4.2)
inline std::string leaf_yaml(unsigned subnet, const LeafSetup& setup) {
  LeafText leaf;
  for (unsigned host = 0; host < 2; ++host) leaf.host(host + 1, subnet + host, subnet + host, setup.host_port);
  leaf.uplinks(setup.uplinks, subnet, 4200);
  const std::string yaml = leaf.with("  - parse\n  - rdma_track: { max_qps: 64, qps: [" + setup.qps + "]" +
                                     setup.track + " }\n  - nack_filter: { uplinks: [" + leaf.uplink_names() + "]" +
                                     setup.filter + " }\n  - l3\n  - lb: " + setup.lb + "\n");
  return setup.ipv6 ? with_ipv6_addresses(yaml) : yaml;
}

/// A packet of the two hosts below, over IPv6.
inline FrameBuilder to_receiver_over_ipv6(FrameBuilder frame) {
  return frame.ipv6("fd00:0:1::2", "fd00:0:3::2");
}
inline FrameBuilder to_sender_over_ipv6(FrameBuilder frame) {
  return frame.ipv6("fd00:0:3::2", "fd00:0:1::2");
}

/// A WRITE of the sender, as it comes from the host on the sender's leaf, or with `hop` from a spine on the receiver's.
inline FrameBuilder data(std::uint32_t psn, unsigned uplink = 0) {
  FrameBuilder frame;
  if (uplink == 0) {
    frame.eth(other_mac(1), leaf_mac(0));
  } else {
    frame.eth(other_mac(0x10 + uplink), leaf_mac(1 + uplink)).ttl(62);
  }
  return frame.ipv4("10.0.1.2", "10.0.3.2").udp(50000).bth(Opcode::RC_SEND_MIDDLE, kReceiverQp, Psn(psn)).payload(256);
}
/// An answer of the receiver, as it comes from the host on the receiver's leaf.
inline FrameBuilder answer(wire::Syndrome syndrome, std::uint32_t psn, std::uint32_t msn = 3) {
  return FrameBuilder()
      .eth(other_mac(3), leaf_mac(0))
      .ipv4("10.0.3.2", "10.0.1.2")
      .udp(50001)
      .bth(Opcode::RC_ACKNOWLEDGE, kSenderQp, Psn(psn))
      .aeth(syndrome, msn);
}
inline FrameBuilder nack(std::uint32_t psn, std::uint32_t msn = 3) {
  return answer(wire::Syndrome::nak(wire::NakCode::psn_sequence_error), psn, msn);
}
inline FrameBuilder ack(std::uint32_t psn, std::uint32_t msn = 3) {
  return answer(wire::Syndrome::ack(), psn, msn);
}

/// weft-qp-agent on the sender's host tells of the pair, before its first packet.
inline void tell_as_agent(Harness& h) {
  AgentQp qp;
  qp.local = *wire::IpAddress::parse("10.0.1.2");
  qp.qpn = kSenderQp;
  qp.remote = *wire::IpAddress::parse("10.0.3.2");
  qp.remote_qpn = kReceiverQp;
  const std::vector<AgentAction> news{{true, false, qp}};
  h.change<RdmaTrackStage>("rdma_track", [&](RdmaTrackStage& stage) { stage.take(news); });
}

/// The receiver's leaf. Packets of the sender come in through the uplink that the sender's leaf would choose when its
/// base path is `base`.
class ReceiverLeaf {
 public:
  explicit ReceiverLeaf(LeafSetup setup = {}, unsigned base = 0)
      : setup_(std::move(setup)), base_(base), h(weft::testing::all_stages(), leaf_yaml(3, setup_)) {}

  /// Data packets arrive, one after the other.
  void arrive(std::initializer_list<std::uint32_t> psns) {
    for (const std::uint32_t psn : psns) arrive_through(1 + (psn % setup_.uplinks + base_) % setup_.uplinks, psn);
  }
  void arrive_through(unsigned uplink, std::uint32_t psn) {
    const FrameBuilder frame = data(psn, uplink);
    h.inject("s" + std::to_string(uplink), (setup_.ipv6 ? to_receiver_over_ipv6(frame) : frame).build());
  }
  void say(const FrameBuilder& frame) { h.inject("h1", (setup_.ipv6 ? to_sender_over_ipv6(frame) : frame).build()); }

  /// What has left towards the sender since the last call.
  std::vector<Bytes> upwards() {
    std::vector<Bytes> frames;
    for (unsigned i = 1; i <= setup_.uplinks; ++i) {
      for (auto& frame : h.take("s" + std::to_string(i))) frames.push_back(std::move(frame.bytes));
    }
    return frames;
  }
  /// The PSNs of the NACKs among it, with right ICRCs.
  std::vector<std::uint32_t> nacks() {
    std::vector<std::uint32_t> psns;
    for (const Bytes& frame : upwards()) {
      const wire::Parsed parsed = parsed_of(frame);
      EXPECT_TRUE(wire::icrc_ok(frame.data(), parsed));
      EXPECT_EQ(parsed.dest_qp, kSenderQp);
      if (wire::Syndrome(parsed.syndrome).is_sequence_nak()) psns.push_back(parsed.psn.value());
    }
    return psns;
  }
  [[nodiscard]] std::uint64_t counter(const char* name) const { return h.counter("nack_filter", name); }

 private:
  LeafSetup setup_;
  unsigned base_;

 public:
  Harness h;
};

}  // namespace weft::stages::testing
