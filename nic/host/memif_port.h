// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Shared memory with a switch in another process as an RNIC's port: a client of memif (version 2.0), whose server is a
// port of weft-switch (type memif, role server), VPP or another one. No DPDK: what comes wakes whoever polls a
// descriptor. A tap interface beside it is the kernel's, for ARP, neighbour discovery, ping and TCP.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nic/host/kernel_tap.h"
#include "nic/host/port.h"

namespace weft::nic {

struct MemifPortConfig {
  std::string socket;      ///< path of the server's unix socket
  std::uint32_t id = 0;    ///< of the port at that socket
  std::string interface;   ///< name of the tap, which %d gives a number
  wire::IpPrefix address;  ///< of the tap, and of the RNICs
  std::uint32_t mtu = 4200;
};

class MemifPort : public Port {
 public:
  MemifPort();
  ~MemifPort() override;
  MemifPort(const MemifPort&) = delete;
  MemifPort& operator=(const MemifPort&) = delete;

  /// Connects to the server, which has to be there, and makes the tap. Returns what went wrong, or an empty string.
  /// Needs CAP_NET_ADMIN.
  [[nodiscard]] std::string open(const MemifPortConfig& config);

  std::span<const std::span<const std::uint8_t>> receive() noexcept override;
  [[nodiscard]] bool ready() noexcept override;
  void send(const TxFrame& frame) noexcept override;
  bool flush() noexcept override;
  void wait(std::int64_t ns) noexcept override;
  /// The server is there. One that went away is looked for each second.
  [[nodiscard]] bool link_up() noexcept override { return connected_; }
  [[nodiscard]] PortCounters counters() noexcept override { return counters_; }
  /// For whoever waits for other things, too: readable when something has come, from the server or the kernel.
  [[nodiscard]] int descriptor() const noexcept { return poll_.get(); }

 private:
  static constexpr std::size_t kBurst = 64;
  struct Ring;
  class Handshake;

  /// @param limit_ns  so long all of the server's answers may take
  [[nodiscard]] std::string connect(std::int64_t limit_ns);
  [[nodiscard]] std::string make_memory();
  [[nodiscard]] std::string make_descriptors();
  void reset_rings() noexcept;
  void give_back(std::uint16_t count) noexcept;
  [[nodiscard]] std::span<const std::uint8_t> copy_of(std::uint16_t at, std::size_t number) noexcept;
  void look_at_server() noexcept;
  void lose_server() noexcept;
  void take_from_kernel() noexcept;
  [[nodiscard]] Ring& ring(std::size_t which) const noexcept;
  [[nodiscard]] std::uint8_t* buffer(std::size_t which, std::uint16_t slot) const noexcept;
  /// Room for a frame that leaves; null when the ring is full.
  [[nodiscard]] std::uint8_t* room() noexcept;
  void append(std::size_t bytes) noexcept;

  MemifPortConfig config_;
  Descriptor socket_, memory_fd_, poll_;
  std::array<Descriptor, 2> events_;  ///< of the rings, by direction
  std::uint8_t* memory_ = nullptr;    ///< shared with the server, who may write anything at any time
  std::size_t bytes_ = 0, buffer_bytes_ = 0;
  KernelTap tap_;
  RocePortClaim claim_;
  std::vector<std::uint8_t> kernel_frame_;
  bool connected_ = false;
  std::uint16_t tx_head_ = 0;  ///< frames that have been written, shown or not
  std::uint16_t rx_tail_ = 0;  ///< frames that were read
  bool in_parts_ = false;      ///< the next one belongs to a frame that is passed over
  std::vector<std::uint8_t> copies_;
  std::array<std::span<const std::uint8_t>, kBurst> received_{};
  std::int64_t next_look_ = 0;
  unsigned polls_ = 0;
  PortCounters counters_;
};

}  // namespace weft::nic
