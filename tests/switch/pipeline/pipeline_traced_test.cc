// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "switch/stages/impair/drops.h"
#include "switch/stages/l3/drops.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string text(std::uint64_t id) {
  return std::to_string(id);
}

std::string name_of(DropReason reason) {
  DropReasons reasons;
  reasons.add(stages::ImpairDrop::block());
  reasons.add(stages::L3Drop::block());
  return std::string(reasons[reason].name);
}

// Writes down every call.
class RecordingTap : public Tap {
 public:
  void received(TimeNs, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
    calls.push_back("received p" + text(port) + ids(packets, count));
  }
  void sending(TimeNs, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
    calls.push_back("sending p" + text(port) + ids(packets, count));
  }
  void sent(std::uint16_t taken, std::uint16_t rejected) noexcept override {
    calls.push_back("sent " + text(taken) + " rejected " + text(rejected));
  }
  void dropped(TimeNs, const rte_mbuf* packet, DropReason reason) noexcept override {
    calls.push_back("dropped " + text(label_of(packet).id) + " " + name_of(reason));
  }
  std::vector<std::string> calls;

 private:
  static std::string ids(rte_mbuf* const* packets, std::uint16_t count) {
    std::string out;
    for (std::uint16_t i = 0; i < count; ++i) out += " " + text(label_of(packets[i]).id);
    return out;
  }
};

TEST(Tap, SeesPacketsAsTheyComeAndLeaveAndDrop) {
  RecordingTap tap;
  Rig rig({{"lose",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (label_of(batch.packet[i]).id == 2) context.drop(batch, i, stages::ImpairDrop::impair_loss);
                   }
                 }}},
           {"fwd", forward()}});
  ASSERT_TRUE(rig.pipelines[0]->add_tap(tap));
  rig.receive(1, {{1, 0, 3}, {2, 0, 3}, {3, 0, 9}});
  rig.run_until_quiet();
  EXPECT_THAT(tap.calls, ElementsAre("received p1 1 2 3", "dropped 2 impair_loss", "sending p3 1", "sent 1 rejected 0",
                                     "dropped 3 no_egress"));
}

TEST(Tap, IsToldAgainOfWhatABusyDeviceLeft) {
  RecordingTap tap;
  Rig rig({{"fwd", forward()}});
  ASSERT_TRUE(rig.pipelines[0]->add_tap(tap));
  rig.devices[0]->behaviour = [&rig](rte_mbuf** packets, std::uint16_t) { return rig.devices[0]->take(packets, 1); };
  rig.receive(0, {{1, 0, 0}, {2, 0, 0}});
  rig.run_until_quiet();
  EXPECT_THAT(tap.calls, ElementsAre("received p0 1 2", "sending p0 1 2", "sent 1 rejected 0", "sending p0 2",
                                     "sent 1 rejected 0"));
}

TEST(Tap, HearsNothingOnceItIsRemoved) {
  RecordingTap first;
  RecordingTap second;
  Rig rig({{"fwd", forward()}});
  ASSERT_TRUE(rig.pipelines[0]->add_tap(first));
  ASSERT_TRUE(rig.pipelines[0]->add_tap(second));
  rig.pipelines[0]->remove_tap(first);
  rig.pipelines[0]->remove_tap(first);
  rig.receive(0, {{1, 0, 0}});
  EXPECT_THAT(first.calls, IsEmpty());
  EXPECT_THAT(second.calls, ElementsAre("received p0 1", "sending p0 1", "sent 1 rejected 0"));
  for (std::size_t i = 1; i < Pipeline::kMaxTaps; ++i) EXPECT_TRUE(rig.pipelines[0]->add_tap(first));
  EXPECT_FALSE(rig.pipelines[0]->add_tap(first));
}

TEST(Tap, ThatSeesNoTrafficHearsOfDropsAloneAmongOthersThatDo) {
  class DropTap : public RecordingTap {
   public:
    [[nodiscard]] bool sees_traffic() const noexcept override { return false; }
  };
  DropTap drops;
  RecordingTap all;
  RecordingTap last;
  Rig rig({{"fwd", forward()}});
  ASSERT_TRUE(rig.pipelines[0]->add_tap(drops));
  ASSERT_TRUE(rig.pipelines[0]->add_tap(all));
  ASSERT_TRUE(rig.pipelines[0]->add_tap(last));
  rig.receive(0, {{1, 0, 0}, {2, 0, 9}});
  EXPECT_THAT(drops.calls, ElementsAre("dropped 2 no_egress"));
  EXPECT_EQ(all.calls.size(), 4u);
  EXPECT_EQ(last.calls, all.calls);
  rig.pipelines[0]->remove_tap(all);
  rig.receive(0, {{3, 0, 0}, {4, 0, 9}});
  EXPECT_THAT(drops.calls, ElementsAre("dropped 2 no_egress", "dropped 4 no_egress"));
  EXPECT_EQ(all.calls.size(), 4u);
  EXPECT_EQ(last.calls.size(), 8u);
}

// Follows the packets whose label is in `wanted`; the handle is the label.
class RecordingTracer : public Tracer {
 public:
  explicit RecordingTracer(std::set<std::uint64_t> wanted) : wanted_(std::move(wanted)) {}
  void received(TimeNs, PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
  void sending(TimeNs, PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
  void sent(std::uint16_t, std::uint16_t) noexcept override {}
  void dropped(TimeNs, const rte_mbuf* m, DropReason reason) noexcept override {
    const int handle = find(m);
    if (handle == kNone) return;
    add(handle, "dropped at " + place(at_) + " " + name_of(reason));
    close(handle);
  }
  [[nodiscard]] int find(const rte_mbuf* m) const noexcept override {
    const std::uint64_t id = label_of(m).id;
    return wanted_.contains(id) && !closed_.contains(static_cast<int>(id)) ? static_cast<int>(id) : kNone;
  }
  [[nodiscard]] bool open(int handle) const noexcept override { return !closed_.contains(handle); }
  void enter(int, TracePlace place) noexcept override { at_ = place; }
  void note(int handle, const TraceEvent& event) noexcept override {
    constexpr const char* kNames[]{"received",   "passed",      "forwarded", "grouped", "held", "consumed",
                                   "dispatched", "handed_over", "queued",    "dropped", "sent", "lost_sight"};
    std::string line = place(event.place) + " " + kNames[static_cast<std::size_t>(event.verdict)];
    if (event.verdict == TraceVerdict::forwarded) line += " p" + text(event.port);
    if (event.verdict == TraceVerdict::handed_over || event.verdict == TraceVerdict::queued)
      line += " " + text(event.detail);
    if (event.copies != 0) line += " copies " + text(event.copies);
    add(handle, line);
  }
  void moved(int, rte_mbuf*) noexcept override {}
  void close(int handle) noexcept override { closed_.insert(handle); }

  std::vector<std::string> lines;

 private:
  static std::string place(TracePlace p) {
    if (p.stage == TracePlace::kAdmission) return "admission";
    return (p.egress ? "egress " : "ingress ") + text(p.stage);
  }
  void add(int handle, const std::string& line) {
    lines.push_back(text(static_cast<std::uint64_t>(handle)) + ": " + line);
  }
  std::set<std::uint64_t> wanted_;
  std::set<int> closed_;
  TracePlace at_{};
};

void attach(Rig& rig, RecordingTracer& tracer) {
  for (auto& p : rig.pipelines) {
    ASSERT_TRUE(p->add_tap(tracer));
    p->set_tracer(&tracer);
  }
}

TEST(PipelineTraced, EveryStageGivesAVerdict) {
  RecordingTracer tracer({2});
  Rig rig({{"look", Script{}}, {"fwd", forward()}, {"out", {.egress = [](Context&, PortIndex, Batch&) {}}}});
  attach(rig, tracer);
  rig.receive(0, {{1, 0, 1}, {2, 0, 3}, {3, 0, 3}});
  rig.run_until_quiet();
  EXPECT_THAT(tracer.lines, ElementsAre("2: ingress 0 passed", "2: ingress 1 forwarded p3", "2: ingress 2 passed",
                                        "2: admission queued 0", "2: egress 2 passed"));
  EXPECT_EQ(rig.devices[1]->ids(), std::vector<std::uint64_t>{1});
  EXPECT_THAT(rig.devices[3]->ids(), ElementsAre(2, 3));
}

TEST(PipelineTraced, StagesAreToldWhichPacketIsTraced) {
  RecordingTracer tracer({2});
  std::vector<std::pair<std::uint64_t, bool>> told;
  Script look;
  look.ingress = [&](Context& context, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      told.emplace_back(label_of(batch.packet[i]).id, context.traced());
    }
  };
  Rig rig({{"look", look}, {"fwd", forward()}});
  attach(rig, tracer);
  rig.receive(0, {{1, 0, 1}, {2, 0, 3}, {3, 0, 3}});
  EXPECT_THAT(told, ElementsAre(std::pair(1, false), std::pair(2, true), std::pair(3, false)));
  rig.run_until_quiet();
}

TEST(PipelineTraced, DropsAndConsumptionNameTheirPlace) {
  RecordingTracer tracer({1, 2, 3});
  Rig rig({{"take",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     const std::uint64_t id = label_of(batch.packet[i]).id;
                     if (id == 1) context.drop(batch, i, stages::L3Drop::no_route);
                     if (id == 2) context.consume(batch, i);
                   }
                 }}},
           {"fwd", forward()}});
  attach(rig, tracer);
  rig.receive(0, {{1, 0, 0}, {2, 0, 0}, {3, 0, 9}});
  EXPECT_THAT(tracer.lines,
              ElementsAre("1: dropped at ingress 0 no_route", "2: ingress 0 consumed", "3: ingress 0 passed",
                          "3: ingress 1 forwarded p9", "3: dropped at admission no_egress"));
}

TEST(PipelineTraced, AHeldPacketIsFollowedWhenItGoesOn) {
  RecordingTracer tracer({5});
  std::vector<rte_mbuf*> kept;
  Rig rig({{"hold",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     kept.push_back(batch.packet[i]);
                     batch.remove(i);
                   }
                 },
             .deadline = [&](std::uint16_t) { return kept.empty() ? kNever : TimeNs{1'000'000'500}; },
             .timer =
                 [&](Context& context) {
                   for (rte_mbuf* m : kept) context.resume(m);
                   kept.clear();
                 },
             .held = [&](std::uint16_t) { return kept.size(); }}},
           {"fwd", forward()}});
  attach(rig, tracer);
  rig.receive(0, {{4, 0, 1}, {5, 0, 1}, {6, 0, 1}});
  EXPECT_THAT(tracer.lines, ElementsAre("5: ingress 0 held"));
  rig.advance_to(1'000'001'000);
  EXPECT_THAT(tracer.lines, ElementsAre("5: ingress 0 held", "5: ingress 1 forwarded p1", "5: admission queued 1"));
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(4, 5, 6));
}

TEST(PipelineTraced, CopiesAndPacketsSentPastTheRestAreTold) {
  RecordingTracer tracer({1, 2});
  Rig rig({{"flood",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (label_of(batch.packet[i]).id == 1) context.send(context.replicate(batch.packet[i]), 2);
                     if (label_of(batch.packet[i]).id == 2) {
                       batch.remove(i);
                       context.send(batch.packet[i], 3);
                     }
                   }
                 }}},
           {"fwd", forward()}});
  attach(rig, tracer);
  rig.receive(0, {{1, 0, 0}, {2, 0, 0}});
  EXPECT_THAT(tracer.lines, ElementsAre("1: ingress 0 passed copies 1", "1: ingress 1 forwarded p0",
                                        "1: admission queued 0", "2: ingress 0 dispatched"));
  rig.run_until_quiet();
  EXPECT_EQ(rig.devices[2]->ids(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(rig.devices[3]->ids(), std::vector<std::uint64_t>{2});
}

TEST(PipelineTraced, AnotherWorkerGoesOn) {
  // Flows 0 and 1 belong to different workers, port p to worker p % 2.
  RecordingTracer tracer({1, 2});
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2});
  attach(rig, tracer);
  const std::uint16_t owner_of_0 = [&] {
    wire::Parsed parsed{};
    return rig.state->owner_of(parsed);
  }();
  ASSERT_EQ(owner_of_0, 0);
  rig.receive(1, {{1, 0, 0}});
  rig.receive(0, {{2, 0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(tracer.lines, ElementsAre("1: ingress 0 passed", "1: ingress 0 handed_over 0", "2: ingress 0 passed",
                                        "2: ingress 1 forwarded p1", "2: admission handed_over 1",
                                        "1: ingress 1 forwarded p0", "1: admission queued 0"));
}

}  // namespace
}  // namespace weft::pipeline
