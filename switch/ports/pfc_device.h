// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PFC that a network interface card does itself: it stops a transmit queue when the peer pauses its class, sooner than
// any program could. What weft keeps is to tell the peer to pause, because only weft knows how full its buffer is.
#pragma once

#include <rte_ethdev.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::ports {

/// What is asked of a device: DPDK's queue-based priority flow control. Tests have devices of their own.
class PfcDevice {
 public:
  virtual ~PfcDevice() = default;
  /// 0, or a negative error number: -ENOTSUP where the device has none.
  [[nodiscard]] virtual int info(rte_eth_pfc_queue_info& info) = 0;
  [[nodiscard]] virtual int configure(const rte_eth_pfc_queue_conf& conf) = 0;
};

/// That of an open DPDK port.
[[nodiscard]] std::unique_ptr<PfcDevice> make_pfc_device(std::uint16_t port_id);

/// Classes that are lossless by PFC, and the queue of each.
struct PfcClasses {
  std::uint8_t enabled = 0;  ///< bit i: traffic class i
  std::array<std::uint8_t, 8> queue{};
};

inline constexpr std::uint16_t kClassTxQueues = 8;

/// Whether a device with so many transmit queues can stop those of the classes by itself. Empty, or why not.
[[nodiscard]] std::string cannot_stop(PfcDevice& device, const PfcClasses& classes, std::uint16_t max_tx_queues);
/// Has the device heed pauses: transmit queue i carries class queue i. Between configuring and starting it.
/// @return empty, or what the device says against it
[[nodiscard]] std::string hand_over(PfcDevice& device, const PfcClasses& classes);

/// The fastest of a device's speeds (RTE_ETH_LINK_SPEED_*), in Mbit/s; 0 when it names none.
[[nodiscard]] std::uint64_t fastest_mbps(std::uint32_t speed_capa) noexcept;

}  // namespace weft::ports
