// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A port on any DPDK ethernet device: PCI functions, and the virtual devices for veth, tap, memif, vhost-user, capture
// files and null.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "switch/pipeline/class_tx.h"
#include "switch/ports/capture_replay.h"
#include "switch/ports/capture_writer.h"
#include "switch/ports/netdev.h"
#include "switch/ports/packet_sockets.h"
#include "switch/ports/pfc_device.h"
#include "switch/ports/port.h"

namespace weft::ports {

/// Whether PFC is left to the device.
enum class PfcHardware : std::uint8_t {
  automatic,  ///< where the device can
  on,         ///< or the port does not open
  off,
};

/// How an EthPort opens its device.
struct EthDevice {
  std::string devargs;  ///< as after testpmd's `-a` or `--vdev`
  std::uint16_t rx_descriptors = 1024;
  std::uint16_t tx_descriptors = 1024;
  bool own_mac = false;         ///< the port's MAC address is the device's; otherwise it is derived
  bool set_device_mtu = false;  ///< tell the device the MTU (physical functions)
  bool takes_chains = false;    ///< the driver sends packets in several buffers although it does not say so
  bool tx_per_worker = false;   ///< as many transmit queues as there are workers, where the device has them
  bool real_speed = false;      ///< the speed that the device reports is one of a wire
  PfcHardware pfc_hardware = PfcHardware::off;
  std::shared_ptr<PfcDevice> pfc{};  ///< in the place of the device's own PFC, for tests
  /// Kernel interface whose packet sockets the driver has; its carrier is the port's link.
  std::optional<Netdev> interface {};
  /// Prepares that interface, which may be a new one of the same name. Gives it the MTU, or says which one it has when
  /// that is 0. Empty, or why not.
  std::function<std::string(std::uint32_t& mtu_bytes)> prepare{};
  std::shared_ptr<CaptureWriter> writer{};  ///< takes what is sent, in the place of the driver
  std::shared_ptr<CaptureReplay> replay{};  ///< gives what is received, in the place of the driver
  std::string name{};                       ///< of what the port is, in the place of the driver's
  std::function<void()> restore{};          ///< puts back what prepare() changed, when the port closes
  /// Packets that a capture file holds; the port is exhausted when they have been seen.
  std::optional<std::uint64_t> finite_packets{};
};

class EthPort : public Port, public pipeline::ClassTx {
 public:
  /// Opens, configures and starts the device. `error` is empty on success.
  static std::unique_ptr<EthPort> open(const pipeline::PortInfo& info, std::uint32_t mtu_bytes, EthDevice device,
                                       const PortEnvironment& environment, std::string& error);
  ~EthPort() override;

  [[nodiscard]] std::uint16_t rx_queues() const noexcept override { return queues_; }
  [[nodiscard]] bool brings_to_owners() const noexcept override { return brings_to_owners_; }
  std::uint16_t receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets, std::uint16_t max) noexcept override;
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override;
  [[nodiscard]] std::uint16_t tx_queues() const noexcept override { return by_class() ? std::uint16_t{1} : tx_queues_; }
  [[nodiscard]] pipeline::PortTx& tx(std::uint16_t worker) noexcept override {
    return senders_.empty() ? static_cast<PortTx&>(*this) : senders_[worker];
  }
  [[nodiscard]] bool finite() const noexcept override {
    return device_.replay ? device_.replay->finite() : device_.finite_packets.has_value();
  }
  [[nodiscard]] bool exhausted() const noexcept override;
  [[nodiscard]] TimeNs next_receive() const noexcept override {
    return device_.replay ? device_.replay->next() : kNever;
  }
  [[nodiscard]] bool link_up() const noexcept override;
  [[nodiscard]] std::uint64_t speed_mbps() const noexcept override;
  [[nodiscard]] int numa_node() const noexcept override { return rte_eth_dev_socket_id(id_); }
  [[nodiscard]] bool by_class() const noexcept override { return by_class_; }
  [[nodiscard]] DeviceStats device_stats() const noexcept override;
  [[nodiscard]] std::string set_link(bool up) override;
  [[nodiscard]] std::string set_mtu(const pipeline::PortInfo& info, std::uint32_t mtu_bytes) override;
  [[nodiscard]] std::vector<PortNews> supervise() override;
  [[nodiscard]] std::string finish() override;
  [[nodiscard]] std::string description() const override { return driver_; }

 private:
  /// In the place of a DPDK port's number while there is none.
  static constexpr std::uint16_t kClosed = RTE_MAX_ETHPORTS;

  // One transmit queue.
  class QueueTx : public pipeline::PortTx {
   public:
    QueueTx(EthPort& port, std::uint16_t queue) : port_(port), queue_(queue) {}
    pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
      return port_.transmit_on(queue_, packets, count);
    }

   private:
    EthPort& port_;
    std::uint16_t queue_;
  };

  EthPort(std::string name, EthDevice device, const PortEnvironment& environment)
      : name_(std::move(name)), device_(std::move(device)), environment_(environment) {}
  // Finds or makes the DPDK device, configures and starts it, and leaves it to the workers. Empty, or why not; then
  // none is open.
  [[nodiscard]] std::string open_device();
  // Takes the device from the workers and closes it. What it has counted stays counted.
  void close_device();
  // Closes a device that no worker knows.
  void give_up(std::uint16_t id);
  [[nodiscard]] std::string configure(std::uint16_t id);
  void forget_other_interfaces(std::uint16_t id) noexcept;
  [[nodiscard]] std::string attach();
  [[nodiscard]] DeviceStats counted_by_device() const noexcept;
  // Closes a device that is on its bus no more.
  void note_removed(std::vector<PortNews>& news);
  void note_detached(std::vector<PortNews>& news);
  void follow_mtu(std::vector<PortNews>& news);
  [[nodiscard]] std::string start(std::uint16_t id, const rte_eth_dev_info& device_info);
  // Decides about PFC before the device is configured, and has it heed pauses after.
  [[nodiscard]] std::string plan_pfc(std::uint16_t id, const rte_eth_dev_info& device_info);
  pipeline::TxResult transmit_by_class(rte_mbuf** packets, std::uint16_t count) noexcept;
  pipeline::TxResult transmit_on(std::uint16_t queue, rte_mbuf** packets, std::uint16_t count) noexcept;
  // Both free the chain when they succeed, and leave it alone when there is no buffer, or none that is large enough.
  [[nodiscard]] rte_mbuf* linearised(rte_mbuf* m) noexcept;
  [[nodiscard]] bool make_flat(rte_mbuf*& m) noexcept;

  std::string name_;  ///< of the port
  EthDevice device_;
  PortEnvironment environment_;
  std::atomic<std::uint16_t> id_{kClosed};  ///< of the device that the workers use; they look before each burst
  std::uint16_t queues_ = 1;
  bool brings_to_owners_ = false;
  std::uint16_t tx_queues_ = 1;
  bool by_class_ = false;         ///< a transmit queue is a class; otherwise it is a worker's
  std::vector<QueueTx> senders_;  ///< by worker; none with one transmit queue, or one for each class
  PfcClasses pfc_classes_{};
  bool multi_segment_ = false;
  std::string driver_;
  std::atomic<std::uint64_t> seen_{0};
  mutable std::mutex control_mutex_;  ///< over what follows: one thread may ask for counters while another supervises
  DeviceStats counted_before_{};      ///< by devices that are closed
  std::unique_ptr<PacketSockets> rings_;
  unsigned index_ = 0;                  ///< of the interface that the packet sockets are bound to
  std::uint32_t wanted_mtu_ = 0;        ///< of the configuration; 0: the interface's own
  std::atomic<bool> attached_{true};    ///< they are bound to the interface of that name
  std::string not_attached_because_{};  ///< what has been said about it
  bool said_that_writing_failed_ = false;
  bool said_that_replay_ended_ = false;
};

}  // namespace weft::ports
