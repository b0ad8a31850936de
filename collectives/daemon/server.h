// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The socket of weft-incd, its processes, and their leases. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "collectives/daemon/leases.h"
#include "collectives/daemon/manager_calls.h"
#include "nic/host/interface.h"

namespace weft::inc::daemon {

class Server final : private Orders {
 public:
  static constexpr std::size_t kMaxClients = 1024;

  explicit Server(ManagerPlace manager);
  ~Server() override;

  /// Listens at `path`, which is removed first if nobody answers there. What went wrong, in words, or an empty string.
  /// @param mode  of the socket: who may use it
  [[nodiscard]] std::string listen(const std::string& path, unsigned mode);
  /// Runs until `stop` is readable. Groups of processes that still are connected stay: they hold them when a daemon is
  /// back before their leases end.
  void run(int stop);

 private:
  void create(ClientId client, const comm::CreateGroup& request) override;
  void renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) override;
  void destroy(const GroupName& name) override;
  void explain(ClientId client, const GroupName& name) override;
  void tell(ClientId client, const comm::DaemonMessage& message) override;
  void accept();
  /// False: the process is gone, or says what it must not.
  bool hear(ClientId client, int fd);
  void take_results();
  void cut_off();

  std::string path_;
  nic::Descriptor listener_;
  nic::Descriptor ready_;  ///< eventfd: calls have results
  std::map<ClientId, nic::Descriptor> clients_;
  std::vector<ClientId> dead_;  ///< to be cut off
  ClientId last_ = 0;
  Leases leases_{*this};
  std::optional<ManagerCalls> calls_;
};

}  // namespace weft::inc::daemon
