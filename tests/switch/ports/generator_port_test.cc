// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/generator_port.h"

#include <initializer_list>
#include <map>

#include "switch/base/rng.h"
#include "switch/pipeline/steer.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Options {
  int qps = 1;
  int first_qpn = 16;
  int payload_bytes = 64;
  std::vector<std::string> opcodes{"RC_SEND_ONLY"};
  std::string source = "10.0.0.1";
  std::string destination = "10.0.0.2";
  std::int64_t limit_packets = 0;
  std::int64_t rate_pps = 0;
  Value control{};
  std::vector<std::string> more_destinations{};
  int dscp = 0;
  bool heed_pfc = false;
  bool rss = false;
};

class GeneratorPortTest : public PortTest {
 protected:
  std::string generate(const Options& o, std::uint16_t workers = 1) {
    Value::List opcodes, more;
    for (const auto& address : o.more_destinations) {
      more.emplace_back(Value::Map{{"mac", Value("02:00:00:00:00:03")}, {"address", Value(address)}});
    }
    for (const auto& name : o.opcodes) opcodes.emplace_back(name);
    return open(info("generator", {{"qps", Value(o.qps)},
                                   {"first_qpn", Value(o.first_qpn)},
                                   {"payload_bytes", Value(o.payload_bytes)},
                                   {"opcodes", Value(std::move(opcodes))},
                                   {"source_mac", Value("02:00:00:00:00:01")},
                                   {"destination_mac", Value("02:00:00:00:00:02")},
                                   {"source", Value(o.source)},
                                   {"destination", Value(o.destination)},
                                   {"more_destinations", Value(std::move(more))},
                                   {"dscp", Value(o.dscp)},
                                   {"heed_pfc", Value(o.heed_pfc)},
                                   {"rss", Value(o.rss)},
                                   {"limit_packets", Value(o.limit_packets)},
                                   {"rate_pps", Value(o.rate_pps)},
                                   {"control", o.control}}),
                workers);
  }
  std::vector<Bytes> receive(std::uint16_t count, std::uint16_t queue = 0) {
    rte_mbuf* packets[64];
    const std::uint16_t got = port->receive(now, queue, packets, count);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < got; ++i) frames.push_back(take(packets[i]));
    return frames;
  }
  static wire::Parsed parse(const Bytes& frame) {
    wire::Parsed parsed;
    wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                      parsed);
    return parsed;
  }
};

TEST_F(GeneratorPortTest, QueuePairsTakeTurnsAndTheirPsnsCountUp) {
  ASSERT_EQ(generate({.qps = 3, .first_qpn = 100}), "");
  std::vector<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const Bytes& frame : receive(8)) {
    const wire::Parsed p = parse(frame);
    seen.emplace_back(p.dest_qp.value(), p.psn.value());
  }
  const std::uint32_t b = GeneratorPort::first_psn(1), c = GeneratorPort::first_psn(2);
  EXPECT_THAT(seen,
              ElementsAre(std::pair(100, 0), std::pair(101, b), std::pair(102, c), std::pair(100, 1),
                          std::pair(101, b + 1), std::pair(102, c + 1), std::pair(100, 2), std::pair(101, b + 2)));
}

TEST_F(GeneratorPortTest, QueuePairsAreWithOneOfTheDestinationsInTurn) {
  ASSERT_EQ(generate({.qps = 5,
                      .first_qpn = 100,
                      .opcodes = {"RC_SEND_ONLY", "RC_RDMA_WRITE_ONLY"},
                      .more_destinations = {"10.0.0.3", "10.0.0.4"}}),
            "");
  std::map<std::uint32_t, std::map<std::uint64_t, int>> seen;  // by QPN, then by destination
  for (int burst = 0; burst < 10; ++burst) {
    for (const Bytes& frame : receive(10)) {
      const wire::Parsed p = parse(frame);
      ASSERT_TRUE(wire::icrc_ok(frame.data(), p));
      ++seen[p.dest_qp.value()][p.address_key & 0xff];
    }
  }
  for (std::uint32_t qp = 0; qp < 5; ++qp) {
    EXPECT_THAT(seen[100 + qp], ElementsAre(std::pair(2 + qp % 3, 20))) << qp;
  }
}

TEST_F(GeneratorPortTest, EveryQueuePairGetsEveryKindAndAcknowledgesWhatWasRequestedBefore) {
  ASSERT_EQ(generate({.qps = 2, .first_qpn = 100, .payload_bytes = 8, .opcodes = {"RC_SEND_ONLY", "RC_ACKNOWLEDGE"}}),
            "");
  std::map<std::uint32_t, std::uint32_t> requests;  // sent, by QPN
  std::map<std::uint32_t, std::uint32_t> answers;
  for (int burst = 0; burst < 10; ++burst) {
    for (const Bytes& frame : receive(64)) {
      const wire::Parsed p = parse(frame);
      const std::uint32_t qpn = p.dest_qp.value();
      const std::uint32_t number = (p.psn.value() - GeneratorPort::first_psn(qpn - 100)) & wire::Psn::kMask;
      if (p.opcode == static_cast<std::uint8_t>(wire::Opcode::RC_SEND_ONLY)) {
        ASSERT_EQ(number, requests[qpn]++);
      } else {
        const std::uint32_t sent = requests[qpn];
        ASSERT_EQ(number, sent > GeneratorPort::kAcknowledgeLag ? sent - GeneratorPort::kAcknowledgeLag : 0);
        ++answers[qpn];
      }
    }
  }
  EXPECT_THAT(requests, ElementsAre(std::pair(100, 160), std::pair(101, 160)));
  EXPECT_THAT(answers, ElementsAre(std::pair(100, 160), std::pair(101, 160)));
}

Value control(int every, std::uint32_t immediate, std::initializer_list<int> payload) {
  Value::List bytes;
  for (const int byte : payload) bytes.emplace_back(byte);
  return Value(Value::Map{{"every", Value(every)}, {"immediate", Value(immediate)}, {"payload", Value(bytes)}});
}

TEST_F(GeneratorPortTest, EveryQueuePairBeginsWithAControlMessageAndSendsItAgain) {
  const std::vector<std::string> opcodes{"RC_SEND_ONLY", "RC_ACKNOWLEDGE"};
  ASSERT_EQ(generate({.qps = 2, .opcodes = opcodes, .control = control(3, 0xffffffff, {1, 2, 3, 4, 5})}), "");
  std::map<std::uint32_t, std::uint32_t> requests;  // sent, by QPN
  for (const Bytes& frame : receive(64)) {
    const wire::Parsed p = parse(frame);
    ASSERT_TRUE(wire::icrc_ok(frame.data(), p));
    if (p.opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)) continue;
    const std::uint32_t number = requests[p.dest_qp.value()]++;
    ASSERT_EQ(p.psn.value(), GeneratorPort::first_psn(p.dest_qp.value() - 16) + number);
    const bool begins = number % 3 == 0;
    ASSERT_EQ(p.opcode,
              static_cast<std::uint8_t>(begins ? wire::Opcode::RC_SEND_ONLY_IMM : wire::Opcode::RC_SEND_ONLY));
    ASSERT_EQ(p.payload_bytes, begins ? 5u : 64u);
    if (!begins) continue;
    const std::uint8_t* const behind = frame.data() + p.l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth);
    EXPECT_EQ(wire::header_at<wire::be32>(behind).value(), 0xffffffff + number / 3);
    EXPECT_THAT(std::vector(behind + 4, behind + 9), ElementsAre(1, 2, 3, 4, 5));
  }
  EXPECT_THAT(requests, ElementsAre(std::pair(16, 16), std::pair(17, 16)));
}

TEST_F(GeneratorPortTest, EveryPacketIsValidAndItsIcrcRight) {
  for (const char* destination : {"10.0.0.2", "fd00::2"}) {
    const bool v6 = destination[0] == 'f';
    ASSERT_EQ(generate({.qps = 20'000,
                        .payload_bytes = 61,
                        .opcodes = {"RC_SEND_FIRST", "RC_RDMA_WRITE_ONLY", "RC_ACKNOWLEDGE", "UD_SEND_ONLY"},
                        .source = v6 ? "fd00::1" : "10.0.0.1",
                        .destination = destination}),
              "");
    std::map<std::uint8_t, int> opcodes;
    for (int burst = 0; burst < 1000; ++burst) {
      for (const Bytes& frame : receive(64)) {
        const wire::Parsed p = parse(frame);
        ASSERT_EQ(p.kind, wire::FrameKind::roce);
        ASSERT_EQ(p.validity, wire::Validity::ok);
        ASSERT_EQ(p.has(wire::ParsedFlag::ipv6), v6);
        ASSERT_TRUE(wire::icrc_ok(frame.data(), p)) << "QP " << p.dest_qp.value() << " PSN " << p.psn.value();
        ASSERT_GE(p.source_port, 49152);
        ++opcodes[p.opcode];
      }
    }
    EXPECT_EQ(opcodes.size(), 4u);
  }
}

TEST_F(GeneratorPortTest, PfcFramesMakeItPauseWhereTheyAreHeeded) {
  const auto send_pfc = [&](std::uint16_t quanta) {
    rte_mbuf* m = packet(wire::FrameBuilder().pfc(1 << 3, {0, 0, 0, quanta, 0, 0, 0, 0}).build());
    ASSERT_EQ(port->transmit(&m, 1).taken, 1);
  };
  for (const bool heeds : {false, true}) {
    ASSERT_EQ(generate({.dscp = 24, .heed_pfc = heeds}), "");
    EXPECT_EQ(port->tx_queues() > 1, !heeds) << "pauses concern one worker";
    EXPECT_EQ(parse(receive(4).at(0)).kind, wire::FrameKind::roce);
    send_pfc(1000);
    EXPECT_THAT(receive(4), testing::SizeIs(heeds ? 0 : 4));
    now += 1000 * wire::kPauseQuantumBits / 100;  // at 100 Gbit/s
    EXPECT_THAT(receive(4), testing::SizeIs(4)) << "the pause has ended";
    send_pfc(0xffff);
    send_pfc(0);
    EXPECT_THAT(receive(4), testing::SizeIs(4)) << "the peer has ended it";
  }
}

TEST_F(GeneratorPortTest, WithRssEachPacketComesThroughTheQueueOfTheWorkerThatItBelongsTo) {
  const Options options{.qps = 64, .more_destinations = {"10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}, .rss = true};
  for (const std::uint16_t owner : {0, 1, 2}) {
    environment_owner = owner;
    ASSERT_EQ(generate(options, 3), "");
    ASSERT_EQ(port->rx_queues(), 3);
    const pipeline::RssWorkers owners(3);
    std::map<std::uint32_t, std::uint32_t> requests;  // by QPN
    for (int burst = 0; burst < 6; ++burst) {
      for (std::uint16_t queue = 0; queue < 3; ++queue) {
        for (const Bytes& frame : receive(64, queue)) {
          const wire::Parsed p = parse(frame);
          ASSERT_EQ(owners.of_v4(p.address_key), (owner + queue) % 3);
          const std::uint32_t qp = p.dest_qp.value() - 16;
          ASSERT_EQ(p.address_key & 0xff, 2 + qp % 5) << "a queue pair stays with its destination";
          ASSERT_EQ(p.psn.value(), (GeneratorPort::first_psn(qp) + requests[qp]++) & wire::Psn::kMask);
        }
      }
    }
    EXPECT_EQ(requests.size(), 64u);
  }
}

TEST_F(GeneratorPortTest, TheLimitIsThatOfAllReceiveQueuesTogether) {
  ASSERT_EQ(generate({.qps = 64, .limit_packets = 100, .more_destinations = {"10.0.0.3", "10.0.0.4"}, .rss = true}, 2),
            "");
  std::size_t seen = 0;
  for (int i = 0; i < 10; ++i) seen += receive(9, 0).size() + receive(9, 1).size();
  EXPECT_EQ(seen, 100u);
  EXPECT_TRUE(port->exhausted());
}

TEST_F(GeneratorPortTest, PsnsWrapAfter24Bits) {
  ASSERT_EQ(generate({.payload_bytes = 0}), "");
  std::uint32_t expected = 0;
  rte_mbuf* packets[64];
  for (int burst = 0; burst < (1 << 18) + 1; ++burst) {
    ASSERT_EQ(port->receive(now, 0, packets, 64), 64);
    const Bytes first = take(packets[0]);
    const wire::Parsed p = parse(first);
    ASSERT_EQ(p.psn.value(), expected);
    if (expected == 0 || burst % 1000 == 0) {
      ASSERT_TRUE(wire::icrc_ok(first.data(), p));
    }
    expected = (expected + 64) & 0xffffff;
    rte_pktmbuf_free_bulk(packets + 1, 63);
  }
  EXPECT_EQ(expected, 64u);
}

TEST_F(GeneratorPortTest, TheLimitIsExactAndThenThePortIsExhausted) {
  ASSERT_EQ(generate({.limit_packets = 100}), "");
  EXPECT_TRUE(port->finite());
  std::size_t seen = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(port->exhausted(), seen == 100);
    seen += receive(32).size();
  }
  EXPECT_EQ(seen, 100u);
  EXPECT_TRUE(port->exhausted());
}

TEST_F(GeneratorPortTest, WithoutALimitItNeverEnds) {
  ASSERT_EQ(generate({}), "");
  EXPECT_FALSE(port->finite());
  EXPECT_EQ(receive(64).size(), 64u);
  EXPECT_FALSE(port->exhausted());
}

TEST_F(GeneratorPortTest, TheRateIsExactWheneverItIsAsked) {
  for (const std::int64_t rate : {1, 3, 1000, 333'333, 1'000'000'000}) {
    SCOPED_TRACE(rate);
    ASSERT_EQ(generate({.payload_bytes = 0, .rate_pps = rate}), "");
    Rng rng(static_cast<std::uint64_t>(rate));
    const TimeNs start = now;
    EXPECT_THAT(receive(64), IsEmpty());
    std::uint64_t seen = 0;
    for (int i = 0; i < 2000; ++i) {
      now += 1 + rng.below(static_cast<std::uint64_t>(60'000'000'000 / rate));
      // As many as were earned, no matter how they are asked for.
      while (true) {
        rte_mbuf* packets[64];
        const std::uint16_t count = port->receive(now, 0, packets, static_cast<std::uint16_t>(1 + rng.below(64)));
        if (count == 0) break;
        rte_pktmbuf_free_bulk(packets, count);
        seen += count;
      }
      __extension__ using Wide = unsigned __int128;
      ASSERT_EQ(seen, static_cast<std::uint64_t>(Wide{now - start} * static_cast<std::uint64_t>(rate) / 1'000'000'000));
    }
  }
}

TEST_F(GeneratorPortTest, WithoutBuffersItWaitsAndSkipsNoPacket) {
  use_pool(40, 512);
  ASSERT_EQ(generate({.limit_packets = 64}), "");
  rte_mbuf* kept[32];
  ASSERT_EQ(port->receive(now, 0, kept, 32), 32);
  EXPECT_THAT(receive(32), IsEmpty());
  EXPECT_FALSE(port->exhausted());
  rte_pktmbuf_free_bulk(kept, 32);
  const auto rest = receive(32);
  ASSERT_EQ(rest.size(), 32u);
  EXPECT_EQ(parse(rest[0]).psn.value(), 32u);
}

TEST_F(GeneratorPortTest, PacketsThatDoNotFitIntoABufferAreRefused) {
  use_pool(40, 512);
  EXPECT_THAT(generate({.payload_bytes = 1024}), HasSubstr("mbuf_data_room_bytes"));
  // 384 bytes behind the headroom. Ethernet, IPv4, UDP, BTH and ICRC are 58 bytes, and payload is padded to words.
  EXPECT_EQ(generate({.payload_bytes = 324}), "");
  EXPECT_EQ(receive(1).at(0).size(), 382u);
  EXPECT_NE(generate({.payload_bytes = 325}), "");
}

TEST_F(GeneratorPortTest, OpcodesWithoutPayloadCarryNone) {
  ASSERT_EQ(generate({.payload_bytes = 100, .opcodes = {"RC_ACKNOWLEDGE", "RC_SEND_ONLY"}}), "");
  const auto frames = receive(2);
  EXPECT_EQ(parse(frames[0]).payload_bytes, 0);
  EXPECT_EQ(parse(frames[1]).payload_bytes, 100);
}

TEST_F(GeneratorPortTest, WhatIsSentToItIsGone) {
  ASSERT_EQ(generate({}), "");
  rte_mbuf* packets[]{packet(frame_of(60)), packet(frame_of(4000))};
  EXPECT_EQ(port->transmit(packets, 2).taken, 2);
}

}  // namespace
}  // namespace weft::ports
