// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/dcqcn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "nic/rnic/rate_control.h"
#include "switch/base/rng.h"
#include "tests/support/effort.h"

namespace weft::nic {
namespace {

/// DCQCN as periodic events in a queue, straight from the description of HPCC's simulator: alpha every T_alpha and cuts
/// every T_D from the first CNP on (cuts a nanosecond later), the increase timer from the last cut on. The byte counter
/// is that of the paper: fast recovery while neither counter has come round F times, hyper increase when both have more
/// often.
class Reference {
 public:
  Reference(const DcqcnParameters& p, double line) : p_(p), line_(line), rate_(line), target_(line) {}

  void cnp(Time now) {
    run(now);
    cnp_a_ = cnp_d_ = true;
    if (!first_) return;
    first_ = false;
    alpha_ = p_.initial_alpha;
    cnp_a_ = false;
    at(now + p_.alpha_interval_ns, 0);
    at(now + p_.decrease_interval_ns + 1, 1);
    rate_ = target_ = rate_ * p_.rate_on_first_cnp;
  }
  void sent(Time now, std::uint64_t bytes) {
    run(now);
    if (p_.increase_bytes == 0 || generation_ == 0) return;
    for (bytes_ += bytes; bytes_ >= p_.increase_bytes; bytes_ -= p_.increase_bytes) {
      increase();
      ++byte_stage_;
    }
  }
  double rate(Time now) {
    run(now);
    return rate_;
  }
  double alpha() const { return alpha_; }
  double target() const { return target_; }

 private:
  using Event = std::tuple<Time, int, int>;  // time, kind, generation of the timer
  void at(Time t, int kind) { events_.push({t, kind, generation_}); }
  void run(Time now) {
    while (!events_.empty() && std::get<0>(events_.top()) <= now) {
      const auto [t, kind, generation] = events_.top();
      events_.pop();
      if (kind == 0) {
        alpha_ = (1 - p_.g) * alpha_ + (cnp_a_ ? p_.g : 0);
        cnp_a_ = false;
        at(t + p_.alpha_interval_ns, 0);
      } else if (kind == 1) {
        at(t + p_.decrease_interval_ns, 1);
        if (!cnp_d_) continue;
        if (p_.clamp_target || stage_ + byte_stage_ != 0) target_ = rate_;
        rate_ = std::max(static_cast<double>(p_.min_bps), rate_ * (1 - alpha_ / 2));
        stage_ = byte_stage_ = 0;
        bytes_ = 0;
        cnp_d_ = false;
        ++generation_;
        at(t + p_.increase_interval_ns, 2);
      } else if (generation == generation_) {
        at(t + p_.increase_interval_ns, 2);
        increase();
        ++stage_;
      }
    }
  }
  void increase() {
    const auto f = p_.fast_recovery_steps;
    const bool with_bytes = p_.increase_bytes != 0;
    const bool fast = stage_ < f && byte_stage_ < f;
    const bool hyper = stage_ > f && (!with_bytes || byte_stage_ > f);
    if (!fast) target_ = std::min(target_ + static_cast<double>(hyper ? p_.hyper_bps : p_.additive_bps), line_);
    rate_ = (rate_ + target_) / 2;
  }

  DcqcnParameters p_;
  double line_, rate_, target_, alpha_ = 1;
  bool first_ = true, cnp_a_ = false, cnp_d_ = false;
  std::uint32_t stage_ = 0, byte_stage_ = 0;
  std::uint64_t bytes_ = 0;
  int generation_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

constexpr std::uint64_t kLine = 100'000'000'000;

TEST(Dcqcn, FollowsTheEventDrivenReferenceWithEveryParameterSet) {
  for (const auto set : kDcqcnSets) {
    DcqcnParameters p = *dcqcn_parameters(set, kLine);
    // Odd and even ones, and those above 20.
    for (std::uint64_t seed = 1; seed <= 40; seed += weft::testing::kSanitized ? 9 : 1) {
      SCOPED_TRACE(std::string(set) + ", seed " + std::to_string(seed));
      p.clamp_target = seed % 2 == 0;
      // As the set has it, and small enough that both counters come round often.
      if (seed > 20) p.increase_bytes = 50'000;
      Rng rng(seed);
      Dcqcn unit(p, kLine);
      Reference reference(p, static_cast<double>(kLine));
      Time now = 12345;
      for (int i = 0; i < 400; ++i) {
        // Gaps from nanoseconds to a few times the increase interval.
        now += static_cast<Time>(rng.below(1ull << rng.below(21)));
        if (rng.below(3) == 0) {
          unit.on_cnp(now);
          reference.cnp(now);
        }
        const std::uint64_t bytes = rng.below(20'000);
        unit.on_sent(now, bytes);
        reference.sent(now, bytes);
        const double expected = reference.rate(now);
        ASSERT_NEAR(unit.rate_bps(now) / expected, 1.0, 1e-6) << "step " << i << " at " << now;
        ASSERT_NEAR(unit.target_bps(now) / reference.target(), 1.0, 1e-6) << "step " << i;
        if (unit.cnps() > 0) {
          ASSERT_NEAR(unit.alpha(now), reference.alpha(), 1e-9) << "step " << i;
        }
      }
    }
  }
}

TEST(Dcqcn, TheFirstCutHalvesTheRateAfterTheDecreaseInterval) {
  const DcqcnParameters p;
  Dcqcn unit(p, kLine);
  unit.on_cnp(1000);
  EXPECT_EQ(unit.rate_bps(1000), 1e11);
  EXPECT_EQ(unit.rate_bps(1000 + p.decrease_interval_ns), 1e11);
  // Alpha has decayed for four intervals by then.
  const double alpha = (1 - p.g) * (1 - p.g) * (1 - p.g) * ((1 - p.g) * 1.0);
  EXPECT_NEAR(unit.rate_bps(1001 + p.decrease_interval_ns), 1e11 * (1 - alpha / 2), 1e3);
}

TEST(Dcqcn, TheRateComesBackToTheLineAndStaysThere) {
  DcqcnParameters p = *dcqcn_parameters("hpcc_run", kLine);
  Dcqcn unit(p, kLine);
  for (Time t = 0; t < 1 * kMs; t += 10 * kUs) unit.on_cnp(t);
  EXPECT_LT(unit.rate_bps(1 * kMs), 2e10);
  EXPECT_EQ(unit.rate_bps(10'000'000 * kMs), 1e11) << "hours of silence cost one call";
}

TEST(Dcqcn, TheRateNeverFallsBelowItsFloor) {
  const DcqcnParameters p = *dcqcn_parameters("hpcc_run", kLine);
  Dcqcn unit(p, kLine);
  for (Time t = 0; t < 1 * kMs; t += 1 * kUs) unit.on_cnp(t);
  EXPECT_EQ(unit.rate_bps(1 * kMs), static_cast<double>(p.min_bps));
}

TEST(Dcqcn, TheByteCounterIncreasesTheRateWithoutTheTimer) {
  const DcqcnParameters p = *dcqcn_parameters("connectx", kLine);
  Dcqcn unit(p, kLine);
  unit.on_cnp(0);
  const double cut = unit.rate_bps(5 * kUs);
  unit.on_sent(6 * kUs, p.increase_bytes - 1);
  EXPECT_EQ(unit.rate_bps(6 * kUs), cut);
  unit.on_sent(6 * kUs, 1);
  EXPECT_GT(unit.rate_bps(6 * kUs), cut);
}

TEST(Dcqcn, ParameterSetsAreThoseOfTheirSimulators) {
  EXPECT_FALSE(dcqcn_parameters("nonsense", kLine));
  const auto mix = *dcqcn_parameters("hpcc_mix", kLine);
  EXPECT_EQ(std::tuple(mix.alpha_interval_ns, mix.decrease_interval_ns, mix.increase_interval_ns, mix.additive_bps),
            std::tuple(1 * kUs, 4 * kUs, 900 * kUs, 50'000'000u));
  const auto run = *dcqcn_parameters("hpcc_run", kLine);
  EXPECT_EQ(std::tuple(run.increase_interval_ns, run.additive_bps, run.hyper_bps, run.min_bps),
            std::tuple(300 * kUs, 20'000'000u, 200'000'000u, 1'000'000'000u));
  const auto conweave = *dcqcn_parameters("conweave", kLine);
  EXPECT_EQ(std::tuple(conweave.additive_bps, conweave.hyper_bps), std::tuple(40'000'000u, 100'000'000u));
  EXPECT_EQ(dcqcn_parameters("dcqcn_paper", kLine)->alpha_interval_ns, 50 * kUs);
  EXPECT_EQ(dcqcn_parameters("longhaul", kLine)->cnp_interval_ns, 5 * kUs);
}

TEST(CnpGenerator, SendsAtMostOneCnpPerInterval) {
  CnpGenerator np(50 * kUs);
  EXPECT_TRUE(np.on_marked(0));
  EXPECT_FALSE(np.on_marked(50 * kUs - 1));
  EXPECT_TRUE(np.on_marked(50 * kUs));
  EXPECT_EQ(np.marked(), 3u);
  EXPECT_EQ(np.sent(), 2u);
  CnpGenerator each(0);
  EXPECT_TRUE(each.on_marked(7) && each.on_marked(7)) << "without an interval every mark is answered";
}

TEST(RateControl, PacketsFollowEachOtherAtTheRate) {
  QpConfig c;
  c.line_bps = 1'000'000'000;
  RateControl rate(c);
  rate.on_sent(1000, 1250);  // 10 us at 1 Gbit/s
  EXPECT_NEAR(static_cast<double>(rate.next_send()), 11'000, 2);
  rate.on_sent(50'000, 1250);
  EXPECT_NEAR(static_cast<double>(rate.next_send()), 60'000, 2) << "time that was not used is not made up for";
}

TEST(RateControl, AHostThatWakesUpLateSendsAtItsRateAllTheSame) {
  QpConfig c;
  c.line_bps = 1'000'000'000;
  c.pacing_slack_ns = 100'000;
  RateControl rate(c);
  // One look in 50 us, in which five packets become due: all five leave then.
  std::uint64_t sent = 0;
  for (Time now = 1'000'000; now < 11'000'000; now += 50'000) {
    for (; rate.next_send() <= now; ++sent) rate.on_sent(now, 1250);
  }
  EXPECT_NEAR(static_cast<double>(sent), 10'000 / 10 + 100 / 10, 5) << "10 ms, and the slack as the first burst";
  // What it is late beyond the slack is lost.
  const Time late = 20'000'000;
  for (sent = 0; rate.next_send() <= late; ++sent) rate.on_sent(late, 1250);
  EXPECT_EQ(sent, 11U) << "those of 100 us, and the one that is due now";
}

TEST(RateControl, ANackIsACnpOnlyWhenAskedFor) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::dcqcn;
  for (const bool asked : {false, true}) {
    c.nack_is_cnp = asked;
    RateControl rate(c);
    rate.on_response(0, {.nack = true});
    EXPECT_EQ(rate.dcqcn()->cnps(), asked ? 1u : 0u);
  }
}

}  // namespace
}  // namespace weft::nic
