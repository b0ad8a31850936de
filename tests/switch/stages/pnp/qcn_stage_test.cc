// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>

#include "switch/wire/qcn_cnp.h"
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// The port to the other data centre has 1 Gbit/s, so that what comes in a burst makes a queue: a packet of 314 bytes
// takes some 2.7 us.
std::string slow_wan(const std::string& pnp) {
  std::string text = yaml(pnp);
  const std::string wan = "{ name: wan, type: \"null\", mtu_bytes: 4200";
  const std::size_t at = text.find(wan);
  EXPECT_NE(at, std::string::npos);
  return text.insert(at + wan.size(), ", rate_mbps: 1000");
}

std::span<const std::uint8_t> reserved_of(const Bytes& cnp) {
  return std::span(cnp).subspan(parsed_of(cnp).l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth),
                                wire::kCnpReservedBytes);
}

struct PnpQcnTest : ::testing::Test {
  explicit PnpQcnTest(const std::string& more = "")
      : h(weft::testing::all_stages(),
          slow_wan(kRemote + ", trigger: qcn, cnp_interval_us: 0, qcn_queue_kb: 5, qcn_sample_kb: 3" + more)) {}
  [[nodiscard]] std::uint64_t counter(const char* name) const { return h.counter("pnp", name); }
  void burst(const Bytes& frame, int packets) {
    for (int i = 0; i < packets; ++i) h.inject("in", frame);
    h.advance_ns(static_cast<TimeNs>(packets) * 3 * kUs);
  }
  Harness h;
};

TEST_F(PnpQcnTest, ALongQueueTellsSourcesWithoutMarks) {
  burst(data(Ecn::ect0).build(), 200);
  const auto cnps = h.take("in");
  ASSERT_GT(cnps.size(), 10u);
  for (const auto& cnp : cnps) {
    const wire::Parsed parsed = parsed_of(cnp.bytes);
    EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
    EXPECT_EQ(parsed.dest_qp, kSource);
    EXPECT_TRUE(wire::icrc_ok(cnp.bytes.data(), parsed));
  }
  EXPECT_EQ(counter("cnps_sent"), cnps.size());
  EXPECT_EQ(counter("congested_samples"), cnps.size());
  // 62,800 bytes; the last 5000 of the queue are as it should be.
  EXPECT_GT(counter("samples"), 62'800u / 3000);
  EXPECT_LT(counter("samples"), 8 * 62'800u / 3000);
  EXPECT_THAT(h.take("wan"), SizeIs(200));
}

// The queue that is there when the burst begins to leave is as long as Fb can tell, and the last one is short.
TEST_F(PnpQcnTest, CnpsSayHowLongTheQueueIs) {
  burst(data(Ecn::ect0).build(), 200);
  std::vector<unsigned> said;
  for (const auto& cnp : h.take("in")) said.push_back(wire::qcn_feedback(reserved_of(cnp.bytes)));
  ASSERT_GT(said.size(), 10u);
  EXPECT_EQ(*std::max_element(said.begin(), said.end()), wire::kMostQcnFeedback);
  EXPECT_GT(*std::min_element(said.begin(), said.end()), 0u);
  EXPECT_LT(said.back(), wire::kMostQcnFeedback / 2);
}

struct PnpQcnPlainTest : PnpQcnTest {
  PnpQcnPlainTest() : PnpQcnTest(", qcn_feedback: false") {}
};

TEST_F(PnpQcnPlainTest, CnpsAreAsThoseOfMarks) {
  burst(data(Ecn::ect0).build(), 200);
  const auto cnps = h.take("in");
  ASSERT_GT(cnps.size(), 10u);
  for (const auto& cnp : cnps) EXPECT_THAT(reserved_of(cnp.bytes), ::testing::Each(0));
}

TEST_F(PnpQcnTest, AShortQueueTellsNothing) {
  for (int i = 0; i < 200; ++i) burst(data(Ecn::ect0).build(), 2);
  EXPECT_THAT(h.take("in"), IsEmpty());
  EXPECT_GT(counter("samples"), 62'800u / 3000 / 2);
  EXPECT_EQ(counter("congested_samples"), 0u);
}

TEST_F(PnpQcnTest, MarksStayAndAreNoReason) {
  for (int i = 0; i < 50; ++i) burst(data().build(), 1);
  EXPECT_THAT(h.take("in"), IsEmpty());
  const auto out = h.take("wan");
  ASSERT_THAT(out, SizeIs(50));
  for (const auto& frame : out) EXPECT_EQ(parsed_of(frame.bytes).tos & 3, 3);
  EXPECT_EQ(counter("marked"), 0u);
}

TEST_F(PnpQcnTest, OthersAreSampledAndNotTold) {
  burst(data(Ecn::ect0).ipv4("10.1.0.1", "10.2.0.1").bth(Opcode::UC_SEND_MIDDLE, kDestination, Psn(5)).build(), 100);
  EXPECT_GT(counter("not_rc"), 0u);
  burst(data(Ecn::ect0).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(5)).build(), 100);
  EXPECT_GT(counter("unknown_qp"), 0u);
  EXPECT_THAT(h.take("in"), IsEmpty());
}

struct PnpQcnIntervalTest : PnpQcnTest {
  PnpQcnIntervalTest() : PnpQcnTest("") {
    h.reload(slow_wan(kRemote + ", trigger: qcn, cnp_interval_us: 1000, qcn_queue_kb: 5, qcn_sample_kb: 3"));
  }
};

TEST_F(PnpQcnIntervalTest, TheIntervalOfAFlowHoldsForSamplesToo) {
  burst(data(Ecn::ect0).build(), 200);
  EXPECT_THAT(h.take("in"), SizeIs(1));
  EXPECT_GT(counter("congested_samples"), 10u);
}

}  // namespace
}  // namespace weft::stages::testing
