// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What stages may know of the queues of all ports, their own worker's and others'.
#include "switch/pipeline/port_view.h"

#include <gmock/gmock.h>

#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

class PortViewWorkers : public testing::TestWithParam<std::uint16_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, PortViewWorkers, testing::Values(1, 2), testing::PrintToStringParamName());

// Flows are hashes here: the upper half belongs to worker 1 of two.
constexpr std::uint32_t kFlowOf0 = 0x10000000;

// Looks at port 1, which worker 1 of two owns, whenever worker 0 has a packet.
struct Look {
  Script script() {
    return {.ingress = [this](Context& context, Batch& batch) {
      for (std::uint16_t i = 0; i < batch.size; ++i) meta(batch.packet[i]).out_port = label_of(batch.packet[i]).out;
      if (context.worker != 0) return;
      seen = context.occupancy(1);
      bytes = context.queued_bytes(1);
    }};
  }
  PortView seen{};
  std::uint64_t bytes = 0;
};

TEST_P(PortViewWorkers, AFifoIsQueue0AndItsAgeIsThatOfItsOwnersLastLoop) {
  Look look;
  Rig rig({{"parse", parse_label()}, {"look", look.script()}}, {.workers = GetParam(), .rate_mbps = 1});
  // At 1 Mbit/s a frame of 64 bytes takes 704 us.
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf0, 1}, {3, kFlowOf0, 1}});
  rig.run_until_quiet();
  const TimeNs served = rig.now;
  rig.now += 1000;
  rig.receive(0, {{4, kFlowOf0, 0}});
  EXPECT_EQ(look.seen.queue_bytes[0], 2 * 64u) << "one is on the wire";
  EXPECT_EQ(look.seen.bytes(), 2 * 64u);
  EXPECT_EQ(look.bytes, 2 * 64u);
  EXPECT_EQ(look.seen.tx_bytes, 0u);
  EXPECT_EQ(look.seen.as_of, GetParam() == 1 ? rig.now : served);
  rig.advance_to(rig.now + 10'000'000);
  rig.receive(0, {{5, kFlowOf0, 0}});
  EXPECT_EQ(look.seen.bytes(), 0u);
  EXPECT_EQ(look.bytes, 0u);
  EXPECT_EQ(look.seen.tx_bytes, 3 * 64u);
  EXPECT_EQ(look.seen.as_of, rig.now) << "its owner has been at it in this nanosecond";
}

TEST_P(PortViewWorkers, BytesAreSeenInTheQueueThatTookThePlaceOfAnother) {
  Look look;
  Rig rig({{"parse", parse_label()}, {"look", look.script()}}, {.workers = GetParam(), .rate_mbps = 1});
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf0, 1}, {3, kFlowOf0, 1}});
  rig.run_until_quiet();
  auto faster = std::make_unique<EgressQueue>(1024, 2, 0);
  Pipeline& owner = *rig.pipelines[GetParam() - 1];
  owner.exchange_wire(rig.now, 1, faster);
  faster = nullptr;
  rig.receive(0, {{4, kFlowOf0, 1}});
  rig.run_until_quiet();
  rig.receive(0, {{5, kFlowOf0, 0}});
  EXPECT_EQ(look.seen.bytes(), 3 * 64u);
  EXPECT_EQ(look.bytes, 3 * 64u);
  rig.advance_to(rig.now + 10'000'000);
  rig.receive(0, {{6, kFlowOf0, 0}});
  EXPECT_EQ(look.bytes, 0u);
}

TEST_P(PortViewWorkers, ClassQueuesAreSeenOneByOneWithTheirMarks) {
  qos::Settings settings = plain_qos(4);
  for (auto& port : settings.ports) port.wred[3]->mark = {1, 2, 1.0};
  RigOptions options = qos_options(std::move(settings), 10);
  options.workers = GetParam();
  QosRig rig(options);
  const auto frame = [](unsigned dscp) { return QosRig::roce(1, dscp, wire::Ecn::ect0, 1000); };
  const std::uint64_t bytes = frame(3).size();
  rig.arrive(1, frame(3), 5);
  rig.arrive(1, frame(0), 2);
  rig.run_until_quiet();
  const auto view = [&](std::uint16_t worker) {
    Rng rng(1);
    const Context context(rig.now, worker, rng, *rig.pipelines[worker], 0);
    EXPECT_EQ(context.queued_bytes(1), context.occupancy(1).bytes());
    EXPECT_EQ(context.queued_bytes(2), 0u) << "each port has bytes of its own";
    return context.occupancy(1);
  };
  for (std::uint16_t w = 0; w < GetParam(); ++w) {
    const PortView v = view(w);
    // The wire has one of them.
    EXPECT_EQ(v.queue_bytes[3] + v.queue_bytes[0], 6 * bytes);
    EXPECT_GE(v.queue_bytes[3], 4 * bytes);
    EXPECT_EQ(v.bytes(), 6 * bytes);
    EXPECT_EQ(v.tx_bytes, 0u);
  }
  rig.advance_to(rig.now + 100'000'000);
  for (std::uint16_t w = 0; w < GetParam(); ++w) {
    const PortView v = view(w);
    EXPECT_EQ(v.bytes(), 0u);
    EXPECT_EQ(v.tx_bytes, 7 * bytes);
    // All of class 3 but the last, which leaves an empty queue.
    EXPECT_EQ(v.ce_marked, 4u);
    EXPECT_LE(v.as_of, rig.now);
  }
}

}  // namespace
}  // namespace weft::pipeline
