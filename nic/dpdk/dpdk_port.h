// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A DPDK device as an RNIC's port.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nic/host/kernel_tap.h"
#include "nic/host/port.h"

struct rte_mbuf;
struct rte_mempool;

namespace weft::nic {

struct DpdkPortConfig {
  /// A device string of DPDK: "net_memif0,role=client,socket=/run/x.sock,...", "0000:3b:00.1", ...
  std::string devargs;
  std::uint32_t mtu = 4200;  ///< of IP packets; carries RoCE with a path MTU of 4096
};

/// The device string of a memif whose other end, the server, is another process: weft-switch's port type memif with
/// `role: server`. nullopt when the path has characters that would end it, ',' or '='.
[[nodiscard]] std::optional<std::string> memif_device(const std::string& socket, unsigned id);

/// Polls a device for frames and sends to it, one queue each way. RoCE frames (UDP port 4791) are given to the RNICs,
/// all others to the kernel's tap interface, if there is one, whose frames are sent in turn.
class DpdkPort : public Port {
 public:
  DpdkPort();
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  /// Opens the device; DPDK runs (start_eal()). Returns what went wrong, or an empty string.
  [[nodiscard]] std::string open(const DpdkPortConfig& config);
  /// Makes the kernel's interface beside it, with these addresses. Returns what went wrong, or an empty string.
  [[nodiscard]] std::string add_kernel_tap(const std::string& name, std::span<const wire::IpPrefix> addresses);

  std::span<const std::span<const std::uint8_t>> receive() noexcept override;
  [[nodiscard]] bool ready() noexcept override { return queued_ < kBurst; }
  void send(const TxFrame& frame) noexcept override;
  bool flush() noexcept override;
  void wait(std::int64_t ns) noexcept override;
  [[nodiscard]] bool link_up() noexcept override;
  [[nodiscard]] PortCounters counters() noexcept override;

  /// Returns when no burst is under way that began before the call. Any thread: what a driver that takes its rings away
  /// on another thread has to wait for.
  void await_burst() const noexcept;

  /// Frames that went to the kernel, and that came from it.
  [[nodiscard]] std::uint64_t to_kernel() const noexcept { return to_kernel_; }
  [[nodiscard]] std::uint64_t from_kernel() const noexcept { return from_kernel_; }

 private:
  static constexpr std::size_t kBurst = 64;

  [[nodiscard]] std::string configure();
  void free_received() noexcept;
  void take_from_kernel() noexcept;
  /// Room for a frame at the end of the queue; null when there is no buffer.
  std::uint8_t* append(std::size_t bytes) noexcept;
  void reconnect(std::int64_t now) noexcept;

  DpdkPortConfig config_;
  std::uint16_t id_;
  bool open_ = false, started_ = false;
  std::atomic<bool> bursting_{false};
  bool memif_client_ = false;
  rte_mempool* pool_ = nullptr;
  KernelTap tap_;
  RocePortClaim claim_;
  bool with_tap_ = false;
  std::vector<std::uint8_t> kernel_frame_;
  std::array<rte_mbuf*, kBurst> rx_{}, tx_{};
  std::size_t received_count_ = 0, queued_ = 0;
  std::array<std::span<const std::uint8_t>, kBurst> received_{};
  unsigned polls_ = 0;           ///< since the kernel was last asked
  std::int64_t idle_since_ = 0;  ///< monotonic clock; 0: not idle
  std::int64_t down_since_ = 0;  ///< or since the last attempt to connect; 0: not down
  std::uint64_t to_kernel_ = 0, from_kernel_ = 0;
  PortCounters counters_;
};

}  // namespace weft::nic
