// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <iostream>
#include <random>
#include <set>
#include <vector>

namespace weft::stages {
namespace {

using wire::Psn;
using Requests = PsnStream<std::uint64_t>;

// The definitions of rdma_track_order.h in unbounded numbers and sets: an arrival is a position in the sender's stream.
class Oracle {
 public:
  explicit Oracle(std::int64_t window) : window_(window) {}

  Arrival take(std::int64_t first, std::int64_t span) {
    if (expected_ < 0) {
      see(first, span);
      return Arrival::in_order;
    }
    const bool ahead = first > expected_, behind = first < expected_;
    const bool known = behind && (expected_ - first > window_ || seen_.count(first) != 0);
    see(first, span);
    if (ahead) return Arrival::gap;
    if (behind) return known ? Arrival::repeated : Arrival::late;
    return Arrival::in_order;
  }

 private:
  void see(std::int64_t first, std::int64_t span) {
    for (std::int64_t i = 0; i < span; ++i) seen_.insert(first + i);
    expected_ = std::max(expected_, first + span);
  }
  std::int64_t window_;
  std::int64_t expected_ = -1;
  std::set<std::int64_t> seen_;
};

// A stream of requests, some of which span several PSNs, that suffers loss, copies, delay and going back.
struct Request {
  std::int64_t first, span;
};
std::vector<Request> arrivals(std::mt19937& random, std::size_t length) {
  std::vector<Request> sent;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const std::int64_t span = random() % 8 == 0 ? 1 + random() % 90 : 1;
    sent.push_back({next, span});
    next += span;
  }
  std::vector<Request> out;
  std::deque<std::pair<std::size_t, Request>> delayed;  // due when `out` has grown this far
  std::size_t at = 0, steps = 0;
  while (at < sent.size() && steps++ < 4 * length) {
    const auto roll = random() % 100;
    const Request r = sent[at++];
    if (roll < 5) continue;
    if (roll < 10) {
      delayed.push_back({out.size() + 1 + random() % 100, r});
    } else {
      out.push_back(r);
    }
    if (roll < 15) delayed.push_back({out.size() + random() % 30, r});
    if (roll < 18) at -= std::min<std::size_t>(at, random() % 100);
    while (!delayed.empty() && delayed.front().first <= out.size()) {
      out.push_back(delayed.front().second);
      delayed.pop_front();
    }
  }
  return out;
}

template <typename Bits>
void compare_with_oracle(std::uint32_t start) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << " start " << start << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    Oracle oracle(PsnStream<Bits>::kWindow);
    PsnStream<Bits> stream;
    bool first = true;
    std::size_t step = 0;
    for (const Request& r : arrivals(random, 3000)) {
      const Psn psn(start + static_cast<std::uint32_t>(r.first));
      const Arrival want = oracle.take(r.first, r.span);
      if (first) {
        stream.start(psn, static_cast<std::uint32_t>(r.span));
      } else {
        ASSERT_EQ(stream.take(psn, static_cast<std::uint32_t>(r.span)), want)
            << "seed " << seed << " round " << round << " step " << step << " psn " << r.first << "+" << r.span;
      }
      first = false;
      ++step;
    }
  }
}

TEST(PsnStream, AgreesWithTheDefinitionsUnderLossCopiesAndReordering) {
  compare_with_oracle<std::uint64_t>(1000);
}
TEST(PsnStream, AgreesWithTheDefinitionsAcrossTheWrap) {
  compare_with_oracle<std::uint64_t>(0xffff00);
}
TEST(PsnStream, ANarrowWindowAgreesToo) {
  compare_with_oracle<std::uint32_t>(0xffffff);
}

TEST(PsnStream, TwoSwappedPacketsAreAGapAndALateOne) {
  Requests stream;
  stream.start(Psn(0xfffffe), 1);
  EXPECT_EQ(stream.take(Psn(0), 1), Arrival::gap);
  EXPECT_EQ(stream.take(Psn(0xffffff), 1), Arrival::late);
  EXPECT_EQ(stream.take(Psn(0xffffff), 1), Arrival::repeated);
  EXPECT_EQ(stream.take(Psn(1), 1), Arrival::in_order);
}

TEST(PsnStream, PsnsBeforeTheFirstOneSeenAreLateOnce) {
  Requests stream;
  stream.start(Psn(100), 1);
  EXPECT_EQ(stream.take(Psn(99), 1), Arrival::late);
  EXPECT_EQ(stream.take(Psn(99), 1), Arrival::repeated);
}

TEST(PsnStream, BehindTheWindowEverythingCountsAsRepeated) {
  Requests stream;
  stream.start(Psn(100), 1);
  EXPECT_EQ(stream.take(Psn(165), 1), Arrival::gap);
  EXPECT_EQ(stream.take(Psn(102), 1), Arrival::late) << "64 behind the expected 166";
  EXPECT_EQ(stream.take(Psn(101), 1), Arrival::repeated);
}

TEST(PsnStream, AFarAwayPsnStartsAnew) {
  Requests stream;
  stream.start(Psn(0), 1);
  EXPECT_EQ(stream.take(Psn(kRestartDistance), 1), Arrival::gap) << "one less than the limit from the expected 1";
  stream.start(Psn(0), 1);
  EXPECT_EQ(stream.take(Psn(kRestartDistance + 1), 1), Arrival::restarted);
  EXPECT_EQ(stream.take(Psn(kRestartDistance + 2), 1), Arrival::in_order);
  EXPECT_EQ(stream.take(Psn(1), 1), Arrival::restarted);
  EXPECT_EQ(stream.take(Psn(2), 1), Arrival::in_order);
}

TEST(PsnStream, ALongRequestCoversItsPsns) {
  Requests stream;
  stream.start(Psn(10), 5);
  EXPECT_EQ(stream.expected, Psn(15));
  EXPECT_EQ(stream.take(Psn(12), 3), Arrival::repeated) << "the rest of it, asked for again";
  EXPECT_EQ(stream.take(Psn(15), 1), Arrival::in_order);
}

TEST(ReadSpan, IsTheNumberOfResponsePackets) {
  EXPECT_EQ(read_span(0, 1024), 1u);
  EXPECT_EQ(read_span(1, 1024), 1u);
  EXPECT_EQ(read_span(1024, 1024), 1u);
  EXPECT_EQ(read_span(1025, 1024), 2u);
  EXPECT_EQ(read_span(0x80000000u, 256), 0x800000u);
  EXPECT_EQ(read_span(0xffffffffu, 256), kMaxSpan);
}

TEST(PmtuCode, KnowsTheFiveSizesOnly) {
  EXPECT_EQ(pmtu_code(256), 1);
  EXPECT_EQ(pmtu_code(4096), 5);
  EXPECT_EQ(pmtu_code(1000), 0);
  EXPECT_EQ(pmtu_code(8192), 0);
  EXPECT_EQ(pmtu_bytes(3), 1024u);
}

}  // namespace
}  // namespace weft::stages
