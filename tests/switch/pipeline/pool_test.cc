// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/pool.h"

#include <gmock/gmock.h>
#include <rte_errno.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "switch/pipeline/packet.h"
#include "switch/wire/builder.h"

namespace weft::pipeline {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const rte_mbuf* m) {
  Bytes out;
  for (const rte_mbuf* s = m; s != nullptr; s = s->next) {
    const auto* data = rte_pktmbuf_mtod(s, const std::uint8_t*);
    out.insert(out.end(), data, data + s->data_len);
  }
  return out;
}

// Without and with aligned payloads.
class PoolTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint32_t kBuffers = 256;
  static constexpr std::uint16_t kDataRoom = 1024 + 128;

  void SetUp() override { reset(kBuffers, kDataRoom); }
  void TearDown() override { EXPECT_EQ(free_buffers(), buffers_) << "buffers leaked"; }

  void reset(std::uint32_t buffers, std::uint16_t data_room) {
    static int serial = 0;
    buffers_ = buffers;
    pool = make_pool("pool_test" + std::to_string(serial++), buffers, data_room, 0, GetParam());
    ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  }
  [[nodiscard]] std::uint32_t free_buffers() const { return rte_mempool_avail_count(pool.get()); }

  // A frame whose bytes count up, in segments of the given sizes.
  rte_mbuf* frame_of(const std::vector<std::uint16_t>& segments) {
    rte_mbuf* head = nullptr;
    std::uint8_t next = 0;
    for (const std::uint16_t bytes : segments) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
      char* data = rte_pktmbuf_append(m, bytes);
      for (std::uint16_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(next++ % 251);
      if (head == nullptr) {
        head = m;
      } else {
        EXPECT_EQ(rte_pktmbuf_chain(head, m), 0);
      }
    }
    meta(head) = {};
    meta(head).in_port = 7;
    meta(head).next_hop = 0x12345678;
    return head;
  }

  // A well-formed chain whose buffers are all in use and whose lengths add up.
  static void expect_sane(const rte_mbuf* m) {
    const char* reason = "";
    EXPECT_EQ(rte_mbuf_check(m, 1, &reason), 0) << reason;
    std::uint32_t sum = 0;
    for (const rte_mbuf* s = m; s != nullptr; s = s->next) sum += s->data_len;
    EXPECT_EQ(sum, m->pkt_len);
  }

  Pool pool;
  std::uint32_t buffers_ = 0;
};

// Every way in which a frame can lie in buffers that matters to replicate(): around the size that is copied whole,
// around the header bytes, empty segments, many segments.
const std::vector<std::vector<std::uint16_t>> kLayouts{
    {1},        {60},        {192},          {193},        {511},           {512},           {513},
    {1000},     {60, 40},    {192, 1},       {191, 1},     {193, 1},        {14, 20, 8, 12}, {100, 0, 100},
    {192, 800}, {600, 600},  {1024, 1024},   {0, 100},     {0, 0, 300},     {1, 1, 1, 1000}, {64, 900, 900, 900, 900},
    {512, 512}, {192, 0, 0}, {192, 0, 0, 5}, {300, 0, 30}, {1000, 1, 1000},
};

TEST_P(PoolTest, ACopyHasTheSameBytesAndMeta) {
  for (const auto& layout : kLayouts) {
    SCOPED_TRACE(testing::PrintToString(layout));
    rte_mbuf* m = frame_of(layout);
    rte_mbuf* copy = replicate(pool.get(), m);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(bytes_of(copy), bytes_of(m));
    EXPECT_EQ(std::memcmp(&meta(copy), &meta(m), sizeof(PacketMeta)), 0);
    expect_sane(copy);
    expect_sane(m);
    EXPECT_EQ(copy->nb_segs == 1, copy->next == nullptr);
    rte_pktmbuf_free(m);
    rte_pktmbuf_free(copy);
    EXPECT_EQ(free_buffers(), buffers_);
  }
}

TEST_P(PoolTest, ACopyHadNoRoomOfItsOwn) {
  rte_mbuf* m = frame_of({100});
  meta(m).had_room = true;
  rte_mbuf* copy = replicate(pool.get(), m);
  ASSERT_NE(copy, nullptr);
  EXPECT_FALSE(meta(copy).had_room);
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_P(PoolTest, HeaderBytesAreTheCopysOwnAndThePayloadIsShared) {
  rte_mbuf* m = frame_of({1000});
  rte_mbuf* copy = replicate(pool.get(), m);
  ASSERT_EQ(copy->data_len, kHeaderBytes);
  const Bytes before = bytes_of(m);
  std::memset(frame(copy), 0xee, kHeaderBytes);
  EXPECT_EQ(bytes_of(m), before);
  // The payload is not: a write by one is seen by the other.
  frame(m)[kHeaderBytes] ^= 0xff;
  EXPECT_EQ(bytes_of(copy)[kHeaderBytes], frame(m)[kHeaderBytes]);
  std::memset(frame(m), 0x11, kHeaderBytes);
  EXPECT_EQ(bytes_of(copy)[0], 0xee);
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_P(PoolTest, SmallFramesAreCopiedWhole) {
  rte_mbuf* m = frame_of({512});
  rte_mbuf* copy = replicate(pool.get(), m);
  EXPECT_EQ(copy->nb_segs, 1);
  EXPECT_EQ(rte_mbuf_refcnt_read(m), 1);
  const Bytes before = bytes_of(m);
  std::memset(frame(copy), 0xee, 512);
  EXPECT_EQ(bytes_of(m), before);
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_P(PoolTest, SharedBuffersAreCountedAndReturnWithTheirLastHolder) {
  rte_mbuf* m = frame_of({600, 600});
  rte_mbuf* tail = m->next;
  rte_mbuf* copies[3];
  for (auto& copy : copies) copy = replicate(pool.get(), m);
  EXPECT_EQ(rte_mbuf_refcnt_read(m), 4);
  EXPECT_EQ(rte_mbuf_refcnt_read(tail), 4);
  rte_pktmbuf_free(m);
  const Bytes expected = bytes_of(copies[0]);
  rte_pktmbuf_free(copies[0]);
  EXPECT_EQ(bytes_of(copies[2]), expected);
  rte_pktmbuf_free(copies[1]);
  EXPECT_LT(free_buffers(), buffers_);
  rte_pktmbuf_free(copies[2]);
}

TEST_P(PoolTest, ACopyHasHeadroomOfItsOwn) {
  rte_mbuf* m = frame_of({1000});
  rte_mbuf* copy = replicate(pool.get(), m);
  const Bytes before = bytes_of(m);
  char* head = rte_pktmbuf_prepend(copy, 64);
  ASSERT_NE(head, nullptr);
  std::memset(head, 0xee, 64 + kHeaderBytes);
  EXPECT_EQ(bytes_of(m), before);
  EXPECT_NE(rte_pktmbuf_adj(copy, 64 + 4), nullptr);
  EXPECT_EQ(copy->pkt_len, 996u);
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_P(PoolTest, NoSegmentOfACopyIsEmptyUnlessItWasBefore) {
  rte_mbuf* m = frame_of({192, 800});
  rte_mbuf* copy = replicate(pool.get(), m);
  rte_mbuf* copy_of_copy = replicate(pool.get(), copy);
  for (const rte_mbuf* s = copy_of_copy; s != nullptr; s = s->next) EXPECT_GT(s->data_len, 0);
  EXPECT_EQ(copy_of_copy->nb_segs, 2);
  EXPECT_EQ(bytes_of(copy_of_copy), bytes_of(m));
  for (rte_mbuf* each : {m, copy, copy_of_copy}) rte_pktmbuf_free(each);
}

TEST_P(PoolTest, ASmallDataRoomGivesShorterOwnHeadersAndTheSameBytes) {
  reset(64, 128 + 100);
  rte_mbuf* m = frame_of({100, 100, 100});
  rte_mbuf* copy = replicate(pool.get(), m);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->data_len, 100);
  EXPECT_EQ(bytes_of(copy), bytes_of(m));
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_P(PoolTest, WithoutBuffersAtAnyStepThereIsNoCopyAndNoLeak) {
  for (const auto& layout : kLayouts) {
    SCOPED_TRACE(testing::PrintToString(layout));
    rte_mbuf* m = frame_of(layout);
    const Bytes before = bytes_of(m);
    rte_mbuf* whole = replicate(pool.get(), m);
    const std::uint32_t needed = kBuffers - m->nb_segs - free_buffers();
    rte_pktmbuf_free(whole);
    bool succeeded = false;
    for (std::uint32_t left = 0; !succeeded; ++left) {
      ASSERT_LE(left, needed + 1);  // one may be needed for a moment only
      std::vector<rte_mbuf*> taken;
      while (free_buffers() > left) taken.push_back(rte_pktmbuf_alloc(pool.get()));
      rte_mbuf* copy = replicate(pool.get(), m);
      succeeded = copy != nullptr;
      EXPECT_EQ(free_buffers(), succeeded ? left - needed : left);
      rte_pktmbuf_free(copy);
      for (rte_mbuf* each : taken) rte_pktmbuf_free(each);
      EXPECT_EQ(bytes_of(m), before);
      EXPECT_EQ(rte_mbuf_refcnt_read(m), 1);
    }
    rte_pktmbuf_free(m);
    ASSERT_EQ(free_buffers(), buffers_);
  }
}

TEST_P(PoolTest, CopiesOfCopiesFreedInAnyOrderLeakNothingAndKeepTheirBytes) {
  constexpr std::uint64_t kSeed = 20;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 2000; ++round) {
    rte_mbuf* original = frame_of(kLayouts[rng.below(kLayouts.size())]);
    const Bytes expected = bytes_of(original);
    std::vector<rte_mbuf*> family{original};
    for (std::uint64_t i = rng.below(8); i > 0; --i) {
      rte_mbuf* copy = replicate(pool.get(), family[rng.below(family.size())]);
      if (copy != nullptr) family.push_back(copy);
    }
    while (!family.empty()) {
      for (const rte_mbuf* each : family) ASSERT_EQ(bytes_of(each), expected);
      const auto victim = family.begin() + static_cast<std::ptrdiff_t>(rng.below(family.size()));
      rte_pktmbuf_free(*victim);
      family.erase(victim);
    }
    ASSERT_EQ(free_buffers(), buffers_);
  }
}

TEST_P(PoolTest, EveryBufferHasRoomForTheMetaAndTheData) {
  EXPECT_GE(rte_pktmbuf_priv_size(pool.get()), kMetaSize);
  EXPECT_EQ(rte_pktmbuf_data_room_size(pool.get()), kDataRoom);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool.get())) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&meta(m)) % 64, 0u);
    EXPECT_GE(static_cast<char*>(m->buf_addr), reinterpret_cast<char*>(&meta(m) + 1));
    EXPECT_EQ(rte_pktmbuf_headroom(m), RTE_PKTMBUF_HEADROOM);
    EXPECT_EQ(rte_pktmbuf_tailroom(m), kDataRoom - RTE_PKTMBUF_HEADROOM);
    // A byte too many at either end would lie in what another buffer is known by.
    std::memset(static_cast<void*>(&meta(m)), 0xee, sizeof(PacketMeta));
    std::memset(m->buf_addr, 0xee, kDataRoom);
    all.push_back(m);
  }
  EXPECT_EQ(all.size(), kBuffers);
  for (rte_mbuf* m : all) {
    const char* reason = "";
    EXPECT_EQ(rte_mbuf_check(m, 1, &reason), 0) << reason;
    rte_pktmbuf_free(m);
  }
}

// Also in a buffer that was attached to another's data, and has got its own back.
TEST_P(PoolTest, APayloadBehindIpv4BeginsOnACacheLineWhereThatIsWanted) {
  const Bytes frame = wire::FrameBuilder()
                          .ipv4("10.0.0.1", "10.0.0.2")
                          .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(17), wire::Psn(5))
                          .payload(512)
                          .build();
  const std::size_t payload = frame.size() - wire::kIcrcBytes - 512;
  rte_mbuf* shared = frame_of({1000});
  rte_mbuf* copy = replicate(pool.get(), shared);
  rte_mbuf* attached = copy->next;
  ASSERT_TRUE(RTE_MBUF_CLONED(attached));
  rte_pktmbuf_free(copy);
  rte_pktmbuf_free(shared);
  bool seen_again = false;
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool.get())) {
    const char* data = rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data + payload) % 64 == 0, GetParam());
    seen_again |= m == attached;
    all.push_back(m);
  }
  EXPECT_TRUE(seen_again);
  for (rte_mbuf* m : all) rte_pktmbuf_free(m);
}

TEST_P(PoolTest, MoreThanTheMemoryIsNoPoolAndLeavesTheNameFree) {
  for (int i = 0; i < 2; ++i) {
    rte_errno = 0;
    EXPECT_EQ(make_pool("too_large", 1 << 20, 8320, 0, GetParam()), nullptr);
    EXPECT_EQ(rte_errno, ENOMEM);
  }
  EXPECT_NE(make_pool("too_large", 8, 512, 0, GetParam()), nullptr);
}

TEST_P(PoolTest, ANameInUseIsNoPool) {
  const Pool first = make_pool("twice", 8, 512, 0, GetParam());
  rte_errno = 0;
  EXPECT_EQ(make_pool("twice", 8, 512, 0, GetParam()), nullptr);
  EXPECT_EQ(rte_errno, EEXIST);
}

INSTANTIATE_TEST_SUITE_P(, PoolTest, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "PayloadAligned" : "Plain"; });

TEST(MakePool, ACacheLargerThanThePoolAllowsIsMadeToFit) {
  for (const std::uint32_t count : {1u, 2u, 100u, 1000u}) {
    const Pool pool = make_pool("cache" + std::to_string(count), count, 512, 100'000);
    ASSERT_NE(pool, nullptr) << count << ": " << rte_strerror(rte_errno);
    std::vector<rte_mbuf*> all;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool.get())) all.push_back(m);
    EXPECT_EQ(all.size(), count);
    for (rte_mbuf* m : all) rte_pktmbuf_free(m);
  }
}

}  // namespace
}  // namespace weft::pipeline
