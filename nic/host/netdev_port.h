// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A network interface as an RNIC's port, beside the kernel's own stack: frames to UDP port 4791 come in through a
// packet socket, all others stay the kernel's, which also keeps ARP, neighbour discovery and ping. The interface may be
// a veth, a tap or a real one. Needs CAP_NET_RAW.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nic/host/port.h"

struct mmsghdr;
struct iovec;

namespace weft::nic {

/// Sends and receives RoCE frames of an interface in bursts.
class NetdevPort : public Port {
 public:
  NetdevPort();
  ~NetdevPort() override;
  NetdevPort(const NetdevPort&) = delete;
  NetdevPort& operator=(const NetdevPort&) = delete;

  /// Opens an interface; returns what went wrong, or an empty string.
  [[nodiscard]] std::string open(const std::string& interface);

  std::span<const std::span<const std::uint8_t>> receive() noexcept override;
  [[nodiscard]] bool ready() noexcept override { return queued_ < kBurst; }
  void send(const TxFrame& frame) noexcept override;
  bool flush() noexcept override;
  void wait(std::int64_t ns) noexcept override;
  /// The carrier of the interface.
  [[nodiscard]] bool link_up() noexcept override;
  [[nodiscard]] PortCounters counters() noexcept override;
  /// For whoever waits for other things, too: readable when frames have arrived.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

 private:
  static constexpr std::size_t kBurst = 64;

  [[nodiscard]] std::string configure_socket();

  Descriptor socket_;
  RocePortClaim claim_;
  std::size_t room_ = 0;  ///< bytes per frame
  std::vector<std::uint8_t> rx_memory_, tx_memory_;
  std::vector<mmsghdr> rx_headers_, tx_headers_;
  std::vector<iovec> rx_pieces_, tx_pieces_;
  std::array<std::span<const std::uint8_t>, kBurst> received_{};
  std::size_t queued_ = 0;
  PortCounters counters_;
};

}  // namespace weft::nic
