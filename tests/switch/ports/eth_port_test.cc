// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/eth_port.h"

#include <rte_thash.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "switch/pipeline/steer.h"
#include "tests/switch/ports/port_rig.h"

namespace {
// The drivers of newer DPDKs all take chains: a test sets this before it opens a device that is to take none.
bool g_no_chains = false;
// What a card would say that no virtual device does; 0 leaves it as it is.
std::uint16_t g_max_rx_queues = 0;
std::uint8_t g_hash_key_bytes = 0;
std::atomic<bool> g_removed{false};
// Of the device that was configured last.
rte_eth_conf g_configured{};
}  // namespace

// The linker gives these names to DPDK's function and to what is called in its place (--wrap).
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" int __real_rte_eth_dev_info_get(std::uint16_t id, rte_eth_dev_info* info);
extern "C" int __wrap_rte_eth_dev_info_get(std::uint16_t id, rte_eth_dev_info* info) {
  const int result = __real_rte_eth_dev_info_get(id, info);
  if (result == 0 && g_no_chains) info->tx_offload_capa &= ~std::uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS};
  if (result == 0 && g_max_rx_queues != 0) info->max_rx_queues = g_max_rx_queues;
  if (result == 0 && g_hash_key_bytes != 0) info->hash_key_size = g_hash_key_bytes;
  return result;
}
extern "C" int __real_rte_eth_dev_configure(std::uint16_t id, std::uint16_t rx, std::uint16_t tx,
                                            const rte_eth_conf* configuration);
extern "C" int __wrap_rte_eth_dev_configure(std::uint16_t id, std::uint16_t rx, std::uint16_t tx,
                                            const rte_eth_conf* configuration) {
  g_configured = *configuration;
  // The virtual device would refuse the key of a card.
  rte_eth_conf passed = *configuration;
  if (g_hash_key_bytes != 0) passed.rx_adv_conf.rss_conf.rss_key = nullptr;
  return __real_rte_eth_dev_configure(id, rx, tx, &passed);
}
extern "C" int __wrap_rte_eth_dev_is_removed(std::uint16_t) {
  return g_removed ? 1 : 0;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace weft::ports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class EthPortTest : public PortTest {
 protected:
  // A port whose driver is a ring in memory: what is sent comes in again.
  void open_ring(const std::string& name) {
    const std::string error = open(info(
        "pci",
        {{"device", Value("net_ring_" + name)}, {"rx_descriptors", Value(1024)}, {"tx_descriptors", Value(1024)}}, 0));
    ASSERT_EQ(error, "");
  }
  // A port whose driver does not take chains; it writes to scratch.file(name + ".pcap").
  void open_plain_writer(const std::string& name) {
    g_no_chains = true;
    const std::string error =
        open(info("pci",
                  {{"device", Value("net_pcap_" + name + ",tx_pcap=" + scratch.file(name + ".pcap"))},
                   {"rx_descriptors", Value(1024)},
                   {"tx_descriptors", Value(1024)}},
                  0));
    g_no_chains = false;
    ASSERT_EQ(error, "");
  }
};

const std::vector<Bytes>& frames_of_all_sizes() {
  static const std::vector<Bytes> kFrames{frame_of(60),   frame_of(61),   frame_of(64),
                                          frame_of(1514), frame_of(2048), frame_of(2049),
                                          frame_of(4166), frame_of(9018), frame_of(14)};
  return kFrames;
}

TEST_F(EthPortTest, TheFramesOfACaptureComeInByteForByte) {
  write_capture(scratch.file("in.pcap"), frames_of_all_sizes());
  ASSERT_EQ(open_pcap(scratch.file("in.pcap"), ""), "");
  EXPECT_EQ(receive_all(4), frames_of_all_sizes());
}

TEST_F(EthPortTest, SentFramesEndUpInTheCaptureByteForByte) {
  ASSERT_EQ(open_pcap("", scratch.file("out.pcap")), "");
  std::vector<rte_mbuf*> packets;
  for (const Bytes& frame : frames_of_all_sizes()) packets.push_back(packet(frame));
  const auto count = static_cast<std::uint16_t>(packets.size());
  const pipeline::TxResult result = port->transmit(packets.data(), count);
  EXPECT_EQ(result.taken, count);
  EXPECT_EQ(result.rejected, 0);
  port.reset();
  EXPECT_EQ(read_capture(scratch.file("out.pcap")), frames_of_all_sizes());
}

TEST_F(EthPortTest, ChainsAndCopiesAreWrittenWhole) {
  ASSERT_EQ(open_pcap("", scratch.file("out.pcap")), "");
  const Bytes frame = frame_of(4166);
  rte_mbuf* whole = packet(frame);
  rte_mbuf* copy = pipeline::replicate(pool.get(), whole);
  ASSERT_GT(copy->nb_segs, 1);
  rte_mbuf* packets[]{packet(frame, {14}), copy, whole, packet(frame, {100, 1, 2000}), packet(frame_of(60), {1, 1, 1})};
  const pipeline::TxResult result = port->transmit(packets, 5);
  EXPECT_EQ(result.taken, 5);
  EXPECT_EQ(result.rejected, 0);
  port.reset();
  EXPECT_THAT(read_capture(scratch.file("out.pcap")), ElementsAre(frame, frame, frame, frame, frame_of(60)));
}

TEST_F(EthPortTest, ACaptureIsExhaustedWhenItsLastPacketHasBeenSeenAndNotBefore) {
  write_capture(scratch.file("in.pcap"), std::vector<Bytes>(40, frame_of(60)));
  ASSERT_EQ(open_pcap(scratch.file("in.pcap"), ""), "");
  EXPECT_TRUE(port->finite());
  EXPECT_FALSE(port->exhausted());
  rte_mbuf* packets[64];
  ASSERT_EQ(port->receive(now, 0, packets, 32), 32);
  for (int i = 0; i < 32; ++i) rte_pktmbuf_free(packets[i]);
  EXPECT_FALSE(port->exhausted());
  EXPECT_EQ(receive_all().size(), 8u);
  EXPECT_TRUE(port->exhausted());
}

TEST_F(EthPortTest, AnEmptyCaptureAndNoCaptureAreExhaustedAtOnce) {
  write_capture(scratch.file("in.pcap"), {});
  ASSERT_EQ(open_pcap(scratch.file("in.pcap"), ""), "");
  EXPECT_TRUE(port->exhausted());
  ASSERT_EQ(open_pcap("", scratch.file("out.pcap")), "");
  EXPECT_TRUE(port->finite());
  EXPECT_TRUE(port->exhausted());
}

TEST_F(EthPortTest, PacketsLostForWantOfBuffersAreCountedAndDoNotKeepTheCaptureOpen) {
  write_capture(scratch.file("in.pcap"), std::vector<Bytes>(40, frame_of(60)));
  use_pool(16, 2176);
  ASSERT_EQ(open_pcap(scratch.file("in.pcap"), ""), "");
  std::vector<rte_mbuf*> kept;
  for (int i = 0; i < 60 && !port->exhausted(); ++i) {
    rte_mbuf* packets[64];
    const std::uint16_t count = port->receive(now, 0, packets, 8);
    kept.insert(kept.end(), packets, packets + count);
  }
  EXPECT_TRUE(port->exhausted());
  EXPECT_EQ(port->device_stats().rx_no_mbuf, 40 - kept.size());
  for (rte_mbuf* m : kept) rte_pktmbuf_free(m);
}

TEST_F(EthPortTest, ARepeatedCaptureNeverEnds) {
  write_capture(scratch.file("in.pcap"), {frame_of(60), frame_of(100)});
  ASSERT_EQ(open_pcap(scratch.file("in.pcap"), "", true), "");
  EXPECT_FALSE(port->finite());
  std::vector<Bytes> seen;
  while (seen.size() < 100) {
    rte_mbuf* packets[64];
    const std::uint16_t count = port->receive(now, 0, packets, 8);
    ASSERT_GT(count, 0);
    for (std::uint16_t i = 0; i < count; ++i) seen.push_back(take(packets[i]));
  }
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(seen[i], frame_of(i % 2 == 0 ? 60 : 100));
  EXPECT_FALSE(port->exhausted());
  port.reset();
}

TEST_F(EthPortTest, ANullPortTakesEverythingAndGivesNothingUnlessAsked) {
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}})), "");
  EXPECT_THAT(receive_all(), IsEmpty());
  EXPECT_TRUE(port->exhausted());
  rte_mbuf* packets[]{packet(frame_of(60)), packet(frame_of(4000))};
  EXPECT_EQ(port->transmit(packets, 2).taken, 2);
  EXPECT_TRUE(port->link_up());
  ASSERT_EQ(open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(300)}})), "");
  EXPECT_FALSE(port->finite());
  EXPECT_FALSE(port->exhausted());
  rte_mbuf* received[32];
  ASSERT_EQ(port->receive(now, 0, received, 32), 32);
  for (rte_mbuf* m : received) EXPECT_EQ(take(m).size(), 300u);
}

TEST_F(EthPortTest, ChainsGoThroughADriverThatSaysItTakesThem) {
  open_ring("chains");
  rte_mbuf* sent = packet(frame_of(1500), {192, 500});
  ASSERT_EQ(port->transmit(&sent, 1).taken, 1);
  rte_mbuf* received[8];
  ASSERT_EQ(port->receive(now, 0, received, 8), 1);
  EXPECT_EQ(received[0], sent);
  EXPECT_EQ(take(received[0]), frame_of(1500));
}

TEST_F(EthPortTest, ChainsAreMovedIntoOneBufferForADriverThatDoesNotTakeThem) {
  open_plain_writer("flat");
  rte_mbuf* kept = packet(frame_of(2000));
  rte_mbuf* copy = pipeline::replicate(pool.get(), kept);
  rte_mbuf* packets[]{packet(frame_of(60), {14, 20}), packet(frame_of(1500), {192, 500}), copy, packet(frame_of(61)),
                      packet(frame_of(2048), {1})};
  const pipeline::TxResult result = port->transmit(packets, 5);
  EXPECT_EQ(result.taken, 5);
  EXPECT_EQ(result.rejected, 0);
  EXPECT_EQ(take(kept), frame_of(2000));  // the copy shared its bytes
  port.reset();
  EXPECT_THAT(read_capture(scratch.file("flat.pcap")),
              ElementsAre(frame_of(60), frame_of(1500), frame_of(2000), frame_of(61), frame_of(2048)));
}

TEST_F(EthPortTest, ChainsLargerThanABufferAreRefusedByADriverThatDoesNotTakeChains) {
  open_plain_writer("large");
  rte_mbuf* packets[]{packet(frame_of(4166)), packet(frame_of(60)), packet(frame_of(2049)), packet(frame_of(9000))};
  const pipeline::TxResult result = port->transmit(packets, 4);
  EXPECT_EQ(result.taken, 4);
  EXPECT_EQ(result.rejected, 3);
  EXPECT_EQ(result.rejected_bytes, 4166u + 2049u + 9000u);
  port.reset();
  EXPECT_THAT(read_capture(scratch.file("large.pcap")), ElementsAre(frame_of(60)));
}

TEST_F(EthPortTest, ABusyDeviceTakesNoPacketAndTheRestIsStillThere) {
  use_pool(4096, 512 + RTE_PKTMBUF_HEADROOM);
  open_ring("busy");
  std::uint32_t taken = 0;
  std::vector<rte_mbuf*> left;
  while (left.empty()) {
    std::vector<rte_mbuf*> packets;
    for (int i = 0; i < 32; ++i) packets.push_back(packet(frame_of(100), {14, 20}));
    const pipeline::TxResult result = port->transmit(packets.data(), 32);
    EXPECT_EQ(result.rejected, 0);
    taken += result.taken;
    left.assign(packets.begin() + result.taken, packets.end());
  }
  EXPECT_GE(taken, 1023u);
  for (rte_mbuf* m : left) EXPECT_EQ(take(m), frame_of(100));
  EXPECT_EQ(receive_all().size(), taken);
}

TEST_F(EthPortTest, AChainForWhichNoBufferIsLeftIsRefusedAndOthersAreSent) {
  use_pool(6, 2176);
  open_plain_writer("nobuf");
  rte_mbuf* packets[]{packet(frame_of(60)), packet(frame_of(100), {14, 20}), packet(frame_of(61)),
                      packet(frame_of(62))};
  ASSERT_EQ(rte_mempool_avail_count(pool.get()), 0u);
  const pipeline::TxResult result = port->transmit(packets, 4);
  EXPECT_EQ(result.taken, 4);
  EXPECT_EQ(result.rejected, 1);
  EXPECT_EQ(result.rejected_bytes, 100u);
  port.reset();
  EXPECT_THAT(read_capture(scratch.file("nobuf.pcap")), ElementsAre(frame_of(60), frame_of(61), frame_of(62)));
}

TEST_F(EthPortTest, ADeviceIsOpenedByOnePortOnly) {
  open_ring("once");
  const OpenedPort second = open_port(
      info("pci",
           {{"device", Value("net_ring_once")}, {"rx_descriptors", Value(1024)}, {"tx_descriptors", Value(1024)}}),
      {pool.get(), 1, 7});
  EXPECT_EQ(second.port, nullptr);
  EXPECT_THAT(second.error, HasSubstr("net_ring_once"));
}

// A card, or a function of one, that is taken out while workers use it.
TEST_F(EthPortTest, ADeviceThatIsTakenOutLeavesAPortWithoutALink) {
  ASSERT_NO_FATAL_FAILURE(open_ring("taken"));
  rte_mbuf* m = packet(frame_of(60));
  ASSERT_EQ(port->transmit(&m, 1).taken, 1);
  rte_mbuf* received[1];
  ASSERT_EQ(port->receive(0, 0, received, 1), 1);
  rte_pktmbuf_free(received[0]);
  EXPECT_THAT(port->supervise(), IsEmpty());
  EXPECT_TRUE(port->is_up());
  g_removed = true;
  const std::vector<PortNews> news = port->supervise();
  const std::vector<PortNews> later = port->supervise();
  g_removed = false;
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].warning);
  EXPECT_THAT(news[0].text, HasSubstr("net_ring_taken was taken out; the port has no link from now on"));
  EXPECT_THAT(later, IsEmpty());

  EXPECT_FALSE(port->is_up());
  EXPECT_EQ(port->speed_mbps(), 0u);
  EXPECT_EQ(port->set_link(true), "its device was taken out");
  EXPECT_EQ(port->receive(0, 0, received, 1), 0);
  rte_mbuf* late = packet(frame_of(60));
  const pipeline::TxResult result = port->transmit(&late, 1);
  EXPECT_EQ(result.taken, 1);
  EXPECT_EQ(result.rejected, 1);
}

TEST_F(EthPortTest, ADeviceThatIsTakenOutIsClosedWhenNoWorkerIsInABurstOfIt) {
  std::atomic<std::uint64_t> loops{0};
  std::atomic<bool> stop{false};
  // Two, because what the caller has written before may not have been seen in the first one.
  await_bursts = [&] {
    for (const std::uint64_t before = loops; loops < before + 2;) std::this_thread::yield();
  };
  ASSERT_EQ(open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(64)}})), "");
  std::uint64_t refused = 0;
  std::thread worker([&] {
    while (!stop || refused == 0) {
      rte_mbuf* m = packet(frame_of(60));
      const pipeline::TxResult result = port->transmit(&m, 1);
      if (result.taken == 0) rte_pktmbuf_free(m);
      refused += result.rejected;
      rte_mbuf* received[1];
      if (port->receive(0, 0, received, 1) == 1) rte_pktmbuf_free(received[0]);
      ++loops;
    }
  });
  while (loops < 1000) std::this_thread::yield();
  g_removed = true;
  EXPECT_EQ(port->supervise().size(), 1u);
  g_removed = false;
  stop = true;
  worker.join();
  EXPECT_GT(refused, 0u);
}

TEST_F(EthPortTest, EveryWorkerGetsAReceiveQueueWhereTheDeviceCanSpread) {
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}), 4), "");
  EXPECT_EQ(port->rx_queues(), 4);
  write_capture(scratch.file("in.pcap"), {frame_of(60)});
  ASSERT_EQ(
      open(info("pcap",
                {{"infinite", Value(false)}, {"pace", Value("none")}, {"rx_file", Value(scratch.file("in.pcap"))}}),
           4),
      "");
  EXPECT_EQ(port->rx_queues(), 1);
}

// What is logged while it lives.
class Logged {
 public:
  Logged() {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    auto logger = std::make_shared<spdlog::logger>("", sink);
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(logger);
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(EthPortTest, ACardWithTooFewReceiveQueuesIsWarnedOfWithBothNumbers) {
  const Logged logged;
  g_max_rx_queues = 2;
  const std::string error = open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(64)}}), 4);
  g_max_rx_queues = 0;
  ASSERT_EQ(error, "");
  EXPECT_EQ(port->rx_queues(), 1);
  EXPECT_THAT(logged.text(), HasSubstr("warning: p: 4 receive queues are wanted, one for each worker, and 1 is used, "
                                       "because the device has 2; the worker of the port receives everything"));
}

TEST_F(EthPortTest, SoManyWorkersPollAPortAsAreAskedFor) {
  const auto with = [&](std::uint16_t per_port) {
    return open_port(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(64)}}),
                     {.pool = pool.get(), .workers = 4, .seed = 7, .per_port = per_port});
  };
  for (const std::uint16_t per_port : {1, 2, 4}) {
    const OpenedPort opened = with(per_port);
    ASSERT_EQ(opened.error, "");
    EXPECT_EQ(opened.port->rx_queues(), per_port);
  }
  g_max_rx_queues = 2;
  const OpenedPort fits = with(2);
  const OpenedPort refused = with(3);
  g_max_rx_queues = 0;
  EXPECT_EQ(fits.error, "");
  EXPECT_THAT(refused.error, HasSubstr("workers.per_port asks for 3 receive queues, but the device has 2"));
}

TEST_F(EthPortTest, ACardThatCannotSpreadIsWarnedOf) {
  const Logged logged;
  const auto ring = info(
      "pci", {{"device", Value("net_ring_few")}, {"rx_descriptors", Value(1024)}, {"tx_descriptors", Value(1024)}}, 0);
  ASSERT_EQ(open(ring, 2), "");
  EXPECT_EQ(port->rx_queues(), 1);
  EXPECT_THAT(logged.text(), HasSubstr("warning: p: 2 receive queues are wanted, one for each worker, and 1 is used, "
                                       "because the device cannot spread packets by their addresses;"));
}

TEST_F(EthPortTest, NothingIsSaidOfReceiveQueuesWhereThereAreEnough) {
  const Logged logged;
  ASSERT_EQ(open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(64)}}), 4), "");
  EXPECT_EQ(port->rx_queues(), 4);
  ASSERT_NO_FATAL_FAILURE(open_ring("alone"));
  EXPECT_THAT(logged.text(), Not(HasSubstr("receive queues")));
}

TEST_F(EthPortTest, BothDirectionsOfAConnectionHaveOneRssHash) {
  g_hash_key_bytes = 40;
  const std::string error = open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}), 4);
  g_hash_key_bytes = 0;
  ASSERT_EQ(error, "");
  const rte_eth_rss_conf& rss = g_configured.rx_adv_conf.rss_conf;
  ASSERT_EQ(g_configured.rxmode.mq_mode, RTE_ETH_MQ_RX_RSS);
  ASSERT_NE(rss.rss_key, nullptr);
  ASSERT_EQ(rss.rss_key_len, 40);
  EXPECT_EQ(rss.rss_hf & ~(RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6), 0u) << "ports would be in the hash";
  std::uint32_t there[] = {0x0A000001, 0xC6120B07};
  std::uint32_t back[] = {there[1], there[0]};
  EXPECT_EQ(rte_softrss(there, 2, rss.rss_key), rte_softrss(back, 2, rss.rss_key));
  std::uint32_t there_v6[] = {0x20010db8, 1, 2, 3, 0x20010db8, 4, 5, 6};
  std::uint32_t back_v6[] = {0x20010db8, 4, 5, 6, 0x20010db8, 1, 2, 3};
  EXPECT_EQ(rte_softrss(there_v6, 8, rss.rss_key), rte_softrss(back_v6, 8, rss.rss_key));
  back[0] ^= 1;
  EXPECT_NE(rte_softrss(there, 2, rss.rss_key), rte_softrss(back, 2, rss.rss_key));
}

TEST_F(EthPortTest, TheTableOfACardBringsPacketsToTheirWorkers) {
  environment_owner = 1;
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}), 4), "");
  std::uint16_t id = 0, last = 0;
  RTE_ETH_FOREACH_DEV(id) last = id;
  rte_eth_rss_reta_entry64 groups[2]{};
  for (auto& group : groups) group.mask = ~std::uint64_t{0};
  ASSERT_EQ(rte_eth_dev_rss_reta_query(last, groups, 128), 0);
  EXPECT_TRUE(port->brings_to_owners());
  const pipeline::RssWorkers owners(4);
  for (std::uint32_t entry = 0; entry < 128; ++entry) {
    ASSERT_EQ((1 + groups[entry / 64].reta[entry % 64]) % 4, owners.of_entry(entry)) << entry;
  }
}

TEST_F(EthPortTest, EveryWorkerGetsATransmitQueueWhereTheDeviceHasThem) {
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}), 4), "");
  EXPECT_EQ(port->tx_queues(), 4);
  for (std::uint16_t worker = 0; worker < 4; ++worker) {
    rte_mbuf* m = packet(frame_of(60));
    EXPECT_EQ(port->tx(worker).transmit(&m, 1).taken, 1);
  }
  ASSERT_NO_FATAL_FAILURE(open_ring("single"));
  EXPECT_EQ(port->tx_queues(), 1);
  EXPECT_EQ(&port->tx(0), port.get());
}

TEST_F(EthPortTest, TheDescriptionIsTheDriversName) {
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}})), "");
  EXPECT_EQ(port->description(), "net_null");
}

}  // namespace
}  // namespace weft::ports
