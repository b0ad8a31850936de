// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft's own RNIC, in the process, on a network interface of the kernel or a memif port of a switch.
#pragma once

#include <memory>
#include <string>

#include "collectives/comm/transport.h"
#include "nic/host/host.h"
#include "nic/host/memif_port.h"
#include "nic/host/netdev_port.h"

namespace weft::inc::comm {

class RnicTransport final : public RunningTransport {
 public:
  /// Opens the interface that has the address. Needs CAP_NET_RAW, and CAP_NET_ADMIN to find neighbours.
  /// @param address  one of this network namespace's; nullopt: the first of `interface`
  /// @param interface  empty: the one that has the address, or the only one that is up
  /// @return what went wrong, in words, or an empty string
  [[nodiscard]] std::string open(const std::optional<wire::IpAddress>& address, const std::string& interface);

  /// Connects to a memif port of weft-switch, and makes an interface of the kernel beside it.
  [[nodiscard]] std::string open_memif(const nic::MemifPortConfig& config);

  [[nodiscard]] std::uint32_t largest_mtu() const override;
  [[nodiscard]] std::unique_ptr<QueuePair> create_qp(const QpSettings& settings) override;
  [[nodiscard]] std::uint32_t register_memory(const void* data, std::size_t bytes) override;
  void forget(std::uint32_t key) override;

  [[nodiscard]] const std::string& name() const override { return port_->name(); }
  [[nodiscard]] Gid gid() const override { return {device_->config().address}; }
  [[nodiscard]] std::vector<Gid> gids() const override;
  [[nodiscard]] std::optional<std::uint64_t> icrc_errors() const override { return device_->counters().icrc_errors; }
  void receive() override { host_.receive(); }
  void flush() override { static_cast<void>(host_.send()); }
  [[nodiscard]] bool may_wait() override { return true; }
  [[nodiscard]] int descriptor() const override { return descriptor_; }
  [[nodiscard]] nic::Time next_deadline() const override { return device_->next_deadline(); }

 private:
  class Pair;
  /// The MAC address of a next hop, if the kernel has it.
  [[nodiscard]] std::optional<wire::MacAddress> mac_of(const wire::IpAddress& gateway);

  nic::Host host_;
  void use(std::unique_ptr<nic::Port> port, int descriptor, const wire::IpAddress& address);

  nic::Port* port_ = nullptr;
  int descriptor_ = -1;
  nic::Device* device_ = nullptr;
  nic::Pd pd_{};
  struct {
    wire::IpAddress gateway{};
    wire::MacAddress mac{};
    nic::Time until = 0;
  } last_;  ///< next hop that was found
};

}  // namespace weft::inc::comm
