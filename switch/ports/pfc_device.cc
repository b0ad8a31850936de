// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/pfc_device.h"

#include <rte_errno.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace weft::ports {
namespace {

class EthPfcDevice : public PfcDevice {
 public:
  explicit EthPfcDevice(std::uint16_t id) : id_(id) {}
  int info(rte_eth_pfc_queue_info& info) override { return rte_eth_dev_priority_flow_ctrl_queue_info_get(id_, &info); }
  int configure(const rte_eth_pfc_queue_conf& conf) override {
    rte_eth_pfc_queue_conf copy = conf;
    return rte_eth_dev_priority_flow_ctrl_queue_configure(id_, &copy);
  }

 private:
  std::uint16_t id_;
};

}  // namespace

std::unique_ptr<PfcDevice> make_pfc_device(std::uint16_t port_id) {
  return std::make_unique<EthPfcDevice>(port_id);
}

std::string cannot_stop(PfcDevice& device, const PfcClasses& classes, std::uint16_t max_tx_queues) {
  rte_eth_pfc_queue_info info{};
  if (const int result = device.info(info); result != 0) {
    return result == -ENOTSUP ? "its driver has no priority flow control by queue" : rte_strerror(-result);
  }
  if (info.mode_capa != RTE_ETH_FC_RX_PAUSE && info.mode_capa != RTE_ETH_FC_FULL) {
    return "it does not stop transmit queues by PFC";
  }
  const auto needed = static_cast<unsigned>(std::bit_width(classes.enabled));
  if (info.tc_max < needed) {
    return "it knows " + std::to_string(info.tc_max) + " classes; expected at least " + std::to_string(needed);
  }
  if (max_tx_queues < kClassTxQueues) return "it has fewer than eight transmit queues";
  return "";
}

std::string hand_over(PfcDevice& device, const PfcClasses& classes) {
  for (std::uint8_t tc = 0; tc < 8; ++tc) {
    if ((classes.enabled >> tc & 1) == 0) continue;
    rte_eth_pfc_queue_conf conf{};
    conf.mode = RTE_ETH_FC_RX_PAUSE;
    conf.rx_pause.tx_qid = classes.queue[tc];
    conf.rx_pause.tc = tc;
    if (const int result = device.configure(conf); result != 0) {
      return "the device refuses PFC of class " + std::to_string(tc) + ": " + rte_strerror(-result);
    }
  }
  return "";
}

std::uint64_t fastest_mbps(std::uint32_t speed_capa) noexcept {
  constexpr std::array<std::pair<std::uint32_t, std::uint64_t>, 11> kSpeeds{{{RTE_ETH_LINK_SPEED_200G, 200'000},
                                                                             {RTE_ETH_LINK_SPEED_100G, 100'000},
                                                                             {RTE_ETH_LINK_SPEED_56G, 56'000},
                                                                             {RTE_ETH_LINK_SPEED_50G, 50'000},
                                                                             {RTE_ETH_LINK_SPEED_40G, 40'000},
                                                                             {RTE_ETH_LINK_SPEED_25G, 25'000},
                                                                             {RTE_ETH_LINK_SPEED_20G, 20'000},
                                                                             {RTE_ETH_LINK_SPEED_10G, 10'000},
                                                                             {RTE_ETH_LINK_SPEED_5G, 5'000},
                                                                             {RTE_ETH_LINK_SPEED_2_5G, 2'500},
                                                                             {RTE_ETH_LINK_SPEED_1G, 1'000}}};
  const auto found = std::find_if(kSpeeds.begin(), kSpeeds.end(), [&](const auto& s) { return speed_capa & s.first; });
  return found == kSpeeds.end() ? 0 : found->second;
}

}  // namespace weft::ports
