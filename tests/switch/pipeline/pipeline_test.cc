// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/pipeline.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "switch/stages/impair/drops.h"
#include "switch/stages/parse/drops.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Label> burst(std::uint64_t first, std::size_t count, PortIndex out = 0) {
  std::vector<Label> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back({first + i, 0, out});
  return labels;
}

std::vector<std::uint64_t> ids(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// --- the ingress half ---

TEST(Pipeline, StagesSeeABurstInTheirOrder) {
  std::vector<std::string> calls;
  const auto note = [&calls](std::string name) {
    return Script{.ingress = [&calls, name](Context&, Batch& batch) {
      calls.push_back(name + ":" + std::to_string(batch.size));
    }};
  };
  Rig rig({{"a", note("a")}, {"b", note("b")}, {"c", forward()}});
  rig.receive(1, burst(1, 5, 2));
  rig.run_until_quiet();
  EXPECT_THAT(calls, ElementsAre("a:5", "b:5"));
  EXPECT_EQ(rig.devices[2]->ids(), ids(1, 5));
  EXPECT_EQ(rig.pipelines[0]->ingress_totals(0).packets.value(), 5u);
  EXPECT_EQ(rig.pipelines[0]->ingress_totals(0).bursts.value(), 1u);
}

TEST(Pipeline, ReceptionSaysWhereAndWhenAPacketCame) {
  PacketMeta seen{};
  Rig rig({{"look", {.ingress = [&](Context&, Batch& batch) { seen = meta(batch.packet[0]); }}}, {"fwd", forward()}});
  rig.now = 1'234'567'890;
  rig.receive(3, burst(1, 1));
  EXPECT_EQ(seen.in_port, 3);
  EXPECT_EQ(seen.out_port, kNoPort);
  EXPECT_EQ(seen.arrived, 1'234'567'890u);
  EXPECT_EQ(seen.qp_handle, 0u);
  EXPECT_EQ(seen.queue_class, 0);
  EXPECT_EQ(rig.pipelines[0]->port_totals(3).rx.value(), 1u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(3).rx_bytes.value(), 64u);
  EXPECT_EQ(rig.pipelines[0]->totals().rx_bytes.value(), 64u);
}

TEST(Pipeline, DroppedAndConsumedPacketsReachNoLaterStage) {
  Rig rig({{"take",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     const std::uint64_t id = label_of(batch.packet[i]).id;
                     if (id % 3 == 0) context.drop(batch, i, stages::ImpairDrop::impair_loss);
                     if (id % 3 == 1) context.consume(batch, i);
                   }
                 }}},
           {"fwd", forward()}});
  rig.receive(0, burst(0, 6));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(2, 5));
  EXPECT_EQ(rig.dropped(stages::ImpairDrop::impair_loss), 2u);
  EXPECT_EQ(rig.pipelines[0]->totals().consumed.value(), 2u);
}

TEST(Pipeline, DropsAreCountedByReasonAtThePortWherePacketsCameIn) {
  constexpr auto lost = std::size_t(stages::ImpairDrop::impair_loss), no_egress = std::size_t(DropReason::no_egress);
  Rig rig({{"lose", {.ingress = [](Context& context, Batch& batch) {
              for (std::uint16_t i = 0; i < batch.size; ++i) {
                if (label_of(batch.packet[i]).id < 3) context.drop(batch, i, stages::ImpairDrop::impair_loss);
              }
            }}}});
  rig.receive(1, burst(1, 5, 2));
  rig.receive(2, burst(2, 1, 2));
  rig.run_until_quiet();
  const auto& first = rig.pipelines[0]->port_totals(1).in_dropped;
  const auto& second = rig.pipelines[0]->port_totals(2).in_dropped;
  EXPECT_THAT((std::array{first[lost].value(), first[no_egress].value()}), ElementsAre(2, 3));
  EXPECT_THAT((std::array{second[lost].value(), second[no_egress].value()}), ElementsAre(1, 0));
}

TEST(Pipeline, ABurstThatAStageTookWholeCallsNoLaterStage) {
  int calls = 0;
  Rig rig({{"take",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) context.consume(batch, i);
                 }}},
           {"later", {.ingress = [&](Context&, Batch&) { ++calls; }}}});
  rig.receive(0, burst(0, Batch::kCapacity));
  EXPECT_EQ(calls, 0);
}

TEST(Pipeline, APacketThatNoStageGaveAPortIsDropped) {
  Rig rig({{"look", Script{}}});
  rig.receive(0, burst(0, 3));
  EXPECT_EQ(rig.dropped(DropReason::no_egress), 3u);
}

TEST(Pipeline, PortsThatDoNotExistAreNoPorts) {
  Rig rig({{"fwd", forward()}});
  rig.receive(0, {{1, 0, 4}, {2, 0, kGroupPort}, {3, 0, kNoPort}});
  EXPECT_EQ(rig.dropped(DropReason::no_egress), 3u);
}

TEST(Pipeline, AnEmptyPacketWithoutAPortIsDroppedLikeAnyOther) {
  Rig rig({{"look", Script{}}});
  rte_mbuf* m = rte_pktmbuf_alloc(rig.pool());
  rig.pipelines[0]->receive(rig.now, 0, &m, 1);
  EXPECT_EQ(rig.dropped(DropReason::no_egress), 1u);
}

TEST(PipelineDeathTest, ABurstLargerThanABatchIsOurOwnMistake) {
  Rig rig({{"look", Script{}}});
  rte_mbuf* packets[Batch::kCapacity + 1]{};
  EXPECT_DEATH(rig.pipelines[0]->receive(rig.now, 0, packets, Batch::kCapacity + 1), "kCapacity");
}

// --- packets that go on later ---

TEST(Pipeline, PacketsResumedInIngressFollowTheBatchInTheirOrder) {
  Rig rig({{"hold",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (label_of(batch.packet[i]).id % 2 != 0) continue;
                     batch.remove(i);
                     context.resume(batch.packet[i]);
                   }
                 }}},
           {"fwd", forward()}});
  rig.receive(0, burst(0, 6));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 3, 5, 0, 2, 4));
}

TEST(Pipeline, ResumingMoreThanABatchKeepsOrderAndFollowsTheBatch) {
  std::vector<rte_mbuf*> kept;
  std::vector<std::uint16_t> sizes;
  Rig rig({{"hold",
            {.ingress =
                 [&](Context& context, Batch& batch) {
                   if (label_of(batch.packet[0]).id < 1000) {
                     for (std::uint16_t i = 0; i < batch.size; ++i) {
                       batch.remove(i);
                       kept.push_back(batch.packet[i]);
                     }
                     return;
                   }
                   for (rte_mbuf* m : kept) context.resume(m);
                   kept.clear();
                 },
             .held = [&](std::uint16_t) { return kept.size(); }}},
           {"size", {.ingress = [&](Context&, Batch& batch) { sizes.push_back(batch.size); }}},
           {"fwd", forward()}});
  for (std::uint64_t i = 0; i < 5; ++i) rig.receive(0, burst(i * 50, 50));
  EXPECT_EQ(rig.pipelines[0]->held(), 250u);
  rig.receive(0, burst(1000, 10));
  rig.run_until_quiet();
  std::vector<std::uint64_t> expected = ids(1000, 10);
  for (const std::uint64_t id : ids(0, 250)) expected.push_back(id);
  EXPECT_EQ(rig.devices[0]->ids(), expected);
  EXPECT_THAT(sizes, ElementsAre(64, 64, 64, 64, 4));
}

TEST(Pipeline, PacketsResumedFromATimerSkipTheStagesBeforeAndTheHolderItself) {
  std::vector<rte_mbuf*> kept;
  std::vector<std::string> calls;
  TimeNs deadline = kNever;
  Rig rig({{"first", {.ingress = [&](Context&, Batch&) { calls.push_back("first"); }}},
           {"hold",
            {.ingress =
                 [&](Context& context, Batch& batch) {
                   calls.push_back("hold");
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     batch.remove(i);
                     kept.push_back(batch.packet[i]);
                   }
                   deadline = context.now + 500;
                 },
             .deadline = [&](std::uint16_t) { return deadline; },
             .timer =
                 [&](Context& context) {
                   calls.push_back("timer@" + std::to_string(context.now));
                   for (rte_mbuf* m : kept) context.resume(m);
                   kept.clear();
                   deadline = kNever;
                 },
             .held = [&](std::uint16_t) { return kept.size(); }}},
           {"fwd", forward()}});
  rig.receive(0, burst(7, 3));
  EXPECT_EQ(rig.pipelines[0]->next_deadline(), rig.now + 500);
  const TimeNs due = rig.now + 500;
  rig.now = due - 1;
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), IsEmpty());
  rig.now = due;
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(7, 8, 9));
  EXPECT_THAT(calls, ElementsAre("first", "hold", "timer@" + std::to_string(due)));
  EXPECT_EQ(rig.pipelines[0]->next_deadline(), kNever);
}

TEST(Pipeline, ADeadlineInThePastCallsTheTimerOncePerRun) {
  int calls = 0;
  Rig rig({{"timer",
            {.deadline = [&](std::uint16_t) { return calls < 3 ? TimeNs{5} : kNever; },
             .timer = [&](Context&) { ++calls; }}}});
  EXPECT_EQ(rig.pipelines[0]->next_deadline(), 5u);
  rig.pipelines[0]->run_timers(rig.now);
  EXPECT_EQ(calls, 1);
  rig.pipelines[0]->run_timers(rig.now);
  rig.pipelines[0]->run_timers(rig.now);
  rig.pipelines[0]->run_timers(rig.now);
  EXPECT_EQ(calls, 3);
}

TEST(Pipeline, ResumedPacketsCarryTheTimeOfTheirArrival) {
  rte_mbuf* kept = nullptr;
  TimeNs seen = 0;
  Rig rig({{"hold",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   batch.remove(0);
                   kept = batch.packet[0];
                 },
             .held = [&](std::uint16_t) { return kept != nullptr ? 1 : 0; },
             .flush =
                 [&](Context& context) {
                   if (kept != nullptr) context.resume(std::exchange(kept, nullptr));
                 }}},
           {"look", {.ingress = [&](Context&, Batch& batch) { seen = meta(batch.packet[0]).arrived; }}},
           {"fwd", forward()}});
  rig.receive(0, burst(1, 1));
  rig.now += 777;
  rig.pipelines[0]->flush_stages(rig.now);
  EXPECT_EQ(seen, rig.now - 777);
}

TEST(Pipeline, FlushedPacketsMayBeHeldAgainByALaterStageWhichIsThenFlushed) {
  std::vector<rte_mbuf*> kept[2];
  const auto hold = [&kept](int which) {
    return Script{.ingress =
                      [&kept, which](Context&, Batch& batch) {
                        for (std::uint16_t i = 0; i < batch.size; ++i) {
                          batch.remove(i);
                          kept[which].push_back(batch.packet[i]);
                        }
                      },
                  .held = [&kept, which](std::uint16_t) { return kept[which].size(); },
                  .flush =
                      [&kept, which](Context& context) {
                        for (rte_mbuf* m : kept[which]) context.resume(m);
                        kept[which].clear();
                      }};
  };
  Rig rig({{"a", hold(0)}, {"b", hold(1)}, {"fwd", forward()}});
  rig.receive(0, burst(1, 3));
  rig.pipelines[0]->flush_stages(rig.now);
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 2, 3));
}

// --- admission and the egress half ---

TEST(Pipeline, TheEgressHalfRunsJustBeforeTheDeviceAndMayTakePackets) {
  std::vector<std::string> calls;
  const auto note = [&](std::string name) {
    return [&calls, name](Context&, PortIndex port, Batch& batch) {
      calls.push_back(name + std::to_string(port) + ":" + std::to_string(batch.size));
    };
  };
  Rig rig({{"a", {.egress = note("a")}},
           {"fwd", forward()},
           {"b",
            {.egress =
                 [&](Context& context, PortIndex port, Batch& batch) {
                   note("b")(context, port, batch);
                   context.drop(batch, 0, stages::ImpairDrop::impair_loss);
                   context.consume(batch, 1);
                 }}},
           {"c", {.egress = note("c")}}});
  rig.receive(0, burst(1, 4, 2));
  EXPECT_THAT(calls, IsEmpty());
  rig.run_until_quiet();
  EXPECT_THAT(calls, ElementsAre("a2:4", "b2:4", "c2:2"));
  EXPECT_THAT(rig.devices[2]->ids(), ElementsAre(3, 4));
}

TEST(Pipeline, ABurstForManyPortsReachesEachInOrderWithItsBytes) {
  constexpr std::uint16_t kPorts = 8;
  Rng rng(1);
  for (std::uint16_t used = 1; used <= kPorts; ++used) {
    for (int again = 0; again < 20; ++again) {
      Rig rig({{"fwd", forward()}}, {.ports = kPorts});
      std::vector<rte_mbuf*> packets;
      std::vector<std::vector<std::uint64_t>> expected(kPorts);
      std::vector<std::uint64_t> bytes(kPorts);
      for (std::uint64_t id = 0; id < Batch::kCapacity; ++id) {
        const auto out = static_cast<PortIndex>(rng.below(used));
        const auto length = static_cast<std::uint16_t>(64 + id);
        packets.push_back(rig.packet({id, 0, out}, length));
        expected[out].push_back(id);
        bytes[out] += length;
      }
      rig.pipelines[0]->receive(rig.now, 0, packets.data(), Batch::kCapacity);
      rig.run_until_quiet();
      for (PortIndex port = 0; port < kPorts; ++port) {
        ASSERT_EQ(rig.devices[port]->ids(), expected[port]) << used << " ports, port " << port;
        ASSERT_EQ(rig.pipelines[0]->port_totals(port).tx_bytes.value(), bytes[port]) << used << " ports, port " << port;
      }
    }
  }
}

TEST(Pipeline, AFullQueueDropsExactlyWhatDoesNotFit) {
  // A queue that emulates nothing is passed by while it is empty.
  Rig rig({{"fwd", forward()}}, {.queue_packets = 10, .delay_ns = 1});
  rig.receive(0, burst(1, 15, 1));
  EXPECT_EQ(rig.dropped(DropReason::egress_queue_full), 5u);
  EXPECT_EQ(rig.pipelines[0]->queue_depth(1), 10u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).dropped.value(), 5u);
  rig.advance_to(rig.now + 2);
  EXPECT_EQ(rig.devices[1]->ids(), ids(1, 10));
}

TEST(Pipeline, APortGetsAnotherMtuWhilePacketsFlow) {
  Rig rig({{"fwd", forward()}});
  const std::uint32_t before = rig.state->mtu_bytes(1);
  EXPECT_EQ(before, rig.state->info().ports[1].mtu_bytes);
  const auto send = [&](std::uint32_t number) {
    rte_mbuf* m = rig.packet({number, 0, 1}, 300);
    rig.pipelines[0]->receive(rig.now, 0, &m, 1);
    rig.run_until_quiet();
  };
  send(1);
  rig.state->set_mtu(1, 200);
  EXPECT_EQ(rig.state->mtu_bytes(1), 200u);
  send(2);
  rig.state->set_mtu(1, before);
  send(3);
  EXPECT_EQ(rig.devices[1]->ids(), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(rig.dropped(DropReason::egress_mtu), 1u);
}

TEST(Pipeline, PacketsAboveThePortsMtuAreDropped) {
  Rig rig({{"fwd", forward()}});
  const std::uint32_t largest = rig.state->info().ports[1].max_frame_bytes();
  std::vector<rte_mbuf*> packets;
  for (const std::uint32_t bytes : {largest, largest + 1}) {
    // A chain of two buffers: the sum counts.
    rte_mbuf* head = rig.packet({bytes, 0, 1}, 800);
    rte_mbuf* tail = rig.packet({0, 0, 0}, static_cast<std::uint16_t>(bytes - 800));
    ASSERT_EQ(rte_pktmbuf_chain(head, tail), 0);
    packets.push_back(head);
  }
  rig.pipelines[0]->receive(rig.now, 0, packets.data(), 2);
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(largest));
  EXPECT_EQ(rig.dropped(DropReason::egress_mtu), 1u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).dropped.value(), 1u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).tx_bytes.value(), largest);
}

TEST(Pipeline, ALinkThatGoesDownEmptiesItsQueueAndTakesNoMore) {
  Rig rig({{"fwd", forward()}}, {.rate_mbps = 1000, .delay_ns = 1'000'000});
  rig.receive(0, burst(1, 8, 1));
  rig.advance_to(rig.now + 2000);  // some are in the queue, some on the line
  EXPECT_EQ(rig.pipelines[0]->held(), 8u);
  EXPECT_LT(rig.pipelines[0]->queue_depth(1), 8u);
  rig.state->set_link(1, false);
  rig.run_until_quiet();
  EXPECT_EQ(rig.pipelines[0]->held(), 0u);
  EXPECT_EQ(rig.dropped(DropReason::egress_down), 8u);
  rig.receive(0, burst(9, 1, 1));
  EXPECT_EQ(rig.dropped(DropReason::egress_down), 9u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).dropped.value(), 9u);
  rig.state->set_link(1, true);
  rig.receive(0, burst(10, 1, 1));
  rig.advance_to(rig.now + 2'000'000);
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(10));
}

TEST(Pipeline, EmulatedRateAndDelayAreExact) {
  // 64 bytes and 24 of overhead at 1 Gbit/s are 704 ns.
  Rig rig({{"fwd", forward()}}, {.rate_mbps = 1000, .delay_ns = 5000});
  const TimeNs start = rig.now;
  rig.receive(0, burst(1, 100, 1));
  rig.advance_to(start + 1'000'000);
  ASSERT_EQ(rig.devices[1]->sent.size(), 100u);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(rig.devices[1]->sent[i].at, start + 704 * (i + 1) + 5000);
}

TEST(Pipeline, ABusyDeviceGetsItsPacketsLaterOnceAndInOrder) {
  int egress_calls = 0;
  Rig rig({{"fwd", forward()},
           {"out", {.egress = [&](Context&, PortIndex, Batch& batch) { egress_calls += batch.size; }}}});
  std::uint16_t room = 0;
  rig.devices[1]->behaviour = [&](rte_mbuf** packets, std::uint16_t count) {
    return rig.devices[1]->take(packets, std::min(count, std::exchange(room, std::uint16_t{0})));
  };
  for (std::uint64_t i = 0; i < 5; ++i) rig.receive(0, burst(1 + i * 40, 40, 1));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), IsEmpty());
  Rng rng(4);
  for (int i = 0; i < 200; ++i) {
    room = static_cast<std::uint16_t>(rng.below(7));
    rig.step(0);
    ASSERT_EQ(rig.imbalance(), "");
  }
  EXPECT_EQ(rig.devices[1]->ids(), ids(1, 200));
  EXPECT_EQ(egress_calls, 200);
}

TEST(Pipeline, SaysOnceWhenPacketsHaveComeIntoAQueue) {
  Rig direct({{"fwd", forward()}});
  direct.receive(0, burst(1, 2, 1));
  EXPECT_EQ(direct.devices[1]->ids(), ids(1, 2));
  EXPECT_FALSE(direct.pipelines[0]->queued());

  bool busy = true;
  direct.devices[1]->behaviour = [&](rte_mbuf** packets, std::uint16_t count) {
    return direct.devices[1]->take(packets, busy ? std::uint16_t{1} : count);
  };
  direct.receive(0, burst(3, 2, 1));
  EXPECT_TRUE(direct.pipelines[0]->queued());
  EXPECT_FALSE(direct.pipelines[0]->queued());
  busy = false;
  direct.run_until_quiet();
  EXPECT_EQ(direct.devices[1]->ids(), ids(1, 4));

  Rig delayed({{"fwd", forward()}}, {.delay_ns = 1});
  delayed.receive(0, burst(1, 2, 1));
  EXPECT_TRUE(delayed.pipelines[0]->queued());
  delayed.advance_to(delayed.now + 10);
  EXPECT_EQ(delayed.devices[1]->ids(), ids(1, 2));
}

TEST(Pipeline, ABusyDeviceMayReplaceWhatItDoesNotTake) {
  // As a device without scatter does: it copies a chain into one buffer, frees the chain, and then finds no room.
  Rig rig({{"fwd", forward()}});
  bool busy = true;
  std::set<rte_mbuf*> freed;  // the pool is first in, first out and large: no buffer comes back within this test
  rig.devices[1]->behaviour = [&](rte_mbuf** packets, std::uint16_t count) -> TxResult {
    for (std::uint16_t i = 0; i < count; ++i) {
      EXPECT_FALSE(freed.contains(packets[i])) << "a packet that the device has freed";
      rte_mbuf* flat = rig.packet(label_of(packets[i]));
      freed.insert(packets[i]);
      rte_pktmbuf_free(packets[i]);
      packets[i] = flat;
    }
    return busy ? rig.devices[1]->take(packets, std::min<std::uint16_t>(count, 1))
                : rig.devices[1]->take(packets, count);
  };
  rig.receive(0, burst(1, 50, 1));
  for (int i = 0; i < 20; ++i) rig.step(0);
  busy = false;
  rig.run_until_quiet();
  EXPECT_EQ(rig.devices[1]->ids(), ids(1, 50));
}

TEST(Pipeline, WhatADeviceRejectsIsCountedAsTxFailedAndNotAsSent) {
  Rig rig({{"fwd", forward()}});
  rig.devices[1]->behaviour = [&](rte_mbuf** packets, std::uint16_t count) {
    TxResult result;
    for (std::uint16_t i = 0; i < count; ++i) {
      if (label_of(packets[i]).id % 4 == 0) {
        result.rejected_bytes += packets[i]->pkt_len;
        ++result.rejected;
        rte_pktmbuf_free(packets[i]);
      } else {
        rig.devices[1]->take(packets + i, 1);
      }
      ++result.taken;
    }
    return result;
  };
  rig.receive(0, burst(1, 40, 1));
  rig.run_until_quiet();
  EXPECT_EQ(rig.dropped(DropReason::tx_failed), 10u);
  EXPECT_EQ(rig.pipelines[0]->totals().tx.value(), 30u);
  EXPECT_EQ(rig.pipelines[0]->totals().tx_bytes.value(), 30u * 64);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).tx.value(), 30u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).tx_bytes.value(), 30u * 64);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).dropped.value(), 10u);
}

TEST(Pipeline, DropQueuedLeavesNothingBehind) {
  Rig rig({{"fwd", forward()}}, {.rate_mbps = 1000, .delay_ns = 1'000'000});
  rig.receive(0, burst(1, 20, 1));
  rig.receive(0, burst(1, 20, 2));
  rig.advance_to(rig.now + 5000);
  rig.pipelines[0]->drop_queued(rig.now);
  EXPECT_EQ(rig.pipelines[0]->held(), 0u);
  EXPECT_EQ(rig.dropped(DropReason::shutdown), 40u);
}

// --- stages that listen to drops ---

TEST(Pipeline, ListenersHearOfDropsAtAndAfterAdmissionOnly) {
  std::vector<std::pair<std::uint64_t, DropReason>> heard;
  Rig rig(
      {{"early",
        {.ingress =
             [](Context& context, Batch& batch) {
               for (std::uint16_t i = 0; i < batch.size; ++i) {
                 if (label_of(batch.packet[i]).id == 1) context.drop(batch, i, stages::ImpairDrop::impair_loss);
               }
             }}},
       {"listen",
        {.drop = [&](Context&, const rte_mbuf* m, DropReason reason) { heard.emplace_back(label_of(m).id, reason); }}},
       {"fwd", forward()},
       {"late",
        {.egress =
             [](Context& context, PortIndex, Batch& batch) {
               for (std::uint16_t i = 0; i < batch.size; ++i) {
                 if (label_of(batch.packet[i]).id == 4) context.drop(batch, i, stages::ParseDrop::icrc);
               }
             }}}},
      {.queue_packets = 2});
  rig.state->set_link(3, false);
  rig.receive(0, {{1, 0, 1}, {2, 0, kNoPort}, {3, 0, 3}, {4, 0, 1}, {5, 0, 1}, {6, 0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(heard, ElementsAre(std::pair(2u, DropReason::no_egress), std::pair(3u, DropReason::egress_down),
                                 std::pair(6u, DropReason::egress_queue_full), std::pair(4u, stages::ParseDrop::icrc)));
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(5));
}

TEST(Pipeline, APacketResumedFromADropOrFromTheEgressHalfGoesOnAtOnce) {
  std::vector<rte_mbuf*> kept;
  const auto release = [&](Context& context) {
    if (kept.empty()) return;
    context.resume(kept.back());
    kept.pop_back();
  };
  Rig rig({{"hold",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (label_of(batch.packet[i]).id < 10) continue;
                     batch.remove(i);
                     kept.push_back(batch.packet[i]);
                   }
                 },
             .egress =
                 [&](Context& context, PortIndex port, Batch&) {
                   if (port == 2) release(context);
                 },
             .drop = [&](Context& context, const rte_mbuf*, DropReason) { release(context); },
             .held = [&](std::uint16_t) { return kept.size(); }}},
           {"fwd", forward()}});
  rig.receive(0, {{10, 0, 1}, {11, 0, 1}});
  rig.receive(0, {{1, 0, kNoPort}});  // the drop lets 11 go
  EXPECT_EQ(rig.pipelines[0]->queue_depth(1), 1u);
  rig.receive(0, {{2, 0, 2}});
  EXPECT_NE(rig.pipelines[0]->serve_port(rig.now, 2), 0u);  // its departure lets 10 go
  EXPECT_EQ(rig.pipelines[0]->queue_depth(1), 2u);
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(11, 10));
}

TEST(Pipeline, AListenerWhosePacketsAreDroppedTooIsNotCalledForThem) {
  int calls = 0;
  Rig rig({{"listen",
            {.drop =
                 [&](Context& context, const rte_mbuf*, DropReason) {
                   ++calls;
                   rte_mbuf* m = context.generate();
                   rte_pktmbuf_append(m, 64);
                   context.send(m, 1);
                 }}},
           {"fwd", forward()}},
          {.queue_packets = 1, .delay_ns = 1});
  rig.receive(0, burst(1, 3, 1));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(rig.dropped(DropReason::egress_queue_full), 4u);
  rig.advance_to(rig.now + 2);
}

}  // namespace
}  // namespace weft::pipeline
