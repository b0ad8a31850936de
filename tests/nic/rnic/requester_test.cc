// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Clauses of IBTA 9.7.5 to 9.7.8: what the requester sends, and what it makes of answers.
#include "nic/rnic/requester.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "tests/nic/rnic/half_test.h"

namespace weft::nic {
namespace {

using wire::NakCode;
using wire::Opcode;
using wire::Psn;
using wire::Syndrome;

using testing::HalfTest;

constexpr std::uint32_t kMtu = testing::kHalfMtu;

class RequesterTest : public HalfTest {
 protected:
  RequesterTest() { make({}); }

  void make(QpConfig c) {
    c.path_mtu = kMtu;
    c.rto_ns = 1 * kMs;
    requester.emplace(c, Pd{1}, table, wire::Qpn(5));
    requester->connect(Psn(0xfffffe));
    register_memory(1 << 16, 0x42);
  }
  PostResult post(WrOpcode op, std::uint32_t length, std::uint64_t id = 1) {
    SendWr wr;
    wr.wr_id = id;
    wr.opcode = op;
    wr.with({0x1000, length, mr.key});
    return requester->post(wr, cq);
  }
  std::vector<Packet> sent() {
    std::vector<Packet> all;
    for (Packet p; requester->transmit(now, p, cq);) all.push_back(p);
    return all;
  }
  ResponseEvent answer(Opcode o, std::uint32_t psn, Syndrome s, std::uint32_t payload = 0) {
    Packet p;
    p.opcode = o;
    p.psn = Psn(psn);
    p.syndrome = s.raw();
    p.payload.set(bytes.data() + 30000, payload);
    return requester->on_response(now, p, cq);
  }
  ResponseEvent ack(std::uint32_t psn) { return answer(Opcode::RC_ACKNOWLEDGE, psn, Syndrome::ack()); }
  ResponseEvent nak(std::uint32_t psn, NakCode code = NakCode::psn_sequence_error) {
    return answer(Opcode::RC_ACKNOWLEDGE, psn, Syndrome::nak(code));
  }
  void expire() {
    now = requester->next_deadline();
    ASSERT_NE(now, kNever);
    requester->on_timer(now, cq);
  }
  std::optional<Requester> requester;
};

TEST_F(RequesterTest, CutsAMessageAtTheMtuAndAsksForAnAckAtItsEnd) {
  ASSERT_EQ(post(WrOpcode::send_imm, 2 * kMtu + 1), PostResult::ok);
  const auto p = sent();
  ASSERT_EQ(p.size(), 3u);
  EXPECT_EQ(p[0].opcode, Opcode::RC_SEND_FIRST);
  EXPECT_EQ(p[1].opcode, Opcode::RC_SEND_MIDDLE);
  EXPECT_EQ(p[2].opcode, Opcode::RC_SEND_LAST_IMM);
  EXPECT_EQ(p[2].psn, Psn(0)) << "PSNs wrap";
  EXPECT_EQ(p[2].payload.bytes, 1u);
  EXPECT_FALSE(p[0].ack_req);
  EXPECT_TRUE(p[2].ack_req);
  ack(0);
  ASSERT_EQ(completions().size(), 1u);
  EXPECT_EQ(requester->next_deadline(), kNever);
}

TEST_F(RequesterTest, APieceOfMemoryOutsideItsRegionFailsWhenItsTurnComes) {
  ASSERT_EQ(post(WrOpcode::write, 10, 1), PostResult::ok);
  SendWr bad;
  bad.wr_id = 2;
  bad.with({0x1000 + (1 << 16) - 5, 6, mr.key});
  ASSERT_EQ(requester->post(bad, cq), PostResult::ok);
  EXPECT_EQ(sent().size(), 1u);
  ack(0xfffffe);
  EXPECT_EQ(sent().size(), 0u);
  const auto done = completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::local_protection_error);
}

TEST_F(RequesterTest, PayloadOfSeveralPiecesIsGathered) {
  SendWr wr;
  wr.sge = {Sge{0x1000, 100, mr.key}, Sge{0x2000, 300, mr.key}};
  wr.sge_count = 2;
  ASSERT_EQ(requester->post(wr, cq), PostResult::ok);
  const auto p = sent();
  ASSERT_EQ(p.size(), 2u);
  ASSERT_EQ(p[0].payload.count, 2);
  EXPECT_EQ(p[0].payload.pieces[1].bytes, kMtu - 100);
  EXPECT_EQ(p[1].payload.pieces[0].data, bytes.data() + 0x1000 + kMtu - 100);
}

TEST_F(RequesterTest, GoBackNSendsEverythingFromTheNakOnAgain) {
  ASSERT_EQ(post(WrOpcode::send, 4 * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 4u);
  EXPECT_TRUE(nak(0xffffff).nack);
  const auto again = sent();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].psn, Psn(0xffffff));
  EXPECT_TRUE(again[0].retransmission);
  EXPECT_EQ(requester->counters().retransmitted, 3u);
}

TEST_F(RequesterTest, NicSrSendsThePsnOfTheNackAlone) {
  make({.loss_recovery = LossRecovery::nic_sr});
  ASSERT_EQ(post(WrOpcode::send, 4 * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 4u);
  nak(0xffffff);
  const auto again = sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn, Psn(0xffffff));
}

TEST_F(RequesterTest, IrnSendsWhatIsMissingBelowTheHighestSackOnce) {
  make({.loss_recovery = LossRecovery::irn});
  ASSERT_EQ(post(WrOpcode::send, 6 * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 6u);
  Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.syndrome = Syndrome::nak(NakCode::psn_sequence_error).raw();
  p.psn = Psn(0xfffffe);
  for (const std::uint32_t sack : {0u, 2u}) {
    p.msn = sack;
    requester->on_response(now, p, cq);
  }
  const auto again = sent();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].psn, Psn(0xfffffe));
  EXPECT_EQ(again[1].psn, Psn(0xffffff));
  EXPECT_EQ(again[2].psn, Psn(1));
  p.msn = 3;
  requester->on_response(now, p, cq);
  EXPECT_TRUE(sent().empty()) << "2 lies between what has arrived: nothing new is missing";
  ack(3);
  EXPECT_EQ(completions().size(), 1u);
}

// A receiver that kept an early packet throws it away when it finds no receive request for it. The RNR NAK says so, and
// a loss of the next try must not leave the packet out for ever.
TEST_F(RequesterTest, IrnForgetsThatAPacketHadArrivedWhenAnRnrNakAsksForIt) {
  make({.loss_recovery = LossRecovery::irn});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(WrOpcode::send, kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 3u);
  Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.syndrome = Syndrome::nak(NakCode::psn_sequence_error).raw();
  p.psn = Psn(0xfffffe);
  p.msn = 0xffffff;
  requester->on_response(now, p, cq);
  EXPECT_EQ(sent().size(), 1u) << "the first";
  p.syndrome = Syndrome::rnr_nak(1).raw();
  p.psn = Psn(0xffffff);
  p.msn = 1;
  requester->on_response(now, p, cq);
  requester->on_timer(now = requester->next_deadline(), cq);
  ASSERT_EQ(sent().size(), 1u);
  requester->on_timer(now = requester->next_deadline(), cq);
  const auto again = sent();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].psn, Psn(0xffffff));
}

// The same, when the RNR NAK itself is lost: nothing but the timeout is left to bring the packet back.
TEST_F(RequesterTest, IrnSendsTheFirstMissingPacketAfterATimeoutThoughItHadComeEarly) {
  make({.loss_recovery = LossRecovery::irn});
  for (int i = 0; i < 2; ++i) ASSERT_EQ(post(WrOpcode::send, kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 2u);
  Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.syndrome = Syndrome::nak(NakCode::psn_sequence_error).raw();
  p.psn = Psn(0xfffffe);
  p.msn = 0xffffff;
  requester->on_response(now, p, cq);
  EXPECT_EQ(sent().size(), 1u) << "the first";
  answer(Opcode::RC_ACKNOWLEDGE, 0xfffffe, Syndrome::ack(0x1f));
  requester->on_timer(now = requester->next_deadline(), cq);
  const auto again = sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn, Psn(0xffffff));
}

// A receiver that says of single packets what it has, and a requester with a window of many words of its record.
class IrnTest : public RequesterTest {
 protected:
  static constexpr std::uint32_t kPackets = 1024, kOfMessage = 8;

  void begin() {
    make({.loss_recovery = LossRecovery::irn, .reorder_window = kPackets, .max_inflight_packets = kPackets});
    for (std::uint32_t i = 0; i < kPackets / kOfMessage; ++i) {
      ASSERT_EQ(post(WrOpcode::write, kOfMessage * kMtu), PostResult::ok);
    }
  }
  void nack(std::uint32_t waits_for, std::uint32_t has) {
    Packet p;
    p.opcode = Opcode::RC_ACKNOWLEDGE;
    p.syndrome = Syndrome::nak(NakCode::psn_sequence_error).raw();
    p.psn = Psn(0xfffffe) + waits_for;
    p.msn = (Psn(0xfffffe) + has).value();
    requester->on_response(now, p, cq);
  }
  std::vector<std::uint32_t> resent() {
    std::vector<std::uint32_t> all;
    for (const Packet& p : sent()) {
      if (p.retransmission) all.push_back(index_of(p));
    }
    return all;
  }
  static std::uint32_t index_of(const Packet& p) {
    return static_cast<std::uint32_t>(p.psn.distance_from(Psn(0xfffffe)));
  }
};

// The search for the next hole goes on where it ended: what is looked at for a packet does not grow with the window.
TEST_F(IrnTest, ARecoveryLooksAtEachWordOfItsRecordAFewTimesHoweverManyPacketsItMoves) {
  for (const bool at_once : {false, true}) {
    for (const std::uint32_t one_lost_of : {3u, 2u, kPackets}) {
      begin();
      ASSERT_EQ(sent().size(), kPackets);
      std::uint64_t events = 0, again = 0;
      for (std::uint32_t i = 0; i < kPackets; ++i) {
        if (i % one_lost_of == 0) continue;
        nack(0, i);
        ++events;
        if (at_once) again += resent().size();
      }
      again += resent().size();
      EXPECT_EQ(again, (kPackets - 2) / one_lost_of + 1);
      EXPECT_LE(requester->counters().hole_searches, 2 * (events + again) + kPackets / 64) << one_lost_of;
      ack(kPackets - 3);
      EXPECT_EQ(requester->outstanding(), 0u);
    }
  }
}

// What is sent again after any NACKs and ACKs is what a search through the whole window finds.
TEST_F(IrnTest, AnyNacksAndAcksMakeItResendWhatIsMissing) {
  std::mt19937 random(7);
  std::uint64_t holes = 0;
  for (int round = 0; round < 30; ++round) {
    begin();
    ASSERT_EQ(sent().size(), kPackets);
    std::vector<bool> has(kPackets);
    std::uint32_t una = 0, cursor = 0, highest = 0;
    bool recovers = false;
    const auto missing = [&](std::uint32_t from) {
      for (std::uint32_t s = std::max(from, una); s < highest; ++s) {
        if (!has[s]) return s;
      }
      return kPackets;
    };
    while (una + 2 < kPackets) {
      if (random() % 4 != 0) {
        const std::uint32_t sack = una + 1 + random() % std::min(kPackets - una - 1, 200u);
        nack(una, sack);
        if (!recovers) cursor = una;
        recovers = true;
        has[sack] = true;
        highest = std::max(highest, sack);
      } else {
        una += 1 + random() % std::min(kPackets - una - 1, 40u);
        ack((Psn(0xfffffe) + (una - 1)).value());
        recovers = recovers && missing(cursor) != kPackets;
      }
      // Sometimes less leaves than could.
      std::vector<std::uint32_t> expected, left;
      const std::size_t most = random() % 3 == 0 ? kPackets : random() % 3;
      std::uint32_t s = kPackets;
      for (; expected.size() < most && recovers && (s = missing(cursor)) != kPackets; cursor = s + 1) {
        expected.push_back(s);
      }
      for (Packet p; left.size() < most && requester->transmit(now, p, cq);) left.push_back(index_of(p));
      ASSERT_EQ(left, expected) << "round " << round << ", una " << una;
      holes += expected.size();
    }
  }
  EXPECT_GT(holes, 1000u);
}

TEST_F(RequesterTest, TimeoutsEndWithRetryExceededAndFlushTheRest) {
  make({.retry_count = 2});
  ASSERT_EQ(post(WrOpcode::send, 10, 1), PostResult::ok);
  ASSERT_EQ(post(WrOpcode::send, 10, 2), PostResult::ok);
  EXPECT_EQ(sent().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    expire();
    EXPECT_EQ(sent().size(), 2u);
  }
  expire();
  EXPECT_TRUE(sent().empty());
  const auto done = completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::retry_exceeded);
  EXPECT_EQ(done[1].status, WcStatus::flushed);
  ASSERT_EQ(post(WrOpcode::send, 10, 3), PostResult::ok);
  EXPECT_EQ(completions().at(0).status, WcStatus::flushed);
}

TEST_F(RequesterTest, ProgressGivesAllRetriesBack) {
  make({.retry_count = 1});
  ASSERT_EQ(post(WrOpcode::send, 2 * kMtu), PostResult::ok);
  sent();
  expire();
  sent();
  ack(0xfffffe);
  expire();
  EXPECT_FALSE(requester->failed());
}

TEST_F(RequesterTest, AnRnrNakHoldsEverythingForItsTime) {
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  sent();
  answer(Opcode::RC_ACKNOWLEDGE, 0xfffffe, Syndrome::rnr_nak(1));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(requester->next_deadline(), now + static_cast<Time>(wire::rnr_timer_ns(1)));
  expire();
  EXPECT_EQ(sent().size(), 1u);
}

TEST_F(RequesterTest, AnRnrNakGivesAllRetriesOfTimeoutsBack) {
  make({.retry_count = 1, .rnr_retry_count = 7});
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  for (int i = 0; i < 5; ++i) {
    sent();
    expire();  // an answer was lost, or late
    sent();
    answer(Opcode::RC_ACKNOWLEDGE, 0xfffffe, Syndrome::rnr_nak(1));
    expire();
    ASSERT_FALSE(requester->failed()) << i;
  }
  sent();
  expire();
  sent();
  expire();
  EXPECT_TRUE(requester->failed()) << "nobody answers any more";
}

TEST_F(RequesterTest, RnrRetriesEndUnlessTheyAreSeven) {
  for (const std::uint8_t count : {std::uint8_t{1}, std::uint8_t{7}}) {
    make({.rnr_retry_count = count});
    ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
    for (int i = 0; i < 20 && !requester->failed(); ++i) {
      sent();
      answer(Opcode::RC_ACKNOWLEDGE, 0xfffffe, Syndrome::rnr_nak(1));
      if (!requester->failed()) expire();
    }
    EXPECT_EQ(requester->failed(), count == 1);
    if (count == 1) {
      EXPECT_EQ(completions().at(0).status, WcStatus::rnr_retry_exceeded);
    }
  }
}

TEST_F(RequesterTest, FatalNaksCompleteTheRequestThatTheyName) {
  const std::pair<NakCode, WcStatus> cases[] = {{NakCode::invalid_request, WcStatus::remote_invalid_request_error},
                                                {NakCode::remote_access_error, WcStatus::remote_access_error},
                                                {NakCode::remote_operational_error, WcStatus::remote_operation_error}};
  for (const auto& [code, status] : cases) {
    make({});
    ASSERT_EQ(post(WrOpcode::send, 10, 1), PostResult::ok);
    ASSERT_EQ(post(WrOpcode::send, 10, 2), PostResult::ok);
    sent();
    nak(0xffffff, code);
    const auto done = completions();
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, WcStatus::success);
    EXPECT_EQ(done[1].status, status);
  }
}

TEST_F(RequesterTest, TheFatalNakDeliveredTwiceIsStaleAndNotWrong) {
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  sent();
  nak(0xfffffe, NakCode::remote_access_error);
  nak(0xfffffe, NakCode::remote_access_error);
  EXPECT_EQ(requester->counters().naks_fatal, 1u);
  EXPECT_EQ(requester->counters().stale_responses, 1u);
  EXPECT_EQ(requester->counters().bad_responses, 0u);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(RequesterTest, AnAckThatALaterOneHasOvertakenIsStaleAndRepeatsNothing) {
  make({.loss_recovery = LossRecovery::nic_sr});
  ASSERT_EQ(post(WrOpcode::send, 4 * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 4u);
  ack(0);
  ack(0xfffffe);
  nak(0xffffff);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(requester->counters().stale_responses, 2u);
  EXPECT_EQ(requester->inflight_packets(), 1u);
  nak(1);
  EXPECT_EQ(sent().size(), 1u) << "a NAK acknowledges what the ACK that it has overtaken would";
  ack(0);
  EXPECT_TRUE(sent().empty());
  ack(1);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(RequesterTest, AReadIsCompleteWithItsLastResponseAndRepeatedFromWhatIsMissing) {
  ASSERT_EQ(post(WrOpcode::read, 3 * kMtu), PostResult::ok);
  ASSERT_EQ(post(WrOpcode::send, 1, 2), PostResult::ok);
  EXPECT_EQ(sent().size(), 2u);
  answer(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 0xfffffe, Syndrome::ack(), kMtu);
  answer(Opcode::RC_RDMA_READ_RESPONSE_LAST, 0, Syndrome::ack(), kMtu);
  EXPECT_EQ(requester->counters().implied_naks, 1u);
  const auto again = sent();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].opcode, Opcode::RC_RDMA_READ_REQUEST);
  EXPECT_EQ(again[0].psn, Psn(0xffffff));
  EXPECT_EQ(again[0].dma_length, 2 * kMtu);
  answer(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 0xffffff, Syndrome::ack(), kMtu);
  EXPECT_TRUE(completions().empty());
  answer(Opcode::RC_RDMA_READ_RESPONSE_LAST, 0, Syndrome::ack(), kMtu);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(RequesterTest, AnAckDoesNotCompleteARead) {
  ASSERT_EQ(post(WrOpcode::read, 10), PostResult::ok);
  sent();
  ack(0xfffffe);
  EXPECT_TRUE(completions().empty());
  EXPECT_EQ(sent().size(), 1u) << "the response is missing, so the READ is sent again";
}

TEST_F(RequesterTest, AnswersThatNobodyAskedForChangeNothing) {
  ASSERT_EQ(post(WrOpcode::read, 10), PostResult::ok);
  ack(0xfffffe);  // not sent yet
  sent();
  ack(0xffffff);
  nak(5);
  answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0xfffffe, Syndrome::ack(), 11);
  answer(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 0xfffffe, Syndrome::ack(), 10);
  answer(Opcode::RC_ATOMIC_ACKNOWLEDGE, 0xfffffe, Syndrome::ack());
  EXPECT_EQ(requester->counters().bad_responses, 6u);
  answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0xfffffe, Syndrome::ack(), 10);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(RequesterTest, ReadsUnderWayAreLimitedAndAFenceWaitsForThem) {
  make({.max_rd_atomic = 2});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(WrOpcode::read, 10), PostResult::ok);
  EXPECT_EQ(sent().size(), 2u);
  answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0xfffffe, Syndrome::ack(), 10);
  EXPECT_EQ(sent().size(), 1u);
  SendWr fenced;
  fenced.fence = true;
  ASSERT_EQ(requester->post(fenced, cq), PostResult::ok);
  EXPECT_TRUE(sent().empty());
  answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0xffffff, Syndrome::ack(), 10);
  answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0, Syndrome::ack(), 10);
  EXPECT_EQ(sent().size(), 1u);
}

TEST_F(RequesterTest, ThePacketsThatReadsBringFitTheWindowTogether) {
  make({.max_inflight_packets = 8});
  // Of three, five and four packets: the third has no room. One that is larger than the window goes alone.
  for (const std::uint32_t packets : {3u, 5u, 4u, 9u}) ASSERT_EQ(post(WrOpcode::read, packets * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 2u);
  answer(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 0xfffffe, Syndrome::ack(), kMtu);
  answer(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 0xffffff, Syndrome::ack(), kMtu);
  EXPECT_TRUE(sent().empty());
  answer(Opcode::RC_RDMA_READ_RESPONSE_LAST, 0, Syndrome::ack(), kMtu);
  EXPECT_TRUE(sent().empty()) << "five and four are more than eight";
  for (std::uint32_t i = 1; i <= 5; ++i) {
    answer(i == 1   ? Opcode::RC_RDMA_READ_RESPONSE_FIRST
           : i == 5 ? Opcode::RC_RDMA_READ_RESPONSE_LAST
                    : Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
           i, Syndrome::ack(), kMtu);
  }
  EXPECT_EQ(sent().size(), 1u);
  for (std::uint32_t i = 6; i <= 9; ++i) {
    answer(i == 6   ? Opcode::RC_RDMA_READ_RESPONSE_FIRST
           : i == 9 ? Opcode::RC_RDMA_READ_RESPONSE_LAST
                    : Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
           i, Syndrome::ack(), kMtu);
  }
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_EQ(completions().size(), 3u);
}

TEST_F(RequesterTest, TheWindowHoldsPacketsBackAndAsksForAnAckAtItsEnd) {
  make({.max_inflight_packets = 3, .ack_interval = 100});
  ASSERT_EQ(post(WrOpcode::send, 10 * kMtu), PostResult::ok);
  const auto p = sent();
  ASSERT_EQ(p.size(), 3u);
  EXPECT_TRUE(p[2].ack_req);
  ack(0xffffff);
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(RequesterTest, BytesInFlightAreLimitedAsIrnHasIt) {
  make({.loss_recovery = LossRecovery::irn, .max_inflight_bytes = 4 * kMtu + 1});
  ASSERT_EQ(post(WrOpcode::send, 10 * kMtu), PostResult::ok);
  EXPECT_EQ(sent().size(), 4u);
}

TEST_F(RequesterTest, WithoutCreditOnePacketMayAsk) {
  make({.end_to_end_credits = true});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(WrOpcode::send, 2 * kMtu), PostResult::ok);
  auto p = sent();
  ASSERT_EQ(p.size(), 1u);
  EXPECT_TRUE(p[0].ack_req);
  answer(Opcode::RC_ACKNOWLEDGE, 0xfffffe, Syndrome::ack(2));  // MSN 0, two credits
  EXPECT_EQ(sent().size(), 3u) << "the rest of the first message, and the second";
}

TEST_F(RequesterTest, AdaptiveTimeoutsDoubleAndOnlyTheFullOneCounts) {
  make({.rto_mode = RtoMode::adaptive, .rto_low_ns = 250 * kUs, .retry_count = 0});
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  for (const Time expected : {250 * kUs, 500 * kUs, 1000 * kUs}) {
    sent();
    EXPECT_EQ(requester->next_deadline() - now, expected);
    expire();
  }
  EXPECT_TRUE(requester->failed());
}

TEST_F(RequesterTest, DoubledTimeoutsAllCount) {
  make({.rto_mode = RtoMode::doubled, .retry_count = 2});
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  for (const Time expected : {1 * kMs, 2 * kMs, 4 * kMs}) {
    sent();
    EXPECT_EQ(requester->next_deadline() - now, expected);
    expire();
  }
  EXPECT_TRUE(requester->failed());
}

TEST_F(RequesterTest, AdaptiveTimeoutsAreLongerThanRoundTrips) {
  constexpr Time kRoundTrip = 400 * kUs;
  make({.rto_mode = RtoMode::adaptive, .rto_low_ns = 160 * kUs});
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::uint64_t before = requester->counters().timeouts;
    ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
    sent();
    for (const Time answered = now + kRoundTrip; now < answered;) {
      if (requester->next_deadline() < answered) {
        expire();
        sent();
      } else {
        now = answered;
      }
    }
    ack(0xfffffe + i);
    ASSERT_EQ(requester->outstanding(), 0u);
    // The first two expire, after 160 and after 320 us; 640 us are enough, and then it is known how long a round trip
    // is.
    EXPECT_EQ(requester->counters().timeouts, before + (i < 2 ? 1 : 0)) << "message " << i;
  }
  ASSERT_EQ(post(WrOpcode::send, 10), PostResult::ok);
  sent();
  EXPECT_GE(requester->next_deadline() - now, kRoundTrip);
  EXPECT_LT(requester->next_deadline() - now, 2 * kRoundTrip) << "what is lost is sent again soon";
}

TEST_F(RequesterTest, IrnWaitsLessWithFewPacketsInFlight) {
  for (const std::uint32_t packets : {3u, 4u}) {
    make({.rto_mode = RtoMode::irn});
    const Time start = now;
    ASSERT_EQ(post(WrOpcode::send, packets * kMtu), PostResult::ok);
    sent();
    while (requester->counters().timeouts == 0) expire();
    EXPECT_EQ(now - start, packets == 3 ? 100 * kUs : 320 * kUs);
  }
}

TEST_F(RequesterTest, WorkThatCannotBeIsRefused) {
  EXPECT_EQ(post(WrOpcode::fetch_add, 4), PostResult::invalid_length);
  SendWr wr;
  wr.sge_count = 5;
  EXPECT_EQ(requester->post(wr, cq), PostResult::invalid_sge);
  Requester fresh(QpConfig{}, Pd{1}, table, wire::Qpn(1));
  EXPECT_EQ(fresh.post({}, cq), PostResult::invalid_state);
  for (int i = 0; i < 128; ++i) ASSERT_EQ(post(WrOpcode::send, 1), PostResult::ok);
  EXPECT_EQ(post(WrOpcode::send, 1), PostResult::queue_full);
}

}  // namespace
}  // namespace weft::nic
