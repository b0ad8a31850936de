// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// When stages are called without packets, in which order, and what they are asked meanwhile.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

constexpr TimeNs kStart = 1'000'000'000;  // of the rig

using Calls = std::vector<std::string>;

/// What a worker without packets does, once.
void idle(Rig& rig) {
  rig.pipelines[0]->run_timers(rig.now);
  static_cast<void>(rig.pipelines[0]->stage_deadline());
}

/// Sets timers in its ingress half, and writes down when which of them came.
Script alarm(Calls& calls, std::string name, std::vector<std::pair<std::uint32_t, TimeNs>> set,
             std::uint32_t timers = 2) {
  return {.ingress =
              [set](Context& context, Batch&) {
                for (const auto& [token, time] : set) context.at(time, token);
              },
          .timers = timers,
          .token =
              [&calls, name](Context& context, std::uint32_t token) {
                calls.push_back(name + std::to_string(token) + "@" + std::to_string(context.now - kStart));
              }};
}

TEST(PipelineTimers, AnIdleWorkerAsksNoStageThatHasNothingToWaitFor) {
  int asked = 0;
  Rig rig({{"idle",
            {.deadline =
                 [&](std::uint16_t) {
                   ++asked;
                   return kNever;
                 },
             .has_mail =
                 [&](std::uint16_t) {
                   ++asked;
                   return true;
                 }}},
           {"fwd", forward()}});
  EXPECT_EQ(asked, 1) << "at the beginning";
  for (int loop = 0; loop < 100; ++loop) idle(rig);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
}

TEST(PipelineTimers, AWorkerSleepsToTheFirstTimerOfAllStages) {
  Calls calls;
  Rig rig({{"a", alarm(calls, "a", {{0, kStart + 300}, {1, kStart + 100}})},
           {"b", alarm(calls, "b", {{1, kStart + 50}})},
           {"fwd", forward()}});
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
  rig.receive(0, {{1, 0, 1}});
  for (const TimeNs time : {50, 100, 300}) {
    EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kStart + time);
    rig.advance_to(kStart + time);
  }
  EXPECT_THAT(calls, ElementsAre("b1@50", "a1@100", "a0@300"));
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever) << "a timer that has come is off";
}

TEST(PipelineTimers, WhatIsDueAtOnceComesByTimeThenStageThenToken) {
  Calls calls;
  Rig rig({{"a", alarm(calls, "a", {{2, kStart + 10}, {1, kStart + 20}, {0, kStart + 20}}, 3)},
           {"b", alarm(calls, "b", {{1, kStart + 10}, {0, kStart + 5}})},
           {"c", alarm(calls, "c", {{0, kStart + 20}})},
           {"fwd", forward()}});
  rig.receive(0, {{1, 0, 1}});
  rig.now = kStart + 30;  // the worker was late
  rig.pipelines[0]->run_timers(rig.now);
  EXPECT_THAT(calls, ElementsAre("b0@30", "a2@30", "b1@30", "a0@30", "a1@30", "c0@30"));
}

TEST(PipelineTimers, AskingAgainMovesATimerForwardAndBackAndTakesItBack) {
  Calls calls;
  Rig rig({{"a", alarm(calls, "a", {{0, kStart + 10}, {0, kStart + 40}, {0, kStart + 40}, {1, kStart + 90}})},
           {"b", alarm(calls, "b", {{1, kStart + 90}, {1, kStart + 20}, {0, kStart + 15}, {0, kNever}, {0, kNever}})},
           {"fwd", forward()}});
  rig.receive(0, {{1, 0, 1}});
  rig.advance_to(kStart + 60);
  EXPECT_THAT(calls, ElementsAre("b1@20", "a0@40"));
}

TEST(PipelineTimers, AtLatestMovesATimerForwardAloneWhateverChangesItFromOutside) {
  TimeNs wanted = kStart + 9;
  Rig rig(
      {{"stage", {.ingress = [&](Context& context, Batch&) { context.at_latest(wanted); }, .timer = [](Context&) {}}},
       {"fwd", forward()}});
  const auto after_a_packet = [&] {
    rig.receive(0, {{1, 0, 1}});
    return rig.pipelines[0]->stage_deadline();
  };
  EXPECT_EQ(after_a_packet(), kStart + 9);
  wanted = kStart + 12;
  EXPECT_EQ(after_a_packet(), kStart + 9);
  wanted = kNever;
  EXPECT_EQ(after_a_packet(), kStart + 9);
  wanted = kStart + 7;
  EXPECT_EQ(after_a_packet(), kStart + 7);
  rig.pipelines[0]->change_stage(0, [](Stage&) {});
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
  wanted = kStart + 12;
  EXPECT_EQ(after_a_packet(), kStart + 12);
}

TEST(PipelineTimers, ATimerThatAsksForNowComesOncePerRun) {
  int calls = 0;
  Rig rig({{"again",
            {.ingress = [](Context& context, Batch&) { context.at(context.now); },
             .token =
                 [&](Context& context, std::uint32_t) {
                   if (++calls < 3) context.at(context.now);
                 }}},
           {"fwd", forward()}});
  rig.receive(0, {{1, 0, 1}});
  for (const int expected : {1, 2, 3, 3}) {
    rig.pipelines[0]->run_timers(rig.now);
    EXPECT_EQ(calls, expected);
  }
}

// Packet 1 sets the second stage's timer. Packet 2, which the first timer lets go in the same run, moves it.
TEST(PipelineTimers, ATimerThatAnEarlierCallMovesIsNotDueAnyMore) {
  for (const TimeNs moved : {kNever, kStart + 500}) {
    Calls calls;
    std::vector<rte_mbuf*> kept;
    Rig rig({{"hold",
              {.ingress =
                   [&](Context& context, Batch& batch) {
                     if (label_of(batch.packet[0]).id == 1) return;
                     kept.push_back(batch.packet[0]);
                     batch.remove(0);
                     context.at(kStart + 10);
                   },
               .held = [&](std::uint16_t) { return kept.size(); },
               .token =
                   [&](Context& context, std::uint32_t) {
                     calls.push_back("hold");
                     context.resume(std::exchange(kept, {}).at(0));
                   }}},
             {"late",
              {.ingress = [&](Context& context,
                              Batch& batch) { context.at(label_of(batch.packet[0]).id == 1 ? kStart + 10 : moved, 1); },
               .timers = 2,
               .token = [&](Context&, std::uint32_t token) { calls.push_back("late" + std::to_string(token)); }}},
             {"fwd", forward()}});
    rig.receive(0, {{1, 0, 1}});
    rig.receive(0, {{2, 0, 1}});
    rig.advance_to(kStart + 499);
    EXPECT_THAT(calls, ElementsAre("hold"));
    rig.advance_to(kStart + 500);
    EXPECT_EQ(calls.size(), moved == kNever ? 1u : 2u);
  }
}

TEST(PipelineTimers, MailIsTakenBetweenBurstsAndKeepsTheWorkerAwake) {
  bool mail = false;
  int taken = 0;
  Rig rig({{"mailbox",
            {.has_mail = [&](std::uint16_t) { return mail; },
             .mail =
                 [&](Context&) {
                   ++taken;
                   mail = false;
                 }}},
           {"fwd", forward()}});
  idle(rig);
  EXPECT_EQ(taken, 0);
  mail = true;
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), 0u);
  rig.pipelines[0]->run_timers(rig.now);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
}

// A command, a flush and a change of links may move what a stage waits for, without a Context or past Context::at().
TEST(PipelineTimers, AStageIsAskedAfterWhatChangesItFromOutside) {
  TimeNs deadline = kNever;
  Rig rig(
      {{"stage", {.deadline = [&](std::uint16_t) { return deadline; }, .timer = [](Context&) {}}}, {"fwd", forward()}});
  rig.pipelines[0]->change_stage(0, [&](Stage&) { deadline = kStart + 7; });
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kStart + 7);
  deadline = kStart + 5;
  rig.state->set_link(2, false);
  rig.pipelines[0]->run_timers(kStart);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kStart + 5);
  deadline = kNever;
  rig.pipelines[0]->flush_stages(kStart);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
}

}  // namespace
}  // namespace weft::pipeline
