// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A sender and a receiver with go-back-N around a ReorderBuffer: the sender changes between two paths that differ in
// delay by less than the bound, and one of them stands still once for longer than that, as a machine does that is busy.
// Order is lost once. What it costs must be one recovery, and not the rest of the flow.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "switch/base/rng.h"
#include "switch/stages/lb/reorder.h"

namespace weft::stages {
namespace {

using wire::Psn;

constexpr std::uint32_t kWindow = 48;
constexpr TimeNs kBound = 100;
constexpr TimeNs kTimeout = 400;
constexpr TimeNs kBack = 10;       ///< from the receiver to the sender
constexpr TimeNs kFreezes = 2000;  ///< when a path stands still
constexpr TimeNs kEnd = 10'000;
constexpr std::array<TimeNs, 2> kDelay{10, 35};

struct Setting {
  TimeNs frozen = 0;        ///< for so long
  std::uint32_t stay = 16;  ///< packets on a path before the sender changes to the other one
  std::uint32_t lost = 0;   ///< the receiver loses this packet once; 0: none
  bool selective = false;   ///< the receiver keeps what overtook, and the sender sends what is missing alone
  bool tell = true;         ///< the buffer hears of NAKs
  /// 0: none. Otherwise paths change at random, and until the middle of the time packets are lost and paths stand still
  /// at random, too.
  std::uint64_t seed = 0;
};

struct Outcome {
  std::uint64_t arrived = 0;    ///< packets that the receiver took
  std::uint64_t late_half = 0;  ///< of these, those of the second half of the time
  std::uint64_t naks = 0;
  std::uint64_t sent = 0;
  TimeNs last_nak = 0;
  ReorderCounts counts;
};

/// A packet a tick, PSNs from 0 on.
class Loop : public ReorderSink {
 public:
  explicit Loop(const Setting& setting) : setting_(setting), rng_(setting.seed) {}

  Outcome run() {
    for (now_ = 1; now_ < kEnd; ++now_) {
      disturb();
      tell();
      hear();
      give_up();
      send();
      for (std::uint32_t path = 0; path < 2; ++path) arrive(path);
      if (buffer_.next_deadline() <= now_) buffer_.on_timer(now_, *this);
    }
    out_.counts = buffer_.counts();
    return out_;
  }

 private:
  struct Reply {
    TimeNs at;
    std::uint32_t psn;
    bool nak;
  };

  void disturb() {
    if (setting_.seed == 0) return;
    if (rng_.below(8) == 0) path_ = 1 - path_;
    if (now_ >= kEnd / 2) return;
    if (rng_.below(1000) == 0) frozen_until_[rng_.below(2)] = now_ + rng_.below(3 * kBound);
  }

  // The buffer sees a tick later what the receiver says.
  void tell() {
    std::vector<Reply> said;
    said.swap(said_);
    if (!setting_.tell) return;
    for (const Reply& reply : said) {
      if (reply.nak) {
        buffer_.on_nak(0, Psn(reply.psn));
      } else {
        buffer_.on_ack(0, Psn(reply.psn - 1), *this);
      }
    }
  }

  void hear() {
    while (!replies_.empty() && replies_.front().at <= now_) {
      const Reply reply = replies_.front();
      replies_.pop_front();
      if (reply.psn > acked_) {
        acked_ = reply.psn;
        progress_ = now_;
      }
      if (!reply.nak) continue;
      if (setting_.selective) {
        again_.push_back(reply.psn);
      } else {
        next_ = reply.psn;
      }
    }
  }

  // The sender's timeout.
  void give_up() {
    if (next_ == acked_ || now_ - progress_ < kTimeout) return;
    progress_ = now_;
    if (setting_.selective) {
      again_.push_back(acked_);
    } else {
      next_ = acked_;
    }
  }

  void send() {
    if (!again_.empty()) {
      put(again_.front());
      return again_.pop_front();
    }
    next_ = std::max(next_, acked_);
    if (next_ < acked_ + kWindow) put(next_++);
  }

  void put(std::uint32_t psn) {
    ++out_.sent;
    if (setting_.seed == 0) path_ = static_cast<std::uint32_t>(out_.sent / setting_.stay % 2);
    if (setting_.seed != 0 && now_ < kEnd / 2 && rng_.below(200) == 0) return;
    wire_[path_].emplace_back(now_, psn);
  }

  // All that is due; a path that stood still has much of it.
  void arrive(std::uint32_t path) {
    if (path == 0 && now_ >= kFreezes && now_ < kFreezes + setting_.frozen) return;
    if (now_ < frozen_until_[path]) return;
    auto& wire = wire_[path];
    while (!wire.empty() && wire.front().first + kDelay[path] <= now_) {
      const std::uint32_t psn = wire.front().second;
      wire.pop_front();
      const std::uint64_t number = arrived_.size();
      arrived_.emplace_back(now_, psn);
      buffer_.on_packet(now_, 0, Psn(psn), true, 100, number, *this);
    }
  }

  // The receiver.
  void deliver(std::uint64_t packet) noexcept override {
    const auto [came, psn] = arrived_[packet];
    EXPECT_LE(now_ - came, kBound);
    if (psn == setting_.lost && setting_.lost != 0 && !std::exchange(lost_, true)) return;
    if (psn > expects_) {
      if (setting_.selective) kept_[psn % kept_.size()] = true;
      if (!std::exchange(nacked_, true)) nak();
      return;
    }
    if (psn < expects_) return reply(false);
    nacked_ = false;
    do {
      kept_[expects_++ % kept_.size()] = false;
      ++out_.arrived;
      if (now_ >= kEnd / 2) ++out_.late_half;
    } while (kept_[expects_ % kept_.size()]);
    reply(false);
  }

  void nak() noexcept {
    ++out_.naks;
    out_.last_nak = now_;
    reply(true);
  }

  void reply(bool is_nak) noexcept {
    replies_.push_back({now_ + kBack, expects_, is_nak});
    said_.push_back(replies_.back());
  }

  Setting setting_;
  ReorderBuffer buffer_{{.bound_ns = kBound, .flows = 1, .max_packets = 256, .max_flow_packets = 256}};
  std::array<std::deque<std::pair<TimeNs, std::uint32_t>>, 2> wire_;
  std::deque<Reply> replies_;
  std::vector<Reply> said_;
  std::deque<std::uint32_t> again_;
  std::array<bool, 256> kept_{};
  std::uint32_t next_ = 0, acked_ = 0, expects_ = 0;
  bool nacked_ = false, lost_ = false;
  TimeNs now_ = 0, progress_ = 0;
  Rng rng_;
  std::uint32_t path_ = 0;
  std::array<TimeNs, 2> frozen_until_{};
  std::vector<std::pair<TimeNs, std::uint32_t>> arrived_;
  Outcome out_;
};

TEST(ReorderGoBack, PathsThatDifferByLessThanTheBoundAreNotNoticed) {
  const Outcome calm = Loop({}).run();
  EXPECT_EQ(calm.naks, 0u);
  EXPECT_EQ(calm.counts.expired, 0u);
  EXPECT_GT(calm.counts.held, 1000u);
}

TEST(ReorderGoBack, APathThatStandsStillForLongerThanTheBoundCostsOneRecovery) {
  const Outcome calm = Loop({}).run();
  for (const std::uint32_t stay : {3u, 5u, 16u, 30u}) {
    for (const TimeNs frozen : {80u, 150u, 400u, 1000u}) {
      SCOPED_TRACE(std::to_string(frozen) + " ticks, " + std::to_string(stay) + " packets on a path");
      const Outcome found = Loop({.frozen = frozen, .stay = stay}).run();
      EXPECT_LE(found.naks, 10u);
      EXPECT_LT(found.last_nak, kFreezes + frozen + 3 * kBound);
      EXPECT_GT(found.late_half, calm.late_half * 9 / 10);
    }
  }
}

// What the test above would say of a buffer that hears nothing of NAKs.
TEST(ReorderGoBack, WithoutTheNaksOrderIsNotFoundAgain) {
  const Outcome calm = Loop({}).run();
  const Outcome deaf = Loop({.frozen = 150, .stay = 5, .tell = false}).run();
  EXPECT_GT(deaf.last_nak, kEnd * 9 / 10);
  EXPECT_LT(deaf.late_half, calm.late_half * 3 / 4);
}

TEST(ReorderGoBack, ALossBehindTheBufferCostsOneRecovery) {
  const Outcome found = Loop({.lost = 500}).run();
  EXPECT_EQ(found.naks, 1u);
  EXPECT_EQ(found.counts.went_back, 1u);
}

TEST(ReorderGoBack, SendersThatRepeatOnlyWhatIsMissingSeeNoDifference) {
  for (const std::uint32_t lost : {0u, 500u}) {
    for (const TimeNs frozen : {0u, 80u, 150u, 400u}) {
      SCOPED_TRACE(std::to_string(frozen) + " ticks, lost " + std::to_string(lost));
      const Outcome heard = Loop({.frozen = frozen, .lost = lost, .selective = true}).run();
      const Outcome deaf = Loop({.frozen = frozen, .lost = lost, .selective = true, .tell = false}).run();
      EXPECT_EQ(heard.counts.went_back, 0u);
      EXPECT_EQ(heard.arrived, deaf.arrived);
      EXPECT_EQ(heard.naks, deaf.naks);
      EXPECT_EQ(heard.counts.expired, deaf.counts.expired);
    }
  }
}

// Whatever has happened: when paths lose nothing and do not stand still any more, order comes back and stays.
TEST(ReorderGoBack, AfterRandomTroubleOrderComesBack) {
  const Outcome calm = Loop({}).run();
  std::uint64_t worst = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    for (const bool selective : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (selective ? ", selective" : ""));
      const Outcome found = Loop({.selective = selective, .seed = seed}).run();
      EXPECT_GT(found.counts.expired, 0u);
      EXPECT_LT(found.last_nak, kEnd / 2 + 3 * kTimeout);
      EXPECT_GT(found.late_half, calm.late_half * 3 / 4);
      if (selective) {
        worst = std::max(worst, found.counts.went_back);
      } else {
        EXPECT_GT(found.counts.went_back, 0u);
      }
    }
  }
  // A timeout may send again what has gone on. ACKs show soon that the sender does not go back.
  EXPECT_LE(worst, 3u);
}

}  // namespace
}  // namespace weft::stages
