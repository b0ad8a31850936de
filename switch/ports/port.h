// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a worker and the control plane know of a device: receive, transmit, link, counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/switch_info.h"

namespace weft::ports {

/// Counters that only the device has. Packets counted here never reached weft, or left it and were lost after.
struct DeviceStats {
  std::uint64_t rx_missed = 0;   ///< lost because weft was too slow
  std::uint64_t rx_errors = 0;   ///< broken or truncated frames
  std::uint64_t rx_no_mbuf = 0;  ///< lost because no packet buffer was left
  std::uint64_t tx_errors = 0;   ///< taken from weft and not sent
  /// Of the kernel's interface behind the port, when there is one: what the kernel dropped on the way in (frames larger
  /// than the interface's MTU, for one) and on the way out. Not in the counts above.
  std::uint64_t kernel_rx_dropped = 0;
  std::uint64_t kernel_tx_dropped = 0;
};

/// Something that an operator should read about a port.
struct PortNews {
  bool warning = false;
  std::string text;
};

/// Who has shut a port. It is open when nobody has.
enum class ShutBy : std::uint8_t {
  command = 1,  ///< an operator or a scheduled fault
  kernel = 2,   ///< its interface in the kernel was taken down
};

/// One device. receive() is called by the workers that poll its queues, transmit() by those that send (tx_queues()),
/// the rest by the control thread.
class Port : public pipeline::PortTx {
 public:
  /// Number of receive queues; the port's owner polls the first, and the workers behind it the others.
  [[nodiscard]] virtual std::uint16_t rx_queues() const noexcept { return 1; }

  /// Packets between IPv4 addresses come through the queue of the worker that they belong to by pipeline::RssWorkers.
  [[nodiscard]] virtual bool brings_to_owners() const noexcept { return false; }

  /// Up to `max` packets from a queue.
  [[nodiscard]] virtual std::uint16_t receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets,
                                              std::uint16_t max) noexcept = 0;

  /// Transmit queues that workers may use at the same time: worker i has queue i. 1: the port's owner alone sends.
  [[nodiscard]] virtual std::uint16_t tx_queues() const noexcept { return 1; }
  /// What a worker sends through, below tx_queues(); with one queue the port itself.
  [[nodiscard]] virtual pipeline::PortTx& tx(std::uint16_t /*worker*/) noexcept { return *this; }

  /// When the next packet comes, where a port knows that beforehand; otherwise kNever. Any thread.
  [[nodiscard]] virtual TimeNs next_receive() const noexcept { return kNever; }

  /// True when no packet will ever come again (the end of a capture file). Inputs that never end say false.
  [[nodiscard]] virtual bool exhausted() const noexcept { return false; }
  /// True when the input has an end at all.
  [[nodiscard]] virtual bool finite() const noexcept { return false; }

  [[nodiscard]] virtual bool link_up() const noexcept { return true; }
  /// Mbit/s that the link runs at, or at most can run at while it is down; 0 where nobody knows. Virtual devices name a
  /// speed that means nothing: of them nobody knows.
  [[nodiscard]] virtual std::uint64_t speed_mbps() const noexcept { return 0; }
  /// NUMA node of the device; negative where nobody knows, or it has none.
  [[nodiscard]] virtual int numa_node() const noexcept { return -1; }
  [[nodiscard]] virtual DeviceStats device_stats() const noexcept { return {}; }
  /// Packets inside the device that neither side has counted yet (the cable of a link).
  [[nodiscard]] virtual std::uint64_t in_flight() const noexcept { return 0; }
  /// One word or two on what it is: driver name, peer.
  [[nodiscard]] virtual std::string description() const = 0;

  /// Takes the link down for whoever is at its other end, or brings it up again. Empty, or why it stays as it is.
  /// Control thread.
  [[nodiscard]] virtual std::string set_link(bool /*up*/) { return "a port of this type has no link to take down"; }

  /// Shuts the port, or opens it again for one of those who may: a shut port has no link where the device can do that,
  /// and receives and sends nothing. Empty, or why the link stays as it is; then, for ShutBy::command, nothing has
  /// changed. Control thread.
  [[nodiscard]] std::string shut(ShutBy who, bool shut);
  [[nodiscard]] bool is_shut() const noexcept { return shut_.load(std::memory_order_relaxed) != 0; }
  /// The port has a link and nobody has shut it.
  [[nodiscard]] bool is_up() const noexcept { return !is_shut() && link_up(); }

  /// Looks after the device: makes good what events of its link left behind, notices an interface that went away, and
  /// follows its MTU. Where one of the same name comes back, the port opens it. Call now and then, and after each event
  /// of the kernel's about an interface. Control thread.
  [[nodiscard]] virtual std::vector<PortNews> supervise() { return {}; }
  /// Writes what the port has taken and still holds in memory. Empty, or why some of what was sent is not where it
  /// belongs. When no worker transmits any more.
  [[nodiscard]] virtual std::string finish() { return ""; }

  /// Changes the MTU of an open device. Empty, or why it stays as it is. Control thread.
  [[nodiscard]] virtual std::string set_mtu(const pipeline::PortInfo& /*info*/, std::uint32_t mtu_bytes) {
    mtu_bytes_ = mtu_bytes;
    return "";
  }

  [[nodiscard]] wire::MacAddress mac() const noexcept { return mac_; }
  /// Largest IP packet; follows the device's interface.
  [[nodiscard]] std::uint32_t mtu_bytes() const noexcept { return mtu_bytes_.load(std::memory_order_relaxed); }

 protected:
  wire::MacAddress mac_{};
  std::atomic<std::uint32_t> mtu_bytes_{4200};

 private:
  std::atomic<std::uint8_t> shut_{0};  ///< of ShutBy
};

/// What it takes to open devices.
struct PortEnvironment {
  rte_mempool* pool = nullptr;  ///< of the worker that polls the port where only one does
  std::uint16_t workers = 1;
  std::uint64_t seed = 1;
  const qos::PortSettings* qos = nullptr;  ///< of the port, where the switch has class queues
  /// Returns when no worker is in a burst that it began before the call. Workers that look at a port only between calls
  /// of this function need none.
  std::function<void()> await_bursts{};
  /// Of the workers that poll its queues where several do, by queue; empty: all have `pool`.
  std::vector<rte_mempool*> queue_pools{};
  /// Workers that are to poll the port, if its device can receive through so many queues; nullopt: all, if it can.
  std::optional<std::uint16_t> per_port{};
  std::uint16_t owner = 0;  ///< the worker that owns the port
};

/// Address of a port that has none: locally administered, and the same after a restart of the same configuration.
[[nodiscard]] wire::MacAddress derived_mac(const pipeline::PortInfo& info, std::uint64_t seed) noexcept;

/// Bytes of a frame that fit into one packet buffer behind its headroom.
[[nodiscard]] std::uint32_t buffer_bytes(rte_mempool* pool) noexcept;
/// Why a port whose frames must lie in one buffer cannot be opened, and what the user can do.
[[nodiscard]] std::string too_large_for_buffers(const std::string& what, rte_mempool* pool);

/// A port, or the sentence that says why not.
struct OpenedPort {
  std::unique_ptr<Port> port;
  std::string error;
};

/// Opens the device of a port of any type but `link`. PortInfo::mtu_bytes of 0 asks for the device's own MTU.
[[nodiscard]] OpenedPort open_port(const pipeline::PortInfo& info, const PortEnvironment& environment);

}  // namespace weft::ports
