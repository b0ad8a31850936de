// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/stage.h"
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

struct PnpRowsTest : PnpStageTest {};

TEST_F(PnpRowsTest, RowsSayWhatHappened) {
  h.inject("in", data().build());
  h.inject("in", data().build());
  const auto flows = h.rows("pnp_flows");
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0]["source"], "10.1.0.1");
  EXPECT_EQ(flows[0]["destination"], "10.2.0.1");
  EXPECT_EQ(flows[0]["dest_qp"], 34);
  EXPECT_EQ(flows[0]["client_qp"], 17);
  EXPECT_EQ(flows[0]["marked"], 2);
  EXPECT_EQ(flows[0]["cnps"], 1);
  EXPECT_EQ(flows[0]["open"], true);
  EXPECT_EQ(h.rows("pnp")[0]["marks_cleared"], 2);
}

TEST_F(PnpRowsTest, AFlowWhoseQueuePairIsGoneIsNotOpen) {
  AgentQp qp;
  qp.local = *wire::IpAddress::parse("10.1.0.5");
  qp.qpn = Qpn(20);
  qp.remote = *wire::IpAddress::parse("10.2.0.5");
  qp.remote_qpn = Qpn(40);
  const auto tell = [&](bool up) {
    const std::vector<AgentAction> news{{up, false, qp}};
    h.change<RdmaTrackStage>("rdma_track", [&](RdmaTrackStage& stage) { stage.take(news); });
    h.inject("in", data(Ecn::ect0).build());  // rdma_track takes news over with the next packets
  };
  const auto marked = [&] {
    h.inject(
        "in",
        data().ipv4("10.1.0.5", "10.2.0.5").bth(Opcode::RC_SEND_MIDDLE, qp.remote_qpn, Psn(5)).payload(256).build());
  };
  tell(true);
  marked();
  ASSERT_EQ(h.rows("pnp_flows").size(), 1u);
  EXPECT_EQ(h.rows("pnp_flows")[0]["open"], true);
  tell(false);
  ASSERT_EQ(h.rows("pnp_flows").size(), 1u);
  EXPECT_EQ(h.rows("pnp_flows")[0]["open"], false);
  marked();
  EXPECT_EQ(h.rows("pnp_flows").size(), 0u) << "its place is free";
  EXPECT_EQ(counter("cnps_sent"), 1u);
}

}  // namespace
}  // namespace weft::stages::testing
