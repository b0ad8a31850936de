// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/pairing.h"

#include <gtest/gtest.h>

#include <deque>
#include <iostream>
#include <map>
#include <random>

#include "switch/stages/rdma_track/unit.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::TrackCounter;
using tables::PairSource;
using tables::QpEntry;
using tables::ResponseFlag;

// One queue pair between A and B: QPN at each end, PSN and UDP source port of A's requests, port of B's answers.
struct Pair {
  Qpn at_a, at_b;
  std::uint32_t psn = 0;
  std::uint16_t port_a = 50000, port_b = 51000;
};

void request(TrackRig& rig, Pair& pair) {
  rig.send(wire::FrameBuilder()
               .ipv4(kA, kB)
               .udp(pair.port_a)
               .bth(Opcode::RC_SEND_ONLY, pair.at_b, Psn(pair.psn++))
               .payload(8));
}
void acknowledge(TrackRig& rig, const Pair& pair, std::uint32_t psn) {
  rig.send(wire::FrameBuilder()
               .ipv4(kB, kA)
               .udp(pair.port_b)
               .bth(Opcode::RC_ACKNOWLEDGE, pair.at_a, Psn(psn))
               .aeth(wire::Syndrome::ack(), 0));
  rig.advance_ticks(1);
}
const QpEntry& requests_of(const TrackRig& rig, const Pair& pair) {
  return rig.entry(kA, kB, pair.at_b);
}
const QpEntry& answers_of(const TrackRig& rig, const Pair& pair) {
  return rig.entry(kB, kA, pair.at_a);
}
bool paired_rightly(const TrackRig& rig, const Pair& pair) {
  return requests_of(rig, pair).peer == rig.position(kB, kA, pair.at_a) &&
         answers_of(rig, pair).peer == rig.position(kA, kB, pair.at_b);
}
bool settled(const TrackRig& rig, const Pair& pair) {
  return !answers_of(rig, pair).response.has(ResponseFlag::evidence) &&
         !requests_of(rig, pair).response.has(ResponseFlag::evidence);
}

TEST(QpPairing, TheOnlyQueuePairBetweenTwoHostsIsPairedAtItsFirstAck) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 100};
  request(rig, pair);
  acknowledge(rig, pair, 100);
  EXPECT_TRUE(paired_rightly(rig, pair));
  EXPECT_EQ(requests_of(rig, pair).source(), PairSource::traffic);
  EXPECT_EQ(requests_of(rig, pair).confidence(), 60);
  EXPECT_EQ(answers_of(rig, pair).confidence(), 60);
  EXPECT_EQ(rig.count(TrackCounter::pairs_traffic), 1u);
}

TEST(QpPairing, ConsistentAcksRaiseTheConfidenceUntilItIsSettledBelow100) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 0xfffffd};
  std::uint8_t before = 0;
  for (int i = 0; i < 5; ++i) {
    request(rig, pair);
    acknowledge(rig, pair, pair.psn - 1);
    EXPECT_GT(answers_of(rig, pair).confidence(), before);
    before = answers_of(rig, pair).confidence();
    EXPECT_FALSE(settled(rig, pair));
  }
  request(rig, pair);
  acknowledge(rig, pair, pair.psn - 1);
  EXPECT_TRUE(settled(rig, pair));
  EXPECT_EQ(answers_of(rig, pair).confidence(), stages::QpPairing::kSettled);
  EXPECT_LT(answers_of(rig, pair).confidence(), 100);
}

TEST(QpPairing, TheSameAckAgainIsNoFurtherEvidence) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 0};
  request(rig, pair);
  for (int i = 0; i < 20; ++i) acknowledge(rig, pair, 0);
  EXPECT_EQ(answers_of(rig, pair).confidence(), 60);
}

TEST(QpPairing, NaksAndReadResponsesAreEvidenceToo) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 7};
  request(rig, pair);
  rig.send(answer_from_b(pair.at_a, 7, wire::Syndrome::nak(wire::NakCode::psn_sequence_error)));
  EXPECT_TRUE(paired_rightly(rig, pair));
  TrackRig other;
  other.send(read_from_a(Qpn(6), 7, 10));
  other.send(from_b(Opcode::RC_RDMA_READ_RESPONSE_ONLY, Qpn(5), Psn(7)).payload(10));
  EXPECT_TRUE(paired_rightly(other, pair));
}

TEST(QpPairing, ACnpPairsTheOnlyCandidatesWeakly) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 7};
  request(rig, pair);
  acknowledge(rig, pair, 9);  // makes the answering direction known; this PSN was never sent
  EXPECT_FALSE(requests_of(rig, pair).paired());
  rig.send(wire::FrameBuilder().ipv4(kB, kA).cnp(pair.at_a));
  EXPECT_TRUE(paired_rightly(rig, pair));
  EXPECT_LT(answers_of(rig, pair).confidence(), 60);
}

TEST(QpPairing, AnAckOfAPsnThatWasNeverSentPairsNobody) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 100};
  request(rig, pair);
  acknowledge(rig, pair, 101);
  acknowledge(rig, pair, 50000);
  EXPECT_FALSE(requests_of(rig, pair).paired());
  EXPECT_EQ(answers_of(rig, pair).confidence(), 0);
}

TEST(QpPairing, PsnsTellSeveralQueuePairsApart) {
  TrackRig rig;
  std::vector<Pair> pairs{{Qpn(5), Qpn(60), 1000}, {Qpn(6), Qpn(50), 500000}, {Qpn(7), Qpn(55), 9000000}};
  for (int i = 0; i < 10; ++i) {
    for (auto& pair : pairs) request(rig, pair);
    for (auto& pair : pairs) acknowledge(rig, pair, pair.psn - 1);
  }
  for (const auto& pair : pairs) {
    EXPECT_TRUE(paired_rightly(rig, pair));
    EXPECT_TRUE(settled(rig, pair));
  }
  EXPECT_EQ(rig.count(TrackCounter::pairs_dissolved), 0u);
}

TEST(QpPairing, InLockstepNothingIsClaimed) {
  TrackRig rig;
  Pair one{Qpn(5), Qpn(60), 0}, two{Qpn(6), Qpn(50), 0};
  for (int i = 0; i < 50; ++i) {
    request(rig, one);
    request(rig, two);
    acknowledge(rig, one, one.psn - 1);
    acknowledge(rig, two, two.psn - 1);
  }
  EXPECT_FALSE(requests_of(rig, one).paired());
  EXPECT_FALSE(requests_of(rig, two).paired());
  EXPECT_EQ(rig.count(TrackCounter::pairs_traffic), 0u);
}

TEST(QpPairing, OneStepOutOfLockstepTellsThemApart) {
  TrackRig rig;
  Pair one{Qpn(5), Qpn(60), 0}, two{Qpn(6), Qpn(50), 0};
  request(rig, one);
  request(rig, two);
  request(rig, two);
  // PSN 1 can only be the second one's; what remains is the first one's.
  acknowledge(rig, two, 1);
  EXPECT_TRUE(paired_rightly(rig, two));
  acknowledge(rig, one, 0);
  for (int i = 0; i < 20; ++i) {
    for (Pair* pair : {&one, &two}) {
      request(rig, *pair);
      acknowledge(rig, *pair, pair->psn - 1);
    }
  }
  EXPECT_TRUE(paired_rightly(rig, one));
  EXPECT_TRUE(paired_rightly(rig, two));
  EXPECT_TRUE(settled(rig, one));
  EXPECT_TRUE(settled(rig, two));
}

TEST(QpPairing, ANewCandidateIsNotExcludedByWhatItsPredecessorWas) {
  TrackRig rig;
  Pair first{Qpn(5), Qpn(60), 1000}, second{Qpn(6), Qpn(50), 500000}, third{Qpn(7), Qpn(51), 500000};
  Pair late{Qpn(8), Qpn(52), 500000};
  for (Pair* pair : {&first, &second, &third}) request(rig, *pair);
  // Excludes the first pair only.
  acknowledge(rig, late, 500000);
  EXPECT_FALSE(answers_of(rig, late).paired());
  // The first pair is settled and makes room for the requests of the late one.
  for (int i = 0; i < 10; ++i) {
    acknowledge(rig, first, first.psn - 1);
    request(rig, first);
  }
  ASSERT_TRUE(settled(rig, first));
  request(rig, late);
  request(rig, late);
  acknowledge(rig, late, 500001);
  EXPECT_TRUE(paired_rightly(rig, late));
}

TEST(QpPairing, PortsDecideBetweenQueuePairsInLockstep) {
  TrackRig rig;
  Pair one{Qpn(5), Qpn(60), 0, 50001, 50001}, two{Qpn(6), Qpn(50), 0, 50002, 50002};
  for (int i = 0; i < 2; ++i) {
    request(rig, one);
    request(rig, two);
    acknowledge(rig, one, one.psn - 1);
    acknowledge(rig, two, two.psn - 1);
  }
  EXPECT_TRUE(paired_rightly(rig, one));
  EXPECT_TRUE(paired_rightly(rig, two));
  EXPECT_LT(requests_of(rig, one).confidence(), 60) << "equal ports are weak evidence";
}

TEST(QpPairing, PortsThatLinuxDerivesFromTheQpnsAreStrongEvidence) {
  // rdma_rxe hashes the sender's QPN.
  TrackRig rig;
  Pair one{Qpn(17), Qpn(19), 0, stages::rxe_port(Qpn(17)), stages::rxe_port(Qpn(19))};
  Pair two{Qpn(18), Qpn(20), 0, stages::rxe_port(Qpn(18)), stages::rxe_port(Qpn(20))};
  for (Pair* pair : {&one, &two}) request(rig, *pair);
  for (Pair* pair : {&one, &two}) acknowledge(rig, *pair, 0);
  EXPECT_TRUE(paired_rightly(rig, one));
  EXPECT_TRUE(paired_rightly(rig, two));
  EXPECT_GE(requests_of(rig, one).confidence(), 60);
  // Hardware devices hash the product of both.
  TrackRig hardware;
  const std::uint16_t port = stages::linux_flow_port(Qpn(0x1a2), Qpn(0x3b4));
  Pair three{Qpn(0x1a2), Qpn(0x3b4), 0, port, port};
  request(hardware, three);
  acknowledge(hardware, three, 0);
  EXPECT_TRUE(paired_rightly(hardware, three));
  EXPECT_EQ(requests_of(hardware, three).confidence(), 85);
}

TEST(LinuxPorts, AreInTheRangeOfTheStandardAndSymmetric) {
  EXPECT_EQ(stages::linux_flow_port(Qpn(7), Qpn(9)), stages::linux_flow_port(Qpn(9), Qpn(7)));
  // 0x123456 * 0x654321 = 0x734CC2F2A36, xor >> 20 and >> 40, folded to 14 bits.
  std::uint64_t v = 0x123456ull * 0x654321ull;
  v ^= v >> 20;
  v ^= v >> 40;
  const auto label = static_cast<std::uint32_t>(v & 0xfffff);
  EXPECT_EQ(stages::linux_flow_port(Qpn(0x123456), Qpn(0x654321)),
            ((label & 0x3fff) ^ (label & 0xfc000) >> 14) | 0xc000);
  EXPECT_GE(stages::rxe_port(Qpn(0xffffff)), 0xc000);
}

TEST(QpPairing, ContradictionsLowerTheConfidenceAndEndAWrongPairing) {
  TrackRig rig;
  // Only the first pair's requests and the second pair's answers have been seen.
  Pair one{Qpn(5), Qpn(60), 1000}, two{Qpn(6), Qpn(50), 1000};
  request(rig, one);
  request(rig, one);
  acknowledge(rig, two, 1000);
  EXPECT_TRUE(answers_of(rig, two).paired()) << "for lack of anybody else";
  const std::uint8_t wrong = answers_of(rig, two).confidence();
  EXPECT_LE(wrong, 60);
  acknowledge(rig, two, 1500);
  EXPECT_LT(answers_of(rig, two).confidence(), wrong);
  acknowledge(rig, two, 1501);
  EXPECT_FALSE(answers_of(rig, two).paired());
  EXPECT_EQ(rig.count(TrackCounter::pairs_dissolved), 1u);
  // Now the truth comes in.
  two.psn = 1502;
  for (int i = 0; i < 10; ++i) {
    for (Pair* pair : {&one, &two}) {
      request(rig, *pair);
      acknowledge(rig, *pair, pair->psn - 1);
    }
  }
  EXPECT_TRUE(paired_rightly(rig, one));
  EXPECT_TRUE(paired_rightly(rig, two));
}

TEST(QpPairing, CmOverridesWhatTrafficSaid) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 100};
  request(rig, pair);
  acknowledge(rig, pair, 100);
  ASSERT_TRUE(paired_rightly(rig, pair));
  rig.burst({cm(kA, kB, req(1, Qpn(9), Psn(0))), cm(kB, kA, rep(2, 1, pair.at_b, Psn(0)))});
  EXPECT_EQ(requests_of(rig, pair).peer, rig.position(kB, kA, Qpn(9)));
  EXPECT_EQ(requests_of(rig, pair).confidence(), 100);
  EXPECT_FALSE(answers_of(rig, pair).paired());
}

TEST(QpPairing, CanBeSwitchedOff) {
  TrackRig rig({.max_qps = 100, .pairing = false});
  Pair pair{Qpn(5), Qpn(6), 100};
  request(rig, pair);
  acknowledge(rig, pair, 100);
  EXPECT_FALSE(requests_of(rig, pair).paired());
  EXPECT_TRUE(settled(rig, pair)) << "nobody asks for evidence";
}

TEST(QpPairing, AnAgedPartnerLeavesTheOtherUnpaired) {
  TrackRig rig({.max_qps = 100, .idle_timeout_s = 10});
  Pair pair{Qpn(5), Qpn(6), 100};
  request(rig, pair);
  acknowledge(rig, pair, 100);
  rig.advance_s(30);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
  request(rig, pair);
  EXPECT_FALSE(requests_of(rig, pair).paired());
  acknowledge(rig, pair, 101);
  EXPECT_TRUE(paired_rightly(rig, pair));
}

TEST(QpPairing, EvidenceIsLookedAtOnlySoOftenPerTick) {
  TrackRig rig;
  Pair pair{Qpn(5), Qpn(6), 0};
  request(rig, pair);
  // The wrong answers use the whole budget of this tick.
  for (std::uint32_t i = 0; i < stages::QpPairing::kEvidencePerTick; ++i) rig.send(ack_from_b(pair.at_a, 1000 + i));
  rig.send(ack_from_b(pair.at_a, 0));
  EXPECT_FALSE(requests_of(rig, pair).paired());
  rig.advance_ticks(1);
  rig.send(ack_from_b(pair.at_a, 0));
  EXPECT_TRUE(paired_rightly(rig, pair));
}

// Many queue pairs between two hosts with random PSNs, in both directions of request, with acknowledgements that come
// late: no pairing may ever be settled wrongly, and in the end all are right. The switch sees nothing of the first
// `unseen_steps` requests.
void run_random_pairs(std::size_t count, std::uint32_t psn_range, bool all_must_settle, int unseen_steps = 0) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  TrackRig rig;
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    pairs.push_back({Qpn(100 + n), Qpn(300 + (n * 7) % 200), static_cast<std::uint32_t>(random() % psn_range)});
  }
  std::deque<std::pair<std::size_t, std::uint32_t>> answers;
  for (int step = 0; step < 15000; ++step) {
    const std::size_t i = random() % count;
    answers.push_back({i, pairs[i].psn});
    if (step < unseen_steps) {
      ++pairs[i].psn;
      continue;
    }
    request(rig, pairs[i]);
    while (answers.size() > random() % 30) {
      acknowledge(rig, pairs[answers.front().first], answers.front().second);
      answers.pop_front();
    }
    if (step % 500 == 0) rig.advance_s(2);
    if (step % 20 != 0) continue;
    for (const Pair& pair : pairs) {
      if (!rig.has(kB, kA, pair.at_a) || !rig.has(kA, kB, pair.at_b)) continue;
      if (answers_of(rig, pair).paired() && settled(rig, pair)) {
        ASSERT_TRUE(paired_rightly(rig, pair)) << "seed " << seed << " step " << step;
      }
    }
  }
  std::size_t right = 0;
  for (const Pair& pair : pairs) right += paired_rightly(rig, pair) ? 1 : 0;
  std::cout << right << " of " << count << " paired\n";
  if (all_must_settle) {
    EXPECT_EQ(right, count) << "seed " << seed;
  }
}

TEST(QpPairing, RandomPsnsSettleAllAndNoneWrongly) {
  run_random_pairs(20, 0x1000000, true);
}
TEST(QpPairing, PsnsThatAllBeginAtZeroSettleAllAndNoneWrongly) {
  run_random_pairs(8, 1, true);
}
TEST(QpPairing, AStartInTheMidstSettlesNoneWrongly) {
  run_random_pairs(8, 1, true, 150);
}
TEST(QpPairing, MoreQueuePairsThanCandidatesSettleNoneWrongly) {
  run_random_pairs(60, 0x1000000, false);
}

}  // namespace
}  // namespace weft::testing
