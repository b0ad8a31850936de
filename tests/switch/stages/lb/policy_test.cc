// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/policy.h"

#include <algorithm>

#include "tests/switch/stages/l3/router.h"
#include "tests/switch/stages/lb/attached_hops.h"

namespace weft::stages {
namespace {

using tables::NextHopId;

// Runs member_by_hash() inside a pipeline, whose links it asks for.
class Chooser : public pipeline::Stage {
 public:
  explicit Chooser(std::uint16_t members) : hops_(members) {}
  void on_timer(pipeline::Context& context, std::uint32_t) override {
    LinkView links(context, hops_.hops);
    chosen.clear();
    for (const std::uint32_t hash : hashes) {
      const NextHopId id = member_by_hash(hops_.ids, links, hash);
      chosen.push_back(id == tables::kUnreachable ? -1 : hops_.hops.hop(id).port);
    }
  }
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return hashes.empty() ? kNever : 0; }

  std::vector<std::uint32_t> hashes;
  std::vector<int> chosen;

 private:
  AttachedHops hops_;
};

class LbPolicyTest : public ::testing::Test {
 protected:
  // A switch with as many ports as there are members; more than the link view remembers at once, to have both ways.
  static constexpr std::uint16_t kMembers = 70;

  LbPolicyTest() {
    register_all(registry_);
    pipeline::StageType chooser;
    chooser.name = "chooser";
    chooser.summary = "Chooses.";
    chooser.provides = {"forward"};
    chooser.make = [](const pipeline::StageBuild&, pipeline::StageShared*) {
      return std::make_unique<Chooser>(kMembers);
    };
    registry_.add(chooser);
    std::string yaml = "name: s\nports:\n";
    for (int i = 0; i < kMembers; ++i) yaml += "  - { name: p" + std::to_string(i) + ", type: \"null\" }\n";
    h_ = std::make_unique<testing::Harness>(registry_, yaml + "pipeline: [ parse, chooser ]\n");
  }
  const std::vector<int>& choose(std::vector<std::uint32_t> hashes) {
    h_->change<Chooser>("chooser", [&](Chooser& chooser) { chooser.hashes = std::move(hashes); });
    h_->advance_ns(0);
    return h_->stage<Chooser>("chooser").chosen;
  }
  static std::vector<std::uint32_t> even_hashes(std::uint32_t count) {
    std::vector<std::uint32_t> hashes;
    for (std::uint32_t i = 0; i < count; ++i)
      hashes.push_back(static_cast<std::uint32_t>((std::uint64_t{i} << 32) / count));
    return hashes;
  }
  void set_link(int port, bool up) { h_->set_link("p" + std::to_string(port), up); }

  pipeline::Registry registry_;
  std::unique_ptr<testing::Harness> h_;
};

TEST_F(LbPolicyTest, EachMemberGetsAnEqualRangeOfHashesInOrder) {
  const auto chosen = choose(even_hashes(70 * 100));
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  for (int member = 0; member < kMembers; ++member) {
    EXPECT_NEAR(static_cast<double>(std::count(chosen.begin(), chosen.end(), member)), 100, 1) << member;
  }
}

TEST_F(LbPolicyTest, HashesOfAMemberThatIsDownAreSharedByAllThatAreUp) {
  for (const int down : {3, 69}) {
    set_link(down, false);
    const auto before = even_hashes(70 * 700);
    const auto chosen = choose(before);
    std::vector<int> extra(kMembers);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const int first = static_cast<int>(std::uint64_t{before[i]} * kMembers >> 32);
      ASSERT_NE(chosen[i], down);
      if (first != down)
        ASSERT_EQ(chosen[i], first);
      else
        ++extra[static_cast<std::size_t>(chosen[i])];
    }
    for (int member = 0; member < kMembers; ++member) {
      EXPECT_NEAR(extra[static_cast<std::size_t>(member)], member == down ? 0 : 700 / 69.0, 3) << member;
    }
    set_link(down, true);
  }
}

TEST_F(LbPolicyTest, NobodyIsChosenWhenAllAreDown) {
  for (int port = 0; port < kMembers; ++port) set_link(port, false);
  const auto chosen = choose(even_hashes(1000));
  EXPECT_EQ(std::count(chosen.begin(), chosen.end(), -1), 1000);
}

}  // namespace
}  // namespace weft::stages
