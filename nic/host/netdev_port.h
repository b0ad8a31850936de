// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A network interface as an RNIC's port, beside the kernel's own stack: frames to UDP port 4791 come in through a
// packet socket, all others stay the kernel's, which also keeps ARP, neighbour discovery and ping. The interface may be
// a veth, a tap or a real one. Needs CAP_NET_RAW.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nic/rnic/frame.h"
#include "switch/wire/addresses.h"

struct mmsghdr;
struct iovec;

namespace weft::nic {

/// What the kernel knows of an interface.
struct InterfaceInfo {
  unsigned index = 0;
  wire::MacAddress mac{};
  std::uint32_t mtu = 0;
  std::vector<wire::IpAddress> addresses;  ///< IPv4 first, link-local ones last
};
/// nullopt when there is no such Ethernet interface.
[[nodiscard]] std::optional<InterfaceInfo> find_interface(const std::string& name);
/// Names of Ethernet interfaces that are up and have an IPv4 or global IPv6 address.
[[nodiscard]] std::vector<std::string> usable_interfaces();

/// An open file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Descriptor& operator=(Descriptor&& o) noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct NetdevCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_kernel_drops = 0;  ///< the socket's buffer was full
  std::uint64_t rx_truncated = 0;     ///< longer than the MTU allows: offloads are on somewhere
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_busy = 0;    ///< times the interface took nothing, for a while
  std::uint64_t tx_errors = 0;  ///< frames that it refused
};

/// Sends and receives RoCE frames in bursts. Not thread-safe.
class NetdevPort : public TxSink {
 public:
  NetdevPort();
  ~NetdevPort() override;
  NetdevPort(const NetdevPort&) = delete;
  NetdevPort& operator=(const NetdevPort&) = delete;

  /// Opens an interface; returns what went wrong, or an empty string.
  [[nodiscard]] std::string open(const std::string& interface);
  [[nodiscard]] const InterfaceInfo& info() const noexcept { return info_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Frames that have arrived; good until the next call.
  std::span<const std::span<const std::uint8_t>> receive() noexcept;
  [[nodiscard]] bool ready() noexcept override { return queued_ < kBurst; }
  void send(const TxFrame& frame) noexcept override;
  /// Hands what send() collected to the kernel. False when some of it has to wait.
  bool flush() noexcept;
  /// Waits for frames, or for room if there are frames to send; at most `ns`, without end when negative.
  void wait(std::int64_t ns) noexcept;

  [[nodiscard]] NetdevCounters counters() noexcept;

 private:
  static constexpr std::size_t kBurst = 64;

  [[nodiscard]] std::string configure_socket();
  [[nodiscard]] std::string silence_kernel();

  std::string name_;
  InterfaceInfo info_;
  Descriptor socket_;
  std::vector<Descriptor> silencers_;
  std::size_t room_ = 0;  ///< bytes per frame
  std::vector<std::uint8_t> rx_memory_, tx_memory_;
  std::vector<mmsghdr> rx_headers_, tx_headers_;
  std::vector<iovec> rx_pieces_, tx_pieces_;
  std::array<std::span<const std::uint8_t>, kBurst> received_{};
  std::size_t queued_ = 0;
  NetdevCounters counters_;
};

}  // namespace weft::nic
