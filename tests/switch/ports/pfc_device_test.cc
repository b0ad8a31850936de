// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PFC in hardware, with a device that the test writes: no driver that is tested here has any.
#include "switch/ports/pfc_device.h"

#include <rte_ring.h>

#include "switch/ports/eth_port.h"
#include "switch/qos/defaults.h"
#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class FakePfc : public PfcDevice {
 public:
  int info(rte_eth_pfc_queue_info& out) override {
    out = capable;
    return supported ? 0 : -ENOTSUP;
  }
  int configure(const rte_eth_pfc_queue_conf& conf) override {
    configured.push_back(conf);
    return result;
  }
  bool supported = true;
  rte_eth_pfc_queue_info capable{.tc_max = 8, .mode_capa = RTE_ETH_FC_RX_PAUSE};
  int result = 0;
  std::vector<rte_eth_pfc_queue_conf> configured;
};

PfcClasses lossless() {
  return {.enabled = 0b00011000, .queue = {0, 1, 2, 5, 4, 3, 6, 7}};
}

TEST(PfcDevice, EveryLosslessClassStopsTheTransmitQueueOfItsClassQueue) {
  FakePfc device;
  EXPECT_EQ(cannot_stop(device, lossless(), 8), "");
  EXPECT_EQ(hand_over(device, lossless()), "");
  ASSERT_EQ(device.configured.size(), 2u);
  for (const auto& conf : device.configured) EXPECT_EQ(conf.mode, RTE_ETH_FC_RX_PAUSE);
  EXPECT_EQ(device.configured[0].rx_pause.tc, 3);
  EXPECT_EQ(device.configured[0].rx_pause.tx_qid, 5);
  EXPECT_EQ(device.configured[1].rx_pause.tc, 4);
  EXPECT_EQ(device.configured[1].rx_pause.tx_qid, 4);
}

TEST(PfcDevice, WhatADeviceLacksIsNamed) {
  FakePfc device;
  EXPECT_THAT(cannot_stop(device, lossless(), 7), HasSubstr("fewer than eight transmit queues"));
  device.capable.tc_max = 4;
  EXPECT_THAT(cannot_stop(device, lossless(), 8), HasSubstr("knows 4 classes; expected at least 5"));
  device.capable.mode_capa = RTE_ETH_FC_TX_PAUSE;
  EXPECT_THAT(cannot_stop(device, lossless(), 8), HasSubstr("does not stop transmit queues"));
  device.supported = false;
  EXPECT_THAT(cannot_stop(device, lossless(), 8), HasSubstr("no priority flow control"));
  device.result = -EIO;
  EXPECT_THAT(hand_over(device, lossless()), HasSubstr("refuses PFC of class 3"));
}

TEST(PfcDevice, TheFastestSpeedIsNamedWhileALinkIsDown) {
  EXPECT_EQ(fastest_mbps(RTE_ETH_LINK_SPEED_25G | RTE_ETH_LINK_SPEED_100G | RTE_ETH_LINK_SPEED_10G), 100'000u);
  EXPECT_EQ(fastest_mbps(RTE_ETH_LINK_SPEED_1G), 1'000u);
  EXPECT_EQ(fastest_mbps(0), 0u);
}

// A ring in memory for each transmit queue, of which the first is received again.
class PfcPortTest : public PortTest {
 protected:
  std::unique_ptr<EthPort> open(const std::string& name, PfcHardware mode, std::string& error) {
    settings = qos::default_port({});
    EthDevice device{.devargs = "net_ring_" + name, .rx_descriptors = 64, .tx_descriptors = 64, .real_speed = true};
    device.pfc_hardware = mode;
    device.pfc = pfc;
    return EthPort::open(info("pci", {}, 0), 1500, device, {pool.get(), 1, 7, &settings}, error);
  }
  rte_mbuf* of_queue(std::uint16_t queue) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
    rte_pktmbuf_append(m, 60);
    pipeline::meta(m).queue_class = queue;
    return m;
  }
  qos::PortSettings settings;
  std::shared_ptr<FakePfc> pfc = std::make_shared<FakePfc>();
};

TEST_F(PfcPortTest, AQueueThatTheDeviceStopsHoldsNoOtherBackAndItsPacketsStayInOrder) {
  use_pool(4096, 2048 + RTE_PKTMBUF_HEADROOM);
  std::string error;
  const auto eth = open("by_class", PfcHardware::automatic, error);
  ASSERT_NE(eth, nullptr) << error;
  EXPECT_TRUE(eth->by_class());
  EXPECT_EQ(pfc->configured.size(), 2u);
  // Nobody empties the ring of queue 3: it fills, as if the peer had paused it.
  rte_mbuf* stuck = nullptr;
  for (stuck = of_queue(3); eth->transmit(&stuck, 1).taken == 1;) stuck = of_queue(3);
  rte_mbuf* packets[5] = {of_queue(0), stuck, of_queue(0), of_queue(3), of_queue(0)};
  rte_mbuf* const behind = packets[3];
  const pipeline::TxResult result = eth->transmit(packets, 5);
  EXPECT_EQ(result.taken, 3);
  EXPECT_EQ(packets[3], stuck);
  EXPECT_EQ(packets[4], behind);
  rte_mbuf* received[8];
  EXPECT_EQ(eth->receive(0, 0, received, 8), 3);
  rte_pktmbuf_free_bulk(received, 3);
  rte_pktmbuf_free_bulk(packets + 3, 2);
  rte_ring* full = rte_ring_lookup("ETH_RXTX3_net_ring_by_class");
  ASSERT_NE(full, nullptr);
  for (void* m = nullptr; rte_ring_dequeue(full, &m) == 0;) rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
}

TEST_F(PfcPortTest, WithoutTheCapabilityAutoGoesOnInSoftwareAndOnIsRefused) {
  pfc->supported = false;
  std::string error;
  const auto eth = open("auto", PfcHardware::automatic, error);
  ASSERT_NE(eth, nullptr) << error;
  EXPECT_FALSE(eth->by_class());
  EXPECT_THAT(pfc->configured, IsEmpty());
  EXPECT_EQ(open("on", PfcHardware::on, error), nullptr);
  EXPECT_THAT(error, HasSubstr("pfc_hardware: the device cannot do PFC"));
  pfc->supported = true;
  EXPECT_FALSE(open("off", PfcHardware::off, error)->by_class());
}

TEST_F(PfcPortTest, ADeviceTellsItsSpeed) {
  std::string error;
  const auto eth = open("speed", PfcHardware::off, error);
  ASSERT_NE(eth, nullptr) << error;
  EXPECT_EQ(eth->speed_mbps(), 10'000u) << "what DPDK's ring says of itself";
}

}  // namespace
}  // namespace weft::ports
