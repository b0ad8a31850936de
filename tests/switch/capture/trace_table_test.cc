// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/trace_table.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "switch/stages/impair/drops.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::capture {
namespace {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::Label;
using pipeline::Rig;
using pipeline::TraceVerdict;
using testing::ElementsAre;
using testing::IsEmpty;

class TraceTableTest : public testing::Test {
 protected:
  void arm(std::uint32_t wanted, std::optional<PacketFilter::Reasons> reasons = std::nullopt,
           std::vector<bool> ports = {}) {
    table = std::make_unique<TraceTable>(std::uint16_t{1}, wanted, reasons);
    ASSERT_TRUE(table->usable());
    PacketFilter filter;
    filter.ports = std::move(ports);
    tap = std::make_unique<TraceTap>(*table, filter, std::uint8_t{0}, std::uint16_t{0}, std::vector<bool>{});
    ASSERT_TRUE(rig.pipelines[0]->add_tap(*tap));
    rig.pipelines[0]->set_tracer(tap.get());
  }
  // Verdicts of every finished packet.
  std::vector<std::vector<TraceVerdict>> done() {
    std::vector<std::vector<TraceVerdict>> out;
    for (std::size_t i = 0; i < table->size(); ++i) {
      const TraceRecord& r = table->record(static_cast<int>(i));
      if (r.state.load() != TraceRecord::State::done) continue;
      out.emplace_back();
      for (std::uint32_t k = 0; k < std::min<std::uint32_t>(r.size, TraceRecord::kEvents); ++k) {
        out.back().push_back(r.events[k].verdict);
      }
      table->release(i);
    }
    return out;
  }
  void receive_one_by_one(std::uint64_t first, std::size_t count, pipeline::PortIndex out) {
    for (std::size_t i = 0; i < count; ++i) {
      rig.receive(0, {{first + i, 0, out}});
      rig.run_until_quiet();
    }
  }

  std::unique_ptr<TraceTable> table;
  std::unique_ptr<TraceTap> tap;
  Rig rig{{{"lose",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (pipeline::label_of(batch.packet[i]).id % 2 == 1)
                       context.drop(batch, i, stages::ImpairDrop::impair_loss);
                   }
                 }}},
           {"fwd", pipeline::forward()}}};
};

TEST_F(TraceTableTest, FollowsTheFirstPacketsFromPortToPort) {
  arm(2);
  rig.receive(0, {{2, 0, 1}, {1, 0, 1}, {4, 0, 1}});
  rig.run_until_quiet();
  using V = TraceVerdict;
  EXPECT_THAT(done(), ElementsAre(ElementsAre(V::received, V::passed, V::forwarded, V::queued, V::sent),
                                  ElementsAre(V::received, V::dropped)));
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(2, 4));
}

TEST_F(TraceTableTest, WithReasonsOnlyPacketsThatEndThatWayCount) {
  PacketFilter::Reasons reasons;
  reasons.set(static_cast<std::size_t>(stages::ImpairDrop::impair_loss));
  arm(1, reasons);
  receive_one_by_one(2, 1, 1);
  receive_one_by_one(6, 1, 9);
  EXPECT_THAT(done(), IsEmpty());
  receive_one_by_one(3, 1, 1);
  receive_one_by_one(5, 1, 1);
  EXPECT_THAT(done(), ElementsAre(ElementsAre(TraceVerdict::received, TraceVerdict::dropped)));
}

TEST_F(TraceTableTest, PortsChooseWherePacketsCome) {
  arm(5, std::nullopt, {false, true, false, false});
  rig.receive(0, {{2, 0, 1}});
  rig.receive(1, {{4, 0, 1}});
  rig.run_until_quiet();
  EXPECT_EQ(done().size(), 1U);
}

TEST_F(TraceTableTest, OffersThatADeviceDoesNotTakeAreNotTold) {
  arm(1);
  rig.devices[1]->behaviour = [](rte_mbuf**, std::uint16_t) { return pipeline::TxResult{}; };
  rig.receive(0, {{2, 0, 1}});
  rig.run_until_quiet();
  EXPECT_EQ(table->record(0).size.load(), 4U);
  EXPECT_EQ(table->record(0).state.load(), TraceRecord::State::open);
  rig.devices[1]->behaviour = nullptr;
  rig.run_until_quiet();
  EXPECT_EQ(done().at(0).back(), TraceVerdict::sent);
}

TEST_F(TraceTableTest, MorePacketsOnTheirWayThanRecordsAreMissedAndCounted) {
  arm(1000);
  rig.devices[1]->behaviour = [](rte_mbuf**, std::uint16_t) { return pipeline::TxResult{}; };
  std::vector<Label> many;
  for (std::uint64_t i = 0; i < 100; ++i) many.push_back({2 * i, 0, 1});
  rig.receive(0, many);
  EXPECT_EQ(table->missed(), 100 - TraceTable::kPerWorker);
  EXPECT_EQ(done().size(), 0U);
}

TEST_F(TraceTableTest, ACopyIsNotThePacket) {
  arm(1);
  rte_mbuf* m = rig.packet({2, 0, 1});
  const int handle = table->open(0, m);
  ASSERT_NE(handle, pipeline::Tracer::kNone);
  rte_mbuf* copy = rte_pktmbuf_clone(m, rig.pool());
  EXPECT_EQ(table->find(m), handle);
  EXPECT_EQ(table->find(copy), pipeline::Tracer::kNone);
  table->mark(handle, copy);
  EXPECT_EQ(table->find(copy), handle);
  EXPECT_EQ(table->find(m), pipeline::Tracer::kNone);
  table->close(handle);
  EXPECT_EQ(table->find(copy), pipeline::Tracer::kNone);
  rte_pktmbuf_free(copy);
  rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace weft::capture
