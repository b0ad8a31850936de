// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/switch/pipeline/rig.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// A device whose receive function does not return while it is blocked.
class SlowDevice : public ports::Port {
 public:
  std::uint16_t receive(TimeNs, std::uint16_t, rte_mbuf**, std::uint16_t) noexcept override {
    while (blocked) {
      inside = true;
      std::this_thread::yield();
    }
    inside = false;
    return 0;
  }
  pipeline::TxResult transmit(rte_mbuf**, std::uint16_t) noexcept override { return {}; }
  [[nodiscard]] std::string description() const override { return "slow"; }

  std::atomic<bool> blocked{false}, inside{false};
};

class WorkerThread : public ::testing::Test {
 protected:
  WorkerThread() : rig_({{"parse", pipeline::parse_label()}, {"fwd", pipeline::forward()}}), rings_(1) {
    workers_.push_back(std::make_unique<Worker>(0, clock_, config::IdleMode::adaptive, 32, rings_));
    Polling polling;
    polling.add(*rig_.pipelines[0]);
    polling.poll(*rig_.pipelines[0], device_, 0, 0, true);
    workers_[0]->set_polling(std::move(polling));
  }
  ~WorkerThread() override {
    device_.blocked = false;
    workers_[0]->stop();
    if (thread_.joinable()) thread_.join();
  }
  void start() {
    thread_ = std::thread([this] { workers_[0]->run(); });
  }

  pipeline::Rig rig_;
  SlowDevice device_;
  Clock clock_;
  HandoffRings rings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread thread_;
};

TEST_F(WorkerThread, WhoeverAwaitsBurstsWaitsForALongOneToTheEnd) {
  device_.blocked = true;
  start();
  while (!device_.inside) std::this_thread::yield();
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    Worker::await_bursts(workers_);
    returned = true;
  });
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_FALSE(returned) << "the burst goes on";
  device_.blocked = false;
  waiter.join();
}

TEST_F(WorkerThread, AWorkerThatHasNotBegunOrHasEndedIsInNoBurst) {
  Worker::await_bursts(workers_);
  start();
  Worker::await_bursts(workers_);
  workers_[0]->stop();
  thread_.join();
  Worker::await_bursts(workers_);
}

TEST_F(WorkerThread, ATaskIsNoBurst) {
  start();
  workers_[0]->call([&] { Worker::await_bursts(workers_); });
  workers_[0]->ask_to_pause();
  workers_[0]->wait_until_paused();
  Worker::await_bursts(workers_);
  workers_[0]->go_on();
}

TEST_F(WorkerThread, ATaskEndsANap) {
  workers_[0]->set_idle(config::IdleMode::sleep);
  start();
  while (workers_[0]->usage().sleeps < 3) std::this_thread::yield();
  int runs = 0;
  for (int i = 0; i < 100; ++i) workers_[0]->call([&] { ++runs; });
  EXPECT_EQ(runs, 100);
}

// Also after a task, which is what each command of weftctl is to it.
TEST_F(WorkerThread, AloneAndWithoutWorkItNapsInEveryLoop) {
  workers_[0]->set_idle(config::IdleMode::sleep);
  start();
  for (int i = 0; i < 3; ++i) {
    workers_[0]->call([] {});
    const WorkerUsage before = workers_[0]->usage();
    while (workers_[0]->usage().loops < before.loops + 100) std::this_thread::yield();
    const WorkerUsage after = workers_[0]->usage();
    EXPECT_GT(after.sleeps - before.sleeps, (after.loops - before.loops) / 2);
  }
}

// Worker 0 of two, with what worker 1 has handed over to it. Nothing is received.
class HandedOver : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPackets = 1000;

  void SetUp() override {
    rig_.receive(1, std::vector<pipeline::Label>(kPackets, {.id = 1, .flow = 0, .out = 0}));
    const auto handed = rig_.take_ring(1, 0);
    ASSERT_EQ(handed.size(), kPackets);
    for (rte_mbuf* m : handed) ASSERT_TRUE(rings_.ring(1, 0).push(m));
    Polling polling;
    polling.add(*rig_.pipelines[0]);
    polling.serve(*rig_.pipelines[0], 0);
    worker_.set_polling(std::move(polling));
  }

  pipeline::Rig rig_{{{"parse", pipeline::parse_label()}, {"fwd", pipeline::forward()}},
                     {.workers = 2, .queue_packets = 256}};
  Clock clock_;
  HandoffRings rings_{2};
  Worker worker_{0, clock_, config::IdleMode::poll, 32, rings_};
};

// They come before what ports receive, as long as these do not have to wait for too long.
TEST_F(HandedOver, IsTakenSeveralBatchesAtATimeButNotWithoutEnd) {
  EXPECT_EQ(worker_.collect(rig_.now), 4u * pipeline::Batch::kCapacity);
  for (int i = 0; i < 10; ++i) {
    worker_.collect(rig_.now);
    rig_.run_until_quiet();
  }
  EXPECT_EQ(worker_.usage().handed_in, kPackets);
  EXPECT_TRUE(rings_.ring(1, 0).empty());
}

// Rings that nobody has told of are not looked at, but at first and after a task, which may have filled them.
TEST_F(HandedOver, IsTakenWhenTheWorkerIsToldOfIt) {
  std::vector<rte_mbuf*> later;
  {
    rte_mbuf* m = nullptr;
    while (rings_.ring(1, 0).pop(m)) later.push_back(m);
  }
  std::thread thread([this] { worker_.run(); });
  const auto wait_loops = [this](std::uint64_t loops) {
    const std::uint64_t from = worker_.usage().loops;
    while (worker_.usage().loops < from + loops) std::this_thread::yield();
  };
  wait_loops(10);
  for (rte_mbuf* m : later) ASSERT_TRUE(rings_.ring(1, 0).push(m));
  wait_loops(100);
  EXPECT_EQ(worker_.usage().handed_in, 0u) << "it asks rings that nobody told of";
  rings_.news(0).tell(1);
  while (worker_.usage().handed_in < kPackets) std::this_thread::yield();
  worker_.stop();
  thread.join();
}

TEST_F(HandedOver, IsTakenAfterATask) {
  rte_mbuf* m = nullptr;
  ASSERT_TRUE(rings_.ring(1, 0).pop(m));
  std::thread thread([this] { worker_.run(); });
  while (worker_.usage().handed_in < kPackets - 1) std::this_thread::yield();
  worker_.call([&] { EXPECT_TRUE(rings_.ring(1, 0).push(m)); });
  while (worker_.usage().handed_in < kPackets) std::this_thread::yield();
  worker_.stop();
  thread.join();
}

// Two workers that nap hand packets to each other: who gets some is woken.
TEST_F(HandedOver, EndsTheNapOfTheOtherWorker) {
  constexpr std::uint32_t kMore = 200;
  rig_.receive(1, std::vector<pipeline::Label>(kMore, {.id = 2, .flow = 0, .out = 0}));
  const auto more = rig_.take_ring(1, 0);
  worker_.set_idle(config::IdleMode::sleep);
  std::thread thread([this] { worker_.run(); });
  while (worker_.usage().handed_in < kPackets || worker_.usage().sleeps < 10) std::this_thread::yield();
  // The other worker: each packet is told of at the end of a loop.
  Worker other(1, clock_, config::IdleMode::poll, 32, rings_);
  other.set_polling({});
  std::thread sender([&] { other.run(); });
  for (std::uint32_t i = 0; i < kMore; ++i) {
    other.call([&] {
      ASSERT_EQ(other.push(0, &more[i], 1), 1);
      other.wake(0);
    });
    while (worker_.usage().handed_in <= kPackets + i) std::this_thread::yield();
  }
  EXPECT_EQ(worker_.usage().handed_in, kPackets + kMore);
  EXPECT_EQ(other.usage().handed_out, kMore);
  other.stop();
  sender.join();
  worker_.stop();
  thread.join();
}

// All of them are for one port, whose queue has room for fewer.
TEST_F(HandedOver, LeavesAsFastAsItIsTaken) {
  std::thread thread([this] { worker_.run(); });
  while (worker_.usage().handed_in < kPackets) std::this_thread::yield();
  worker_.stop();
  thread.join();
  EXPECT_EQ(rig_.devices[0]->sent.size(), kPackets);
  EXPECT_EQ(rig_.dropped(pipeline::DropReason::egress_queue_full), 0u);
}

}  // namespace
}  // namespace weft
