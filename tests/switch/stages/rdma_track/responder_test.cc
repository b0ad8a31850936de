// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The counter `duplicates` against RC responders that count duplicate requests themselves.
#include <gtest/gtest.h>

#include <deque>
#include <iostream>
#include <random>
#include <vector>

#include "switch/stages/rdma_track/order.h"
#include "switch/stages/rdma_track/unit.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::TrackCounter;
using wire::NakCode;
using wire::Syndrome;

constexpr Qpn kQpA{0x11}, kQpB{0x12};

// A connection between a QP of A and a QP of B whose pairing is known.
class Connected : public ::testing::Test {
 protected:
  Connected() { rig.burst({cm(kA, kB, req(1, kQpA, Psn(900))), cm(kB, kA, rep(2, 1, kQpB, Psn(start_)))}); }
  void send(std::uint32_t psn) { rig.send(write_from_a(kQpB, start_ + psn)); }
  void nak(std::uint32_t psn) {
    rig.send(answer_from_b(kQpA, start_ + psn, Syndrome::nak(NakCode::psn_sequence_error)));
  }
  void ack(std::uint32_t psn) { rig.send(ack_from_b(kQpA, start_ + psn)); }
  [[nodiscard]] std::uint64_t duplicates() const { return rig.duplicates(kA, kB, kQpB); }

  std::uint32_t start_ = 0xfffffe;
  TrackRig rig;
};

TEST_F(Connected, ACopyIsADuplicate) {
  for (const std::uint32_t psn : {0u, 1u, 1u, 2u}) send(psn);
  EXPECT_EQ(duplicates(), 1u);
}

TEST_F(Connected, WhatIsSentAgainBecauseItWasSkippedIsNoDuplicate) {
  // 1 is lost before the switch; the responder drops 2 and 3 and gets all three again.
  for (const std::uint32_t psn : {0u, 2u, 3u, 1u, 2u, 3u, 4u}) send(psn);
  EXPECT_EQ(duplicates(), 0u);
  EXPECT_EQ(rig.retransmitted(kA, kB, kQpB), 2u);
}

TEST_F(Connected, ANakTellsOfALossBehindTheSwitch) {
  for (const std::uint32_t psn : {0u, 1u, 2u, 3u}) send(psn);
  nak(1);
  for (const std::uint32_t psn : {1u, 2u, 3u, 4u}) send(psn);
  EXPECT_EQ(duplicates(), 0u);
  send(4);
  EXPECT_EQ(duplicates(), 1u);
}

TEST_F(Connected, ANakAboutAPacketThatWasLateIsNoLoss) {
  // 3 makes the responder ask for 2, which comes before the NAK does; 4 makes it ask for 3, which it has not kept.
  for (const std::uint32_t psn : {0u, 1u, 3u, 2u, 4u}) send(psn);
  nak(2);
  send(2);
  EXPECT_EQ(duplicates(), 1u);
  nak(3);
  for (const std::uint32_t psn : {3u, 4u, 5u}) send(psn);
  EXPECT_EQ(duplicates(), 1u);
}

TEST_F(Connected, AGapExplainsOneNak) {
  for (const std::uint32_t psn : {0u, 2u, 1u, 2u, 3u}) send(psn);
  nak(1);
  EXPECT_EQ(duplicates(), 0u);
  nak(1);  // 1 was lost behind the switch when it came late
  for (const std::uint32_t psn : {1u, 2u, 3u}) send(psn);
  EXPECT_EQ(duplicates(), 0u);
}

// Until some packets have passed nobody knows whose answers these are.
TEST(Duplicates, AGapExplainsANakAlsoWhenItPassedBeforeThePairWasKnown) {
  TrackRig rig;
  for (const std::uint32_t psn : {0u, 2u, 1u}) rig.send(write_from_a(kQpB, psn));
  const wire::IpAddress a = *wire::IpAddress::parse(kA), b = *wire::IpAddress::parse(kB);
  ASSERT_TRUE(rig.tracker.add_configured(rig.now, a, kQpA, b, kQpB));
  rig.send(answer_from_b(kQpA, 1, Syndrome::nak(NakCode::psn_sequence_error)));
  rig.send(write_from_a(kQpB, 1));
  EXPECT_EQ(rig.duplicates(kA, kB, kQpB), 1u);
}

TEST_F(Connected, ANakFromBeforeARestartExplainsNothingAfterIt) {
  for (const std::uint32_t psn : {0u, 2u, 1u, 2u}) send(psn);
  send(0x500000);
  for (const std::uint32_t psn : {0u, 1u, 2u}) send(psn);
  nak(1);
  for (const std::uint32_t psn : {1u, 2u}) send(psn);
  EXPECT_EQ(duplicates(), 0u);
}

TEST_F(Connected, AnRnrNakTellsThatTheRequestWasNotTaken) {
  for (const std::uint32_t psn : {0u, 1u}) send(psn);
  rig.send(answer_from_b(kQpA, start_, Syndrome::rnr_nak(1)));
  for (const std::uint32_t psn : {0u, 1u}) send(psn);
  EXPECT_EQ(duplicates(), 0u);
}

TEST_F(Connected, AnAckTellsThatTheResponderTookPacketsOutOfOrder) {
  // A responder that places early packets acknowledges them as soon as the gap is filled.
  for (const std::uint32_t psn : {0u, 2u, 3u, 1u}) send(psn);
  ack(3);
  for (const std::uint32_t psn : {3u, 4u}) send(psn);
  EXPECT_EQ(duplicates(), 1u) << "3 was acknowledged";
}

TEST_F(Connected, AnswersThatMakeNoSenseChangeNothing) {
  for (const std::uint32_t psn : {0u, 1u, 2u}) send(psn);
  nak(500);  // never sent
  ack(700);
  send(3);
  send(3);
  EXPECT_EQ(duplicates(), 1u);
}

// A go-back-N connection: packets may be lost before the switch, copied before the switch, or lost behind it, but there
// only when the responder will notice and send a NAK. Answers pass the switch at once and reach the sender later.
class GoBackN {
 public:
  GoBackN(TrackRig& rig, std::mt19937& random, std::uint32_t start, std::uint32_t packets)
      : rig_(rig), random_(random), start_(start), packets_(packets) {}

  void run() {
    while (responder_expected_ < packets_) {
      if (next_ < packets_ && (next_ - acked_ < kWindow || unnoticed_)) {
        transmit(next_++);
      } else {
        // Nothing more may be sent: a timeout after a loss before the switch, where no responder noticed.
        next_ = responder_expected_;
      }
      while (!unnoticed_ && !answers_.empty() && random_() % 3 == 0) deliver_answer();
    }
  }
  [[nodiscard]] std::uint64_t duplicates() const { return duplicates_; }

 private:
  static constexpr std::uint32_t kWindow = 40;

  void transmit(std::uint32_t i) {
    if (!unnoticed_ && random_() % 50 == 0) return;
    const int copies = !unnoticed_ && random_() % 40 == 0 ? 2 : 1;
    for (int c = 0; c < copies; ++c) {
      rig_.send(write_from_a(kQpB, start_ + i));
      const bool makes_a_nak = i + 5 < packets_ && i == responder_expected_ && !nak_sent_ && copies == 1;
      if (lose_ && makes_a_nak && !unnoticed_ && random_() % 60 == 0) {
        unnoticed_ = true;
      } else {
        arrive(i);
      }
    }
  }
  void arrive(std::uint32_t i) {
    if (i == responder_expected_) {
      ++responder_expected_;
      nak_sent_ = false;
      answer(i, Syndrome::ack());
    } else if (i < responder_expected_) {
      ++duplicates_;
      answer(responder_expected_ - 1, Syndrome::ack());
    } else if (!nak_sent_) {
      nak_sent_ = true;
      unnoticed_ = false;
      answer(responder_expected_, Syndrome::nak(NakCode::psn_sequence_error));
    }
  }
  void answer(std::uint32_t i, Syndrome syndrome) {
    rig_.send(answer_from_b(kQpA, start_ + i, syndrome));
    answers_.push_back({i, syndrome});
  }
  void deliver_answer() {
    const auto [i, syndrome] = answers_.front();
    answers_.pop_front();
    if (syndrome.is_nak()) {
      next_ = std::min(next_, i);
    } else {
      acked_ = std::max(acked_, i + 1);
    }
  }

  TrackRig& rig_;
  std::mt19937& random_;
  std::uint32_t start_, packets_;
  std::uint32_t next_ = 0, acked_ = 0, responder_expected_ = 0;
  bool nak_sent_ = false;
  bool unnoticed_ = false;  // a packet was lost behind the switch, and the responder does not know yet
  std::uint64_t duplicates_ = 0;
  std::deque<std::pair<std::uint32_t, Syndrome>> answers_;

 public:
  bool lose_ = false;  ///< behind the switch
};

// A go-back-N connection over a network that makes packets late before the switch, and whose answers take a while from
// the responder to the switch, so that late packets pass the switch before the NAKs about them do.
class Reordered {
 public:
  /// window: packets under way; answer_steps: how long answers take, in packets of the sender.
  Reordered(TrackRig& rig, std::mt19937& random, std::uint32_t start, std::uint32_t packets, std::uint32_t window,
            std::uint32_t answer_steps)
      : rig_(rig), random_(random), start_(start), packets_(packets), window_(window), answer_steps_(answer_steps) {}

  void run() {
    for (std::uint64_t step = 0; acked_ < packets_; ++step) {
      ASSERT_LT(step, 1'000'000u);
      if (next_ < packets_ && next_ - acked_ < window_) depart(next_++);
      deliver(step);
      // All that was under way has arrived, and nobody has asked for the rest: the timeout.
      if (late_.empty() && answers_.empty() && next_ - acked_ == std::min(window_, packets_ - acked_)) next_ = acked_;
    }
  }
  [[nodiscard]] std::uint64_t duplicates() const { return duplicates_; }
  [[nodiscard]] std::uint64_t overtaken_naks() const { return overtaken_naks_; }

 private:
  struct Answer {
    std::uint64_t at;
    std::uint32_t psn;
    Syndrome syndrome;
  };

  void depart(std::uint32_t i) {
    if (random_() % 30 == 0) {
      late_.push_back(i);
    } else {
      pass(i);
    }
  }
  // Late packets, in any order, then answers in theirs.
  void deliver(std::uint64_t step) {
    now_ = step;
    if (!late_.empty() && random_() % 4 == 0) {
      const std::size_t which = random_() % late_.size();
      const std::uint32_t i = late_[which];
      late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(which));
      pass(i);
    }
    for (; !answers_.empty() && answers_.front().at <= step; answers_.pop_front()) {
      const Answer& answer = answers_.front();
      rig_.send(answer_from_b(kQpA, start_ + answer.psn, answer.syndrome));
      if (answer.syndrome.is_nak()) {
        overtaken_naks_ += answer.psn < expected_ ? 1 : 0;
        next_ = std::max(acked_, answer.psn);
      } else {
        acked_ = std::max(acked_, answer.psn + 1);
        next_ = std::max(next_, acked_);
      }
    }
  }
  void pass(std::uint32_t i) {
    rig_.send(write_from_a(kQpB, start_ + i));
    if (i == expected_) {
      ++expected_;
      nak_sent_ = false;
      answer(i, Syndrome::ack());
    } else if (i < expected_) {
      ++duplicates_;
      answer(expected_ - 1, Syndrome::ack());
    } else if (!nak_sent_) {
      nak_sent_ = true;
      answer(expected_, Syndrome::nak(NakCode::psn_sequence_error));
    }
  }
  void answer(std::uint32_t i, Syndrome syndrome) { answers_.push_back({now_ + answer_steps_, i, syndrome}); }

  TrackRig& rig_;
  std::mt19937& random_;
  std::uint32_t start_, packets_, window_, answer_steps_;
  std::uint32_t next_ = 0, acked_ = 0, expected_ = 0;
  std::uint64_t now_ = 0;
  bool nak_sent_ = false;
  std::uint64_t duplicates_ = 0, overtaken_naks_ = 0;
  std::vector<std::uint32_t> late_;
  std::deque<Answer> answers_;
};

TEST(Duplicates, AgreeWithAGoBackNResponderBehindTheSwitch) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  std::uint64_t total = 0;
  for (int round = 0; round < 12; ++round) {
    TrackRig rig;
    const std::uint32_t start = random() % 2 == 0 ? 0xffff00 : random() & 0xffffff;
    rig.burst({cm(kA, kB, req(1, kQpA, Psn(900))), cm(kB, kA, rep(2, 1, kQpB, Psn(start)))});
    GoBackN connection(rig, random, start, 2000);
    connection.run();
    ASSERT_EQ(rig.duplicates(kA, kB, kQpB), connection.duplicates()) << "seed " << seed << " round " << round;
    total += connection.duplicates();
  }
  EXPECT_GT(total, 200u) << "the schedule has duplicates at all";
}

TEST(Duplicates, AgreeWhenNaksTellOfLossesBehindTheSwitch) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round) {
    TrackRig rig;
    rig.burst({cm(kA, kB, req(1, kQpA, Psn(900))), cm(kB, kA, rep(2, 1, kQpB, Psn(77)))});
    GoBackN connection(rig, random, 77, 2000);
    connection.lose_ = true;
    connection.run();
    ASSERT_EQ(rig.duplicates(kA, kB, kQpB), connection.duplicates()) << "seed " << seed << " round " << round;
  }
}

TEST(Duplicates, AgreeWhenLatePacketsPassBeforeTheNaksAboutThem) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  std::uint64_t total = 0, overtaken = 0;
  for (int round = 0; round < 40; ++round) {
    TrackRig rig;
    const std::uint32_t start = random() % 2 == 0 ? 0xffff00 : random() & 0xffffff;
    rig.burst({cm(kA, kB, req(1, kQpA, Psn(900))), cm(kB, kA, rep(2, 1, kQpB, Psn(start)))});
    const bool far = round % 2 != 0;
    Reordered connection(rig, random, start, 2000, far ? 128 : 24, far ? 90 : 6);
    ASSERT_NO_FATAL_FAILURE(connection.run());
    ASSERT_EQ(rig.duplicates(kA, kB, kQpB), connection.duplicates()) << "seed " << seed << " round " << round;
    total += connection.duplicates();
    overtaken += connection.overtaken_naks();
  }
  EXPECT_GT(total, 1000u) << "the schedule has duplicates at all";
  EXPECT_GT(overtaken, 1000u) << "and NAKs that were overtaken";
}

}  // namespace
}  // namespace weft::testing
