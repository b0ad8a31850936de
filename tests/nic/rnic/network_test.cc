// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Two RNICs over a network that loses, doubles and reorders: every opcode, every loss recovery, sizes around every MTU
// boundary; payload is compared.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>

#include "tests/nic/rnic/fabric.h"

namespace weft::nic {
namespace {

using testing::Fabric;
using testing::Fate;
using testing::Faults;

QpConfig quick(LossRecovery recovery, std::uint32_t mtu) {
  QpConfig c;
  c.path_mtu = mtu;
  c.loss_recovery = recovery;
  c.rto_ns = 200 * kUs;
  c.retry_count = 7;
  c.min_rnr_timer = 1;  // 10 us
  c.send_queue_depth = 256;
  c.receive_queue_depth = 256;
  return c;
}

constexpr std::size_t kRegion = 1 << 20;

/// Work that was posted, and what must have come of it.
struct Traffic {
  explicit Traffic(Fabric& f) : fabric(f) {
    f.a.memory(kRegion, 7);
    f.b.memory(kRegion, 8);
    std::memset(f.b.buffer.data(), 0, 64);  // counters of atomics
  }

  SendWr wr(WrOpcode op, std::uint32_t bytes) {
    SendWr w;
    w.wr_id = next_id++;
    w.opcode = op;
    const std::uint32_t length = is_atomic(op) ? 8 : bytes;
    w.with(fabric.a.sge(from, length));
    w.remote_address = fabric.b.mr.address + (is_atomic(op) ? 0 : to);
    w.rkey = fabric.b.mr.key;
    w.immediate = 0xabcd0000u + static_cast<std::uint32_t>(w.wr_id);
    w.compare_add = 1;
    return w;
  }

  /// One message of each kind of this size, at places of their own.
  void post_all(std::uint32_t bytes) {
    for (const WrOpcode op : {WrOpcode::send, WrOpcode::send_imm, WrOpcode::write, WrOpcode::write_imm, WrOpcode::read,
                              WrOpcode::fetch_add}) {
      if (consumes_receive(op)) {
        RecvWr r;
        r.wr_id = to;
        r.with(fabric.b.sge(to, bytes));
        ASSERT_EQ(fabric.b.qp->post_recv(r), PostResult::ok);
      }
      const SendWr w = wr(op, bytes);
      ASSERT_EQ(fabric.a.qp->post_send(w), PostResult::ok);
      ++expected;
      moves.push_back({op, from, to, bytes});
      from += bytes + 8;
      to += bytes + 8;
      ASSERT_LT(to, kRegion);
    }
  }

  void check() {
    std::uint64_t adds = 0;
    for (const auto& m : moves) {
      if (m.op == WrOpcode::fetch_add) {
        std::uint64_t before = 0;
        std::memcpy(&before, fabric.a.buffer.data() + m.from, sizeof before);
        EXPECT_EQ(before, adds++) << "an atomic was not done exactly once, in order";
        continue;
      }
      EXPECT_EQ(std::memcmp(fabric.a.buffer.data() + m.from, fabric.b.buffer.data() + m.to, m.bytes), 0)
          << name(m.op) << " of " << m.bytes << " bytes";
    }
  }

  struct Move {
    WrOpcode op;
    std::uint64_t from, to;
    std::uint32_t bytes;
  };
  Fabric& fabric;
  std::uint64_t next_id = 1;
  std::uint64_t from = 64, to = 64;
  std::size_t expected = 0;
  std::vector<Move> moves;
};

using Case = std::tuple<LossRecovery, std::uint32_t, int>;

class Recovery : public ::testing::TestWithParam<Case> {};

Faults faults_of(int level) {
  switch (level) {
    case 1:
      return {.loss = 0.01, .duplicate = 0.01, .reorder = 0.02};
    case 2:
      return {.loss = 0.05, .duplicate = 0.05, .reorder = 0.2};
    default:
      return {};
  }
}

std::uint64_t run_all(const Case& c, std::uint64_t seed, wire::Psn psn) {
  const auto [recovery, mtu, level] = c;
  Fabric f(seed);
  f.faults = faults_of(level);
  f.connect(quick(recovery, mtu), psn, psn);
  Traffic t(f);
  std::size_t done = 0, received = 0;
  for (const std::uint32_t bytes : {0u, 1u, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu - 1, 7 * mtu + 3}) {
    t.post_all(bytes);
    const bool finished = f.run([&] {
      for (const Wc& wc : f.a.poll()) {
        EXPECT_EQ(wc.status, WcStatus::success) << name(wc.status);
        EXPECT_EQ(wc.wr_id, ++done) << "completions come in order, once";
      }
      for (const Wc& wc : f.b.poll()) {
        EXPECT_EQ(wc.status, WcStatus::success) << name(wc.status);
        ++received;
      }
      return done == t.expected;
    });
    EXPECT_TRUE(finished) << bytes << " bytes: " << done << " of " << t.expected << " at " << f.now << ", una inflight "
                          << f.a.qp->requester().inflight_packets();
    if (!finished) break;
  }
  t.check();
  f.settle(kMs);
  EXPECT_EQ(received, t.expected / 6 * 3);
  std::uint64_t bytes_placed = 0;
  for (const auto& m : t.moves) bytes_placed += is_read_or_atomic(m.op) ? 0 : m.bytes;
  EXPECT_EQ(f.b.qp->responder().counters().bytes_placed, bytes_placed) << "every byte is placed once";
  if (level == 0) {
    EXPECT_EQ(f.a.qp->requester().counters().retransmitted, 0u);
    EXPECT_EQ(f.b.qp->responder().counters().duplicates, 0u);
  }
  return f.trace;
}

TEST_P(Recovery, EveryOpcodeOfEverySizeArrivesOnceAndWhole) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_all(GetParam(), seed, wire::Psn(1000));
    if (HasFailure()) return;
  }
}

TEST_P(Recovery, PsnsWrapWithoutATrace) {
  for (std::uint64_t seed = 11; seed <= 14; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_all(GetParam(), seed, wire::Psn(0xffffff - static_cast<std::uint32_t>(seed)));
    if (HasFailure()) return;
  }
}

TEST_P(Recovery, TheSameSeedGivesTheSameTrace) {
  EXPECT_EQ(run_all(GetParam(), 3, wire::Psn(5)), run_all(GetParam(), 3, wire::Psn(5)));
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(name(std::get<0>(info.param))) + "_mtu" + std::to_string(std::get<1>(info.param)) + "_faults" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, Recovery,
                         ::testing::Combine(::testing::Values(LossRecovery::gbn, LossRecovery::nic_sr,
                                                              LossRecovery::irn, LossRecovery::ideal),
                                            ::testing::Values(256u, 512u, 1024u, 2048u, 4096u),
                                            ::testing::Values(0, 1, 2)),
                         case_name);

}  // namespace
}  // namespace weft::nic
