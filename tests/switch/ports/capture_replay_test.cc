// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/capture_replay.h"

#include "switch/base/time.h"
#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Timed {
  TimeNs time;  ///< of the capture's clock
  std::size_t bytes;
};

class CaptureReplayTest : public PortTest {
 protected:
  // A capture with times in nanoseconds.
  std::string write(const std::vector<Timed>& packets, std::uint32_t magic = 0xa1b23c4d) {
    const std::string file = scratch.file("in.pcap");
    std::ofstream out(file, std::ios::binary);
    const auto word = [&out](std::uint64_t v) {
      const auto half = static_cast<std::uint32_t>(v);
      out.write(reinterpret_cast<const char*>(&half), 4);
    };
    const TimeNs unit = magic == 0xa1b23c4d ? 1 : 1000;
    for (const std::uint32_t v : {magic, 2u | 4u << 16, 0u, 0u, 262'144u, 1u}) word(v);
    for (const Timed& p : packets) {
      const Bytes frame = frame_of(p.bytes);
      for (const std::uint64_t v : {p.time / kSecond, p.time % kSecond / unit, frame.size(), frame.size()}) word(v);
      out.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    }
    return file;
  }
  std::string load(const std::vector<Timed>& packets, ReplayPace pace = {}) {
    std::string error;
    replay = CaptureReplay::load(write(packets), pace, pool.get(), warnings, error);
    EXPECT_EQ(error.empty(), replay != nullptr);
    return error;
  }
  // Times after the start at which packets come, when somebody looks at every time that next() names.
  std::vector<TimeNs> times(std::size_t most = 100) {
    std::vector<TimeNs> all;
    const TimeNs start = now;
    for (TimeNs at = start; at != kNever && all.size() < most; at = replay->next()) {
      rte_mbuf* packets[4];
      const std::uint16_t count = replay->receive(at, packets, 4);
      EXPECT_GT(count, 0);
      for (std::uint16_t i = 0; i < count; ++i) {
        lengths.push_back(take(packets[i]).size());
        all.push_back(at - start);
      }
    }
    return all;
  }

  std::unique_ptr<CaptureReplay> replay;
  std::vector<std::string> warnings;
  std::vector<std::size_t> lengths;
};

const std::vector<Timed> kThree{{7 * kSecond, 60}, {7 * kSecond + 1500, 100}, {8 * kSecond + 1, 80}};

TEST_F(CaptureReplayTest, PacketsComeAtTheTimesOfTheCapture) {
  ASSERT_EQ(load(kThree), "");
  EXPECT_THAT(times(), ElementsAre(0, 1500, kSecond + 1));
  EXPECT_THAT(lengths, ElementsAre(60, 100, 80));
  EXPECT_TRUE(replay->ended());
  EXPECT_EQ(replay->next(), kNever);
}

TEST_F(CaptureReplayTest, NothingComesBeforeItsTimeAndWhatIsLateComesAtOnce) {
  ASSERT_EQ(load(kThree), "");
  rte_mbuf* packets[4];
  ASSERT_EQ(replay->receive(now, packets, 4), 1);
  take(packets[0]);
  EXPECT_EQ(replay->receive(now + 1499, packets, 4), 0);
  EXPECT_EQ(replay->next(), now + 1500);
  ASSERT_EQ(replay->receive(now + 2 * kSecond, packets, 4), 2);
  take(packets[0]);
  take(packets[1]);
}

TEST_F(CaptureReplayTest, TwiceTheSpeedTakesHalfAsLong) {
  ASSERT_EQ(load(kThree, {.speed = 2}), "");
  EXPECT_THAT(times(), ElementsAre(0, 750, kSecond / 2));
}

TEST_F(CaptureReplayTest, ARateCountsInsteadOfTheTimes) {
  ASSERT_EQ(load(kThree, {.rate_pps = 1'000'000}), "");
  EXPECT_THAT(times(), ElementsAre(0, kUs, 2 * kUs));
}

TEST_F(CaptureReplayTest, AnotherRoundBeginsOneMeanGapBehindTheLast) {
  ASSERT_EQ(load({{0, 60}, {100, 60}, {400, 60}}, {.loops = 2}), "");
  EXPECT_THAT(times(), ElementsAre(0, 100, 400, 600, 700, 1000));
  EXPECT_TRUE(replay->ended());
  ASSERT_EQ(load({{0, 60}, {100, 60}}, {.rate_pps = 1'000'000, .loops = 0}), "");
  EXPECT_FALSE(replay->finite());
  EXPECT_THAT(times(5), ElementsAre(0, 1000, 2000, 3000, 4000));
}

TEST_F(CaptureReplayTest, TimesThatGoBackAreNoGapAndSaid) {
  ASSERT_EQ(load({{500, 60}, {100, 60}, {600, 60}}), "");
  EXPECT_THAT(times(), ElementsAre(0, 0, 100));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("1 packets go back")));
}

TEST_F(CaptureReplayTest, MicrosecondsAreRead) {
  write({{0, 60}, {5 * kUs, 60}}, 0xa1b2c3d4);
  std::string error;
  replay = CaptureReplay::load(scratch.file("in.pcap"), {}, pool.get(), warnings, error);
  ASSERT_EQ(error, "");
  EXPECT_THAT(times(), ElementsAre(0, 5 * kUs));
}

TEST_F(CaptureReplayTest, APacketWaitsForABuffer) {
  ASSERT_EQ(load({{0, 60}, {0, 61}}), "");
  std::vector<rte_mbuf*> all(buffers - 1);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool.get(), all.data(), buffers - 1), 0);
  rte_mbuf* packets[4];
  ASSERT_EQ(replay->receive(now, packets, 4), 1);
  EXPECT_FALSE(replay->ended());
  EXPECT_EQ(take(packets[0]), frame_of(60));
  ASSERT_EQ(replay->receive(now, packets, 4), 1);
  EXPECT_EQ(take(packets[0]), frame_of(61));
  rte_pktmbuf_free_bulk(all.data(), buffers - 1);
}

TEST_F(CaptureReplayTest, LargePacketsComeAsChains) {
  ASSERT_EQ(load({{0, 9000}}), "");
  rte_mbuf* packets[4];
  ASSERT_EQ(replay->receive(now, packets, 4), 1);
  EXPECT_EQ(packets[0]->nb_segs, 5);
  EXPECT_EQ(take(packets[0]), frame_of(9000));
}

TEST_F(CaptureReplayTest, WhatCannotBeRepeatedIsRefused) {
  EXPECT_THAT(load({}, {.loops = 0}), HasSubstr("no packet to repeat"));
  EXPECT_THAT(load({{5, 60}}, {.loops = 0}), HasSubstr("no two times"));
  ASSERT_EQ(load({}), "");
  EXPECT_TRUE(replay->ended());
  rte_mbuf* packets[4];
  EXPECT_EQ(replay->receive(now, packets, 4), 0);
}

TEST_F(CaptureReplayTest, AnOpenPortReceivesByItsPace) {
  const std::string file = write(kThree);
  ASSERT_EQ(open(info("pcap", {{"infinite", Value(false)},
                               {"pace", Value("capture")},
                               {"speed", Value(1000.0)},
                               {"loops", Value(1)},
                               {"rx_file", Value(file)}}),
                 4),
            "");
  EXPECT_EQ(port->rx_queues(), 1);
  EXPECT_TRUE(port->finite());
  EXPECT_EQ(port->next_receive(), kNever);
  EXPECT_EQ(receive_all().size(), 1u);
  EXPECT_EQ(port->next_receive(), now + 1);
  EXPECT_THAT(port->supervise(), IsEmpty());
  now += kSecond;
  EXPECT_EQ(receive_all().size(), 2u);
  EXPECT_TRUE(port->exhausted());
  const auto news = port->supervise();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_THAT(news[0].text, HasSubstr("has been received"));
  EXPECT_THAT(port->supervise(), IsEmpty());
}

}  // namespace
}  // namespace weft::ports
