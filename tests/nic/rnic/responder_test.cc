// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Clauses of IBTA 9.7.4 and 9.7.5.2: what the responder answers to which request.
#include "nic/rnic/responder.h"

#include <gtest/gtest.h>

#include <cstring>
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

class ResponderTest : public HalfTest {
 protected:
  ResponderTest() { make({}); }

  void make(QpConfig c) {
    c.path_mtu = kMtu;
    c.receive_queue_depth = 8;
    config = c;
    responder.emplace(c, Pd{1}, table, wire::Qpn(5));
    responder->connect(Psn(10));
    register_memory(4096, 0xee);
  }
  void post(std::uint32_t length = 1024) {
    ASSERT_EQ(responder->post(RecvWr{.wr_id = 77}.with({0x1000, length, mr.key}), cq), PostResult::ok);
  }
  Packet request(Opcode o, std::uint32_t psn, std::uint32_t payload = 0, bool ack = true) {
    Packet p;
    p.opcode = o;
    p.psn = Psn(psn);
    p.ack_req = ack;
    p.remote_address = 0x1000;
    p.rkey = mr.key;
    p.dma_length = payload;
    p.immediate = mr.key;
    p.payload.set(data.data(), payload);
    return p;
  }
  void arrive(const Packet& p) { responder->on_request(now, p, cq); }
  std::vector<Packet> answers() {
    std::vector<Packet> all;
    for (Packet p; responder->transmit(p, cq);) all.push_back(p);
    return all;
  }
  Packet only_answer() {
    const auto all = answers();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Packet{} : all[0];
  }
  void expect_nak(Syndrome syndrome, std::uint32_t psn) {
    const Packet p = only_answer();
    EXPECT_EQ(p.opcode, Opcode::RC_ACKNOWLEDGE);
    EXPECT_EQ(p.syndrome, syndrome.raw());
    EXPECT_EQ(p.psn.value(), psn);
  }
  void expect_fatal(NakCode code) {
    expect_nak(Syndrome::nak(code), 10);
    EXPECT_TRUE(responder->failed());
    arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
    EXPECT_TRUE(answers().empty()) << "after a failure nothing is answered";
  }
  QpConfig config;
  std::optional<Responder> responder;
  std::vector<std::uint8_t> data = std::vector<std::uint8_t>(4096, 0x5a);
};

TEST_F(ResponderTest, ASendCompletesItsReceiveAndIsAcknowledgedWithTheNextMsn) {
  post();
  arrive(request(Opcode::RC_SEND_ONLY_IMM, 10, 100));
  const Packet ack = only_answer();
  EXPECT_EQ(ack.syndrome, Syndrome::ack().raw());
  EXPECT_EQ(ack.psn.value(), 10u);
  EXPECT_EQ(ack.msn, 1u);
  const auto done = completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 77u);
  EXPECT_EQ(done[0].byte_length, 100u);
  EXPECT_TRUE(done[0].with_immediate);
  EXPECT_EQ(bytes[99], 0x5a);
  EXPECT_EQ(bytes[100], 0xee);
}

TEST_F(ResponderTest, WithoutAReceiveItIsNotReadyAndLaterPacketsAreDroppedInSilence) {
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  expect_nak(Syndrome::rnr_nak(config.min_rnr_timer), 10);
  arrive(request(Opcode::RC_SEND_ONLY, 11, 4));
  EXPECT_TRUE(answers().empty());
  post();
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw());
}

TEST_F(ResponderTest, AGapIsReportedOnceUntilItIsFilled) {
  post();
  arrive(request(Opcode::RC_SEND_ONLY, 12, 4));
  expect_nak(Syndrome::nak(NakCode::psn_sequence_error), 10);
  arrive(request(Opcode::RC_SEND_ONLY, 13, 4));
  EXPECT_TRUE(answers().empty());
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().psn.value(), 10u);
  arrive(request(Opcode::RC_SEND_ONLY, 13, 4));
  expect_nak(Syndrome::nak(NakCode::psn_sequence_error), 11);
}

TEST_F(ResponderTest, NicSrReportsEachExpectedPsnOnceAndKeepsWhatIsAhead) {
  make({.loss_recovery = LossRecovery::nic_sr});
  for (int i = 0; i < 6; ++i) post();
  arrive(request(Opcode::RC_SEND_ONLY, 12, 4));
  expect_nak(Syndrome::nak(NakCode::psn_sequence_error), 10);
  arrive(request(Opcode::RC_SEND_ONLY, 14, 4));
  EXPECT_TRUE(answers().empty());
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw()) << "lazy: the next hole waits for the next arrival";
  arrive(request(Opcode::RC_SEND_ONLY, 15, 4));
  expect_nak(Syndrome::nak(NakCode::psn_sequence_error), 11);
  arrive(request(Opcode::RC_SEND_ONLY, 11, 4));
  EXPECT_EQ(responder->expected_psn().value(), 13u) << "12 was kept";
}

TEST_F(ResponderTest, EagerNicSrReportsTheNextHoleAtOnce) {
  make({.loss_recovery = LossRecovery::nic_sr, .renack = Renack::eager});
  for (int i = 0; i < 6; ++i) post();
  arrive(request(Opcode::RC_SEND_ONLY, 12, 4));
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  const auto all = answers();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].syndrome, Syndrome::nak(NakCode::psn_sequence_error).raw());
  EXPECT_EQ(all[2].psn.value(), 11u);
}

TEST_F(ResponderTest, NicSrDropsWhatDoesNotFitItsBitmap) {
  make({.loss_recovery = LossRecovery::nic_sr, .reorder_window = 64});
  arrive(request(Opcode::RC_SEND_ONLY, 10 + 64, 4));
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(responder->counters().beyond_window, 1u);
  arrive(request(Opcode::RC_SEND_ONLY, 10 + 63, 4));
  EXPECT_EQ(answers().size(), 1u);
}

TEST_F(ResponderTest, AnIdealReceiverTakesAnyOrderAndNeverReportsAGap) {
  make({.loss_recovery = LossRecovery::ideal, .reorder_window = 64});
  for (int i = 0; i < 6; ++i) post();
  for (const std::uint32_t psn : {15u, 12u, 14u, 12u}) arrive(request(Opcode::RC_SEND_ONLY, psn, 4));
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(responder->counters().reordered, 3u);
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw()) << "there is a gap at 11, and nobody is told";
  arrive(request(Opcode::RC_SEND_ONLY, 11, 4));
  EXPECT_EQ(only_answer().psn.value(), 12u);
  arrive(request(Opcode::RC_SEND_ONLY, 13, 4));
  EXPECT_EQ(only_answer().psn.value(), 15u);
  EXPECT_EQ(responder->counters().naks_sent, 0u);
}

TEST_F(ResponderTest, IrnNamesThePacketThatCausedItsNack) {
  make({.loss_recovery = LossRecovery::irn});
  for (const std::uint32_t psn : {12u, 15u}) {
    arrive(request(Opcode::RC_SEND_ONLY, psn, 4));
    const Packet nak = only_answer();
    EXPECT_EQ(nak.psn.value(), 10u);
    EXPECT_EQ(nak.msn, psn);
  }
  arrive(request(Opcode::RC_SEND_ONLY, 15, 4));
  EXPECT_TRUE(answers().empty()) << "the same packet again within 4 us";
  now += 5 * kUs;
  arrive(request(Opcode::RC_SEND_ONLY, 15, 4));
  EXPECT_EQ(answers().size(), 1u);
}

TEST_F(ResponderTest, DuplicatesAreAcknowledgedAndNotExecuted) {
  post();
  post();
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().psn.value(), 10u);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(ResponderTest, AnAckNeverNamesThePsnOfARead) {
  post();
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 11);
  read.dma_length = 100;
  arrive(read);
  EXPECT_EQ(answers().size(), 2u);
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().psn.value(), 10u) << "rxe takes an ACK of 11 for the response of the READ";
}

TEST_F(ResponderTest, AReadIsAnsweredInPacketsOfTheMtuAndMayBeRepeatedFromItsMiddle) {
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 10);
  read.dma_length = 2 * kMtu + 10;
  arrive(read);
  auto all = answers();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].opcode, Opcode::RC_RDMA_READ_RESPONSE_FIRST);
  EXPECT_EQ(all[1].opcode, Opcode::RC_RDMA_READ_RESPONSE_MIDDLE);
  EXPECT_EQ(all[2].opcode, Opcode::RC_RDMA_READ_RESPONSE_LAST);
  EXPECT_EQ(all[2].payload.bytes, 10u);
  EXPECT_EQ(responder->expected_psn().value(), 13u);
  read.psn = Psn(11);
  read.remote_address += kMtu;
  read.dma_length -= kMtu;
  arrive(read);
  all = answers();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].opcode, Opcode::RC_RDMA_READ_RESPONSE_FIRST);
  EXPECT_EQ(all[0].psn.value(), 11u);
  EXPECT_EQ(all[0].payload.data(), bytes.data() + kMtu);
}

TEST_F(ResponderTest, AnAckWaitsBehindTheResponsesOfReadsBeforeIt) {
  post();
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 10);
  read.dma_length = 2 * kMtu;
  arrive(read);
  arrive(request(Opcode::RC_SEND_ONLY, 12, 4));
  const auto all = answers();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].opcode, Opcode::RC_ACKNOWLEDGE);
}

TEST_F(ResponderTest, ARepeatedAtomicGetsTheOldAnswer) {
  std::memset(bytes.data(), 0, 8);
  Packet add = request(Opcode::RC_FETCH_ADD, 10);
  add.swap_add = 5;
  arrive(add);
  EXPECT_EQ(only_answer().compare, 0u);
  arrive(add);
  EXPECT_EQ(only_answer().compare, 0u);
  EXPECT_EQ(bytes[0], 5);
  Packet swap = request(Opcode::RC_CMP_SWAP, 11);
  swap.compare = 5;
  swap.swap_add = 9;
  arrive(swap);
  EXPECT_EQ(only_answer().compare, 5u);
  EXPECT_EQ(bytes[0], 9);
}

TEST_F(ResponderTest, CoalescesAcks) {
  for (int i = 0; i < 3; ++i) post();
  for (std::uint32_t i = 0; i < 3; ++i) arrive(request(Opcode::RC_SEND_ONLY, 10 + i, 4));
  EXPECT_EQ(only_answer().psn.value(), 12u);
  make({.ack_every = 2});
  for (int i = 0; i < 3; ++i) post();
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4, false));
  EXPECT_TRUE(answers().empty());
  arrive(request(Opcode::RC_SEND_ONLY, 11, 4, false));
  EXPECT_EQ(only_answer().psn.value(), 11u);
}

TEST_F(ResponderTest, TellsCreditsAndThatThereAreSomeAgain) {
  make({.end_to_end_credits = true});
  post();
  arrive(request(Opcode::RC_SEND_ONLY, 10, 4));
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack(0).raw());
  post();
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack(1).raw()) << "not asked for";
}

TEST_F(ResponderTest, OpcodesOutOfSequenceAreInvalid) {
  post();
  arrive(request(Opcode::RC_SEND_MIDDLE, 10, kMtu));
  expect_fatal(NakCode::invalid_request);
}

TEST_F(ResponderTest, AFirstPacketShorterThanTheMtuIsInvalid) {
  post();
  arrive(request(Opcode::RC_SEND_FIRST, 10, kMtu - 1));
  expect_fatal(NakCode::invalid_request);
}

TEST_F(ResponderTest, AWriteOfAnotherLengthThanItSaysIsInvalid) {
  Packet write = request(Opcode::RC_RDMA_WRITE_ONLY, 10, 100);
  write.dma_length = 99;
  arrive(write);
  expect_fatal(NakCode::invalid_request);
  EXPECT_EQ(bytes[0], 0xee);
}

TEST_F(ResponderTest, AWriteBeyondTheRegionIsRefusedBeforeItWritesAnything) {
  Packet write = request(Opcode::RC_RDMA_WRITE_FIRST, 10, kMtu);
  write.remote_address = 0x1000 + 4096 - kMtu;
  write.dma_length = kMtu + 1;
  arrive(write);
  expect_fatal(NakCode::remote_access_error);
  EXPECT_EQ(bytes[4095], 0xee);
}

TEST_F(ResponderTest, WrongKeysDomainsAndRightsAreRefused) {
  Packet write = request(Opcode::RC_RDMA_WRITE_ONLY, 10, 8);
  write.rkey ^= 1;
  arrive(write);
  expect_fatal(NakCode::remote_access_error);
  make({});
  write.rkey = table.add(Pd{2}, bytes.data(), 4096, Access::all, 0x1000).key;
  arrive(write);
  expect_fatal(NakCode::remote_access_error);
  make({});
  write.rkey = table.add(Pd{1}, bytes.data(), 4096, Access::remote_read, 0x1000).key;
  arrive(write);
  expect_fatal(NakCode::remote_access_error);
}

TEST_F(ResponderTest, AnEmptyWriteNeedsNoKey) {
  Packet write = request(Opcode::RC_RDMA_WRITE_ONLY, 10, 0);
  write.rkey = 0;
  arrive(write);
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw());
}

TEST_F(ResponderTest, WhatTheQueuePairDoesNotAllowIsInvalid) {
  make({.access = Access::remote_write});
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 10);
  read.dma_length = 8;
  arrive(read);
  expect_fatal(NakCode::invalid_request);
}

TEST_F(ResponderTest, AMisalignedAtomicIsInvalid) {
  Packet add = request(Opcode::RC_FETCH_ADD, 10);
  add.remote_address += 4;
  arrive(add);
  expect_fatal(NakCode::invalid_request);
}

TEST_F(ResponderTest, MoreReadsThanAgreedAreInvalid) {
  make({.max_dest_rd_atomic = 1});
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 10);
  read.dma_length = 8;
  arrive(read);
  read.psn = Psn(11);
  arrive(read);
  EXPECT_TRUE(responder->failed());
  EXPECT_EQ(answers().size(), 2u);
}

TEST_F(ResponderTest, AMessageLongerThanItsReceiveFailsBothSides) {
  post(50);
  arrive(request(Opcode::RC_SEND_ONLY, 10, 51));
  const auto done = completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::local_length_error);
  expect_fatal(NakCode::invalid_request);
}

TEST_F(ResponderTest, FailureFlushesReceives) {
  post();
  post();
  responder->fail(cq);
  const auto done = completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[1].status, WcStatus::flushed);
  post();
  EXPECT_EQ(completions().at(0).status, WcStatus::flushed);
}

TEST_F(ResponderTest, SendWithInvalidateTakesTheKeyOutOfUse) {
  post();
  arrive(request(Opcode::RC_SEND_ONLY_INV, 10, 4));
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw());
  const auto done = completions();
  EXPECT_TRUE(done.at(0).with_invalidate);
  EXPECT_EQ(done[0].invalidated_rkey, mr.key);
  EXPECT_FALSE(table.resolve(Pd{1}, mr.key, 0x1000, 1, Access::remote_read));
}

TEST_F(ResponderTest, ARegionTakenAwayUnderAReadEndsItWithANak) {
  Packet read = request(Opcode::RC_RDMA_READ_REQUEST, 10);
  read.dma_length = 3 * kMtu;
  arrive(read);
  Packet p;
  ASSERT_TRUE(responder->transmit(p, cq));
  table.remove(mr.key);
  ASSERT_TRUE(responder->transmit(p, cq));
  EXPECT_EQ(p.syndrome, Syndrome::nak(NakCode::remote_access_error).raw());
  EXPECT_EQ(p.psn.value(), 11u);
  EXPECT_FALSE(responder->can_transmit());
}

TEST_F(ResponderTest, PayloadThatWasElidedIsCountedAndNotCopied) {
  const Mr addresses = table.add(Pd{1}, nullptr, 1 << 20, Access::all, 0);
  Packet write = request(Opcode::RC_RDMA_WRITE_ONLY, 10, 100);
  write.rkey = addresses.key;
  write.remote_address = 0;
  write.payload.set(nullptr, 100);
  arrive(write);
  EXPECT_EQ(only_answer().syndrome, Syndrome::ack().raw());
  EXPECT_EQ(responder->counters().bytes_placed, 100u);
}

}  // namespace
}  // namespace weft::nic
