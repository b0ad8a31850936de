// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/writable.h"

#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "switch/pipeline/edit_roce.h"
#include "switch/pipeline/pool.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"

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

Bytes roce_frame(std::size_t payload) {
  return wire::FrameBuilder()
      .eth(wire::MacAddress::from_u64(1), wire::MacAddress::from_u64(2))
      .ipv4("10.0.0.1", "10.0.0.2")
      .udp(50000)
      .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(7))
      .payload(payload)
      .build();
}

bool has_right_icrc(const rte_mbuf* m) {
  const Bytes bytes = bytes_of(m);
  wire::Parsed parsed{};
  wire::parse_frame(bytes.data(), static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(bytes.size()),
                    parsed);
  return parsed.kind == wire::FrameKind::roce && wire::icrc_ok(bytes.data(), parsed);
}

class WritableTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBuffers = 256;

  void SetUp() override {
    static int serial = 0;
    pool = make_pool("writable_test" + std::to_string(serial++), kBuffers, 2048 + 128, 0);
    ASSERT_NE(pool, nullptr);
  }
  void TearDown() override { EXPECT_EQ(rte_mempool_avail_count(pool.get()), kBuffers) << "buffers leaked"; }

  // The frame in segments of the given sizes; the last one takes the rest.
  rte_mbuf* packet(const Bytes& bytes, const std::vector<std::size_t>& segments = {}) {
    rte_mbuf* head = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i <= segments.size() && at < bytes.size(); ++i) {
      const std::size_t size = i < segments.size() ? std::min(segments[i], bytes.size() - at) : bytes.size() - at;
      rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
      std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(size)), bytes.data() + at, size);
      at += size;
      if (head == nullptr) {
        head = m;
      } else {
        EXPECT_EQ(rte_pktmbuf_chain(head, m), 0);
      }
    }
    meta(head) = {};
    wire::parse_frame(frame(head), head->data_len, head->pkt_len, meta(head).parsed);
    return head;
  }

  static void expect_sane(const rte_mbuf* m) {
    const char* reason = "";
    EXPECT_EQ(rte_mbuf_check(m, 1, &reason), 0) << reason;
    std::uint32_t sum = 0;
    for (const rte_mbuf* s = m; s != nullptr; s = s->next) sum += s->data_len;
    EXPECT_EQ(sum, m->pkt_len);
  }

  Pool pool;
};

TEST_F(WritableTest, BytesOfAPacketThatSharesNothingAreWrittenWhereTheyLie) {
  rte_mbuf* m = packet(roce_frame(1024));
  EXPECT_EQ(writable(m, 300, 16), frame(m) + 300);
  EXPECT_EQ(writable_icrc(m), frame(m) + m->pkt_len - 4);
  EXPECT_EQ(m->nb_segs, 1);
  rte_pktmbuf_free(m);
}

TEST_F(WritableTest, ACopyHasItsOwnHeadersAndIcrcAndSharesThePayload) {
  rte_mbuf* m = packet(roce_frame(1024));
  rte_mbuf* copy = replicate(pool.get(), m);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->nb_segs, 3);
  EXPECT_EQ(copy->data_len, kHeaderBytes);
  EXPECT_EQ(rte_pktmbuf_lastseg(copy)->data_len, wire::kIcrcBytes);
  EXPECT_EQ(bytes_of(copy), bytes_of(m));
  const auto* shared = rte_pktmbuf_mtod(copy->next, const std::uint8_t*);
  EXPECT_EQ(shared, frame(m) + kHeaderBytes);
  EXPECT_EQ(writable_icrc(copy), rte_pktmbuf_mtod(rte_pktmbuf_lastseg(copy), std::uint8_t*)) << "there already";
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_F(WritableTest, HeadersOfAPacketWithCopiesAreItsOwnAndItsIcrcBecomesSo) {
  rte_mbuf* m = packet(roce_frame(1024));
  rte_mbuf* copy = replicate(pool.get(), m);
  const Bytes before = bytes_of(copy);
  EXPECT_EQ(writable(m, 22, 1), frame(m) + 22);
  EXPECT_EQ(m->nb_segs, 1);
  std::uint8_t* icrc = writable_icrc(m);
  ASSERT_NE(icrc, nullptr);
  std::memset(icrc, 0xee, 4);
  EXPECT_EQ(bytes_of(copy), before);
  EXPECT_EQ(m->nb_segs, 2);
  expect_sane(m);
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_F(WritableTest, ARangeAcrossSegmentsBecomesOneSegment) {
  const Bytes bytes = roce_frame(1024);
  rte_mbuf* m = packet(bytes, {400, bytes.size() - 400 - 2});
  ASSERT_EQ(m->nb_segs, 3);
  std::uint8_t* icrc = writable_icrc(m);
  ASSERT_NE(icrc, nullptr);
  EXPECT_EQ(Bytes(icrc, icrc + 4), Bytes(bytes.end() - 4, bytes.end()));
  EXPECT_EQ(bytes_of(m), bytes);
  EXPECT_EQ(m->nb_segs, 3);
  expect_sane(m);
  rte_pktmbuf_free(m);
}

TEST_F(WritableTest, BytesThatThePacketDoesNotHaveAreRefused) {
  rte_mbuf* m = packet(roce_frame(1024));
  const std::uint32_t size = m->pkt_len;
  EXPECT_EQ(writable(m, size, 1), nullptr);
  EXPECT_EQ(writable(m, size - 3, 4), nullptr);
  // A simulation leaves the payload out: the length says 1 KiB, the buffer ends behind the headers.
  m->data_len = 54;
  EXPECT_FALSE(icrc_offset(m).has_value());
  EXPECT_EQ(writable_icrc(m), nullptr);
  m->data_len = static_cast<std::uint16_t>(size);
  rte_pktmbuf_free(m);
}

TEST_F(WritableTest, HeadersThatAnotherPacketSharesAreRefused) {
  rte_mbuf* m = packet(roce_frame(1024));
  rte_mbuf* clone = rte_pktmbuf_clone(m, pool.get());
  meta(clone) = meta(m);
  EXPECT_EQ(writable(clone, 22, 1), nullptr);
  std::uint8_t* payload = writable(clone, 600, 1);
  ASSERT_NE(payload, nullptr);
  *payload ^= 0xff;
  EXPECT_TRUE(has_right_icrc(m));
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(clone);
}

TEST_F(WritableTest, WithoutBuffersNothingChanges) {
  rte_mbuf* m = packet(roce_frame(1024));
  rte_mbuf* copy = replicate(pool.get(), m);
  const Bytes before = bytes_of(m);
  for (const std::uint32_t at : {600u, m->pkt_len - 4u}) {
    std::vector<rte_mbuf*> taken;
    while (rte_mbuf* one = rte_pktmbuf_alloc(pool.get())) taken.push_back(one);
    // None, and one where two are needed.
    for (std::size_t spare = 0; spare < (at == 600u ? 2u : 1u); ++spare) {
      EXPECT_EQ(writable(m, at, 4), nullptr);
      EXPECT_FALSE(at != 600u && edit_roce(m, wire::IcrcMode::incremental, [](auto& e) { e.set_source_port(1); }));
      EXPECT_EQ(rte_mempool_avail_count(pool.get()), spare);
      rte_pktmbuf_free(taken.back());
      taken.pop_back();
    }
    for (rte_mbuf* one : taken) rte_pktmbuf_free(one);
    EXPECT_EQ(bytes_of(m), before);
    EXPECT_EQ(m->nb_segs, 1);
  }
  rte_pktmbuf_free(m);
  rte_pktmbuf_free(copy);
}

TEST_F(WritableTest, EveryCopyCanHaveAnotherPsnAndARightIcrc) {
  for (const auto mode : {wire::IcrcMode::incremental, wire::IcrcMode::full}) {
    for (const std::vector<std::size_t>& segments : {std::vector<std::size_t>{}, {300, 300}, {1076}}) {
      rte_mbuf* m = packet(roce_frame(1024), segments);
      std::vector<rte_mbuf*> family{m};
      for (int i = 0; i < 4; ++i) family.push_back(replicate(pool.get(), family[static_cast<std::size_t>(i / 2)]));
      std::uint32_t psn = 100;
      for (rte_mbuf* each : family) {
        ASSERT_NE(each, nullptr);
        ASSERT_TRUE(edit_roce(each, mode, [&](wire::RoceEditor& e) { e.set_psn(wire::Psn(psn)); }));
        EXPECT_EQ(meta(each).parsed.psn, wire::Psn(psn++));
      }
      for (const rte_mbuf* each : family) {
        EXPECT_TRUE(has_right_icrc(each));
        expect_sane(each);
      }
      for (rte_mbuf* each : family) rte_pktmbuf_free(each);
    }
  }
}

// Copies of copies, written at random places through the gate, against plain arrays of bytes.
TEST_F(WritableTest, NoWriteIsSeenByAnotherPacket) {
  constexpr std::uint64_t kSeed = 31;
  Rng rng(kSeed);
  for (int round = 0; round < 500; ++round) {
    const Bytes bytes = roce_frame(4 * rng.below(500));
    struct One {
      rte_mbuf* m;
      Bytes model;
    };
    std::vector<std::size_t> cuts;
    for (std::uint64_t i = rng.below(4); i > 0; --i) cuts.push_back(100 + rng.below(400));
    std::vector<One> family{{packet(bytes, cuts), bytes}};
    for (int step = 0; step < 20; ++step) {
      const std::size_t who = rng.below(family.size());
      if (rng.below(4) == 0 && family.size() < 6) {
        family.push_back({replicate(pool.get(), family[who].m), family[who].model});
        ASSERT_NE(family.back().m, nullptr);
        continue;
      }
      Bytes& model = family[who].model;
      const auto at = static_cast<std::uint32_t>(rng.below(model.size()));
      const auto size = static_cast<std::uint32_t>(1 + rng.below(std::min<std::size_t>(model.size() - at, 32)));
      std::uint8_t* to = writable(family[who].m, at, size);
      if (to == nullptr) continue;
      for (std::uint32_t i = 0; i < size; ++i) to[i] = model[at + i] = static_cast<std::uint8_t>(rng.below(256));
      for (const One& each : family) {
        ASSERT_EQ(bytes_of(each.m), each.model) << "round " << round;
        expect_sane(each.m);
      }
    }
    for (const One& each : family) rte_pktmbuf_free(each.m);
    ASSERT_EQ(rte_mempool_avail_count(pool.get()), kBuffers);
  }
}

}  // namespace
}  // namespace weft::pipeline
