// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/running.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

/// Switches that answer orders for one group when a test lets them.
class SlowSwitches final : public FakeSwitches {
 public:
  using FakeSwitches::FakeSwitches;
  std::vector<Outcome> install(std::span<const InstallOrder> orders) override {
    if (orders.front().group == slow) {
      asked.set_value();
      go_on.get_future().wait();
    }
    return FakeSwitches::install(orders);
  }

  GroupId slow = 1;
  std::promise<void> asked, go_on;
};

TEST(RunningManager, OtherCallsDoNotWaitForSwitchesOfAGroupThatIsMade) {
  Steps steps;
  SlowSwitches switches(steps);
  FakeStore store(steps);
  Manager manager(small_fabric(), {}, switches, store, 1);
  ASSERT_EQ(manager.recover(monotonic_now()), std::nullopt);
  RunningManager running(manager);
  auto slow = std::async(std::launch::async, [&] { return running.create(request_of({0, 1, 2, 3}, 1)); });
  switches.asked.get_future().wait();
  const CreateReply other = running.create(request_of({0, 1}, 2));
  EXPECT_EQ(other.refusal, Refusal::none);
  EXPECT_EQ(running.renew(2, other.generation, {}), Refusal::none);
  EXPECT_EQ(running.explain(request_of({0, 1}, 1)).refusal, Refusal::bad_request) << "the number is taken";
  EXPECT_EQ(running.renew(1, 1, {}), Refusal::unknown_group) << "its ranks have not been told of it";
  switches.go_on.set_value();
  const CreateReply first = slow.get();
  EXPECT_EQ(first.refusal, Refusal::none);
  EXPECT_EQ(running.renew(1, first.generation, {}), Refusal::none);
  EXPECT_EQ(running.destroy(1, 0), Refusal::none);
  EXPECT_EQ(running.renew(1, first.generation, {}), Refusal::unknown_group);
}

}  // namespace
}  // namespace weft::inc::manager
