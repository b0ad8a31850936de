// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/control_ring.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "switch/base/rng.h"
#include "switch/pipeline/pool.h"
#include "switch/qos/pfc_receiver.h"
#include "switch/wire/emit.h"

namespace weft {
namespace {

using pipeline::meta;
using pipeline::PortIndex;
using testing::ElementsAre;

constexpr std::uint32_t kBuffers = 4096;
constexpr wire::MacAddress kPeer = wire::MacAddress::from_u64(0x020000000200);
constexpr TimeNs kNow = 1'000'000'000;

class ControlRingTest : public testing::Test {
 protected:
  ~ControlRingTest() override {
    for (std::uint32_t moved = 1; moved != 0;) {
      moved = deliver([](rte_mbuf*) {});
      moved += ring_.retry();
    }
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), kBuffers) << "packet buffers leaked";
  }

  rte_mbuf* frame(PortIndex in, std::uint8_t switch_index = 0) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    rte_pktmbuf_append(m, wire::kMinFrameBytes);
    meta(m) = {};
    meta(m).in_port = in;
    meta(m).switch_index = switch_index;
    return m;
  }
  static std::span<std::uint8_t> bytes(rte_mbuf* m) { return {pipeline::frame(m), m->data_len}; }
  rte_mbuf* pfc(PortIndex in, std::uint8_t classes, const std::array<std::uint16_t, 8>& quanta) {
    rte_mbuf* m = frame(in);
    wire::write_pfc(bytes(m), kPeer, classes, quanta);
    return m;
  }
  rte_mbuf* pause(PortIndex in, std::uint16_t quanta, std::uint8_t switch_index = 0) {
    rte_mbuf* m = frame(in, switch_index);
    wire::write_pause(bytes(m), kPeer, quanta);
    return m;
  }
  static std::uint16_t pause_quanta(rte_mbuf* m) {
    return wire::header_at<wire::PauseHeader>(pipeline::frame(m) + 14).quanta.value();
  }
  // As a pipeline does.
  bool push(rte_mbuf* m) {
    if (ring_.push(m)) return true;
    rte_pktmbuf_free(m);
    return false;
  }
  template <typename F>
  std::uint32_t deliver(F&& f, std::uint32_t most = ControlRing::kCapacity) {
    rte_mbuf* frames[ControlRing::kCapacity];
    const std::uint32_t count = ring_.pop(frames, most);
    for (std::uint32_t i = 0; i < count; ++i) {
      f(frames[i]);
      rte_pktmbuf_free(frames[i]);
    }
    return count;
  }
  // So that what comes next waits.
  void fill() {
    for (std::uint32_t i = 0; i < ControlRing::kCapacity; ++i) ASSERT_TRUE(push(pause(100, 1)));
    ASSERT_FALSE(ring_.waits());
  }

  pipeline::Pool pool_ = pipeline::make_pool("control", kBuffers, 256, 0);
  ControlRing ring_;
};

// Whatever order the receiver takes them in, each port ends as if it had seen all frames.
TEST_F(ControlRingTest, EveryPortEndsAsTheLastFramesSay) {
  constexpr PortIndex kPorts = 3;
  qos::PortSettings pfc_port, pause_port;
  pfc_port.pfc_enable = 0xff;
  pause_port.flow_control = true;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    std::array<qos::PfcReceiver, kPorts> sees_all{qos::PfcReceiver(pfc_port), qos::PfcReceiver(pfc_port),
                                                  qos::PfcReceiver(pause_port)};
    std::array<qos::PfcReceiver, kPorts> owner{qos::PfcReceiver(pfc_port), qos::PfcReceiver(pfc_port),
                                               qos::PfcReceiver(pause_port)};
    std::uint32_t delivered = 0;
    const auto take = [&](rte_mbuf* m) {
      ++delivered;
      owner[meta(m).in_port].on_frame(kNow, bytes(m));
    };
    std::uint32_t joined = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto in = static_cast<PortIndex>(rng.below(kPorts));
      std::array<std::uint16_t, 8> quanta{};
      for (auto& q : quanta) q = static_cast<std::uint16_t>(rng.below(2) * rng.below(0x10000));
      rte_mbuf* m =
          rng.below(4) == 0 ? pause(in, quanta[0]) : pfc(in, static_cast<std::uint8_t>(rng.below(256)), quanta);
      sees_all[in].on_frame(kNow, bytes(m));
      joined += push(m) ? 0 : 1;
      if (rng.below(200) == 0) deliver(take, static_cast<std::uint32_t>(rng.below(ControlRing::kCapacity)));
      if (rng.below(10) == 0) ring_.retry();
    }
    while (deliver(take) + ring_.retry() != 0) {
    }
    EXPECT_FALSE(ring_.waits());
    EXPECT_EQ(delivered + joined, 1000u);
    EXPECT_GT(joined, 100u);
    for (PortIndex p = 0; p < kPorts; ++p) {
      EXPECT_EQ(owner[p].last_paused(), sees_all[p].last_paused()) << "seed " << seed << ", port " << p;
      EXPECT_EQ(owner[p].next_end(), sees_all[p].next_end()) << "seed " << seed << ", port " << p;
    }
  }
}

TEST_F(ControlRingTest, PortsAndSwitchesWaitBesideEachOther) {
  fill();
  EXPECT_TRUE(push(pause(1, 10)));
  EXPECT_TRUE(push(pause(2, 20)));
  EXPECT_TRUE(push(pause(1, 30, 7)));
  EXPECT_FALSE(push(pause(1, 11)));
  deliver([](rte_mbuf*) {});
  EXPECT_EQ(ring_.retry(), 3u);
  std::vector<std::uint16_t> quanta;
  deliver([&](rte_mbuf* m) { quanta.push_back(pause_quanta(m)); });
  EXPECT_THAT(quanta, ElementsAre(11, 20, 30));
}

TEST_F(ControlRingTest, AFrameThatSaysNothingChangesNoneThatWaits) {
  fill();
  EXPECT_TRUE(push(pause(1, 10)));
  rte_mbuf* elsewhere = pause(1, 11);
  pipeline::frame(elsewhere)[5] ^= 2;
  EXPECT_FALSE(push(elsewhere));
  rte_mbuf* cut = pause(1, 12);
  rte_pktmbuf_trim(cut, static_cast<std::uint16_t>(wire::kMinFrameBytes - 17));
  EXPECT_FALSE(push(cut));
  EXPECT_FALSE(push(pfc(1, 0, {})));
  EXPECT_FALSE(push(frame(1)));
  deliver([](rte_mbuf*) {});
  EXPECT_EQ(ring_.retry(), 1u);
  EXPECT_EQ(deliver([](rte_mbuf* m) { EXPECT_EQ(pause_quanta(m), 10); }), 1u);
}

TEST_F(ControlRingTest, AReloadTakesOutAndPutsBackWhatWaitsToo) {
  fill();
  for (PortIndex in = 1; in <= 5; ++in) EXPECT_TRUE(push(pause(in, in)));
  std::vector<rte_mbuf*> all;
  ring_.drain([&](rte_mbuf* m) { all.push_back(m); });
  EXPECT_FALSE(ring_.waits());
  ASSERT_EQ(all.size(), ControlRing::kCapacity + 5);
  EXPECT_EQ(meta(all.back()).in_port, 5);
  // A port is gone.
  rte_pktmbuf_free(all.front());
  all.erase(all.begin());
  ring_.push(all.data(), static_cast<std::uint32_t>(all.size()));
  std::vector<PortIndex> ports;
  while (deliver([&](rte_mbuf* m) { ports.push_back(meta(m).in_port); }) + ring_.retry() != 0) {
  }
  ASSERT_EQ(ports.size(), ControlRing::kCapacity + 4);
  EXPECT_THAT(std::vector<PortIndex>(ports.end() - 5, ports.end()), ElementsAre(1, 2, 3, 4, 5));
}

// The receiver sees a count that never goes back, and ends at the last one.
TEST_F(ControlRingTest, BetweenTwoThreads) {
  constexpr std::uint16_t kFrames = 50'000;
  std::atomic<bool> over{false};
  std::uint16_t last = 0;
  std::thread receiver([&] {
    rte_mbuf* frames[16];
    while (last != kFrames) {
      const std::uint32_t count = ring_.pop(frames, 16);
      for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_GT(pause_quanta(frames[i]), last);
        last = pause_quanta(frames[i]);
        pipeline::scratch(frames[i]) = ~std::uint64_t{0};  // as every owner of a packet may
        rte_pktmbuf_free(frames[i]);
      }
      if (count == 0) std::this_thread::yield();
    }
    over = true;
  });
  for (std::uint16_t i = 1; i <= kFrames; ++i) {
    push(pause(0, i));
  }
  while (!over) {
    ring_.retry();
    std::this_thread::yield();
  }
  receiver.join();
}

}  // namespace
}  // namespace weft
