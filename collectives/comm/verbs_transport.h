// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// RDMA devices of the kernel, by libibverbs: ConnectX, Soft-RoCE and others that speak RoCE v2.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/transport.h"
#include "collectives/comm/verbs_library.h"

namespace weft::inc::comm {

class VerbsTransport final : public RunningTransport {
 public:
  /// @param verbs  outlives it
  explicit VerbsTransport(const Verbs& verbs) noexcept : verbs_(verbs) {}
  ~VerbsTransport() override;
  VerbsTransport(const VerbsTransport&) = delete;
  VerbsTransport& operator=(const VerbsTransport&) = delete;

  /// Opens a device at the port that has the address among its GIDs of RoCE v2.
  /// @param device   its name, "mlx5_0", or with a port, "mlx5_0:2"
  /// @param address  nullopt: the first IPv4 address; where there is none the first IPv6 one that is not link-local
  /// @return what went wrong, in words, or an empty string
  [[nodiscard]] std::string open(const std::string& device, const std::optional<wire::IpAddress>& address);

  [[nodiscard]] std::uint32_t largest_mtu() const override { return largest_mtu_; }
  [[nodiscard]] std::unique_ptr<QueuePair> create_qp(const QpSettings& settings) override;
  [[nodiscard]] std::uint32_t register_memory(const void* data, std::size_t bytes) override;
  void forget(std::uint32_t key) override;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Gid gid() const override { return {address_, gid_index_, port_}; }
  [[nodiscard]] std::vector<Gid> gids() const override;
  /// Devices of mlx5 count them; rdma_rxe does not.
  [[nodiscard]] std::optional<std::uint64_t> icrc_errors() const override;
  /// The device runs by itself.
  void receive() override {}
  void flush() override {}
  [[nodiscard]] bool may_wait() override;
  [[nodiscard]] int descriptor() const override { return channel_->fd; }
  [[nodiscard]] nic::Time next_deadline() const override { return nic::kNever; }

 private:
  class Queue;
  class Pair;
  [[nodiscard]] std::string open_device(const std::string& name);
  /// The entries of the tables of all ports; a negative number of errno.h where the device does not tell them.
  [[nodiscard]] ssize_t read_gids(std::vector<ibv_gid_entry>& out) const;
  [[nodiscard]] std::string choose_gid(std::uint32_t port, const std::optional<wire::IpAddress>& address);
  [[nodiscard]] std::string look_at_port();
  [[nodiscard]] std::string make_domain();

  const Verbs& verbs_;
  std::string name_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  std::uint32_t port_ = 0, gid_index_ = 0, largest_mtu_ = 0;
  wire::IpAddress address_{};
  std::map<std::uint32_t, ibv_mr*> regions_;  ///< by key
  std::vector<Queue*> unarmed_;               ///< whose next completion makes no event
};

}  // namespace weft::inc::comm
