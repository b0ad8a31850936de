// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager's file: its own access, its store, and the topology.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collectives/manager/discovery.h"
#include "collectives/manager/etcd_client.h"
#include "collectives/manager/manager.h"
#include "switch/config/schema/schema.h"
#include "switch/config/tls_files.h"

namespace weft::inc::manager {

/// How to reach the control service of a switch.
struct SwitchAccess {
  std::string socket;      ///< path of a unix socket; "": by TCP
  std::string address;     ///< HOST:PORT
  config::TlsFiles files;  ///< of TCP
  std::string name;        ///< of the switch in its process
};

struct TcpControl {
  std::string address;
  std::uint16_t port = 0;
  config::TlsFiles files;
};

struct ManagerConfig {
  std::string socket;             ///< of the manager's own service
  std::optional<TcpControl> tcp;  ///< where it listens, too
  std::string store;              ///< path of the database
  std::optional<EtcdPlace> etcd;  ///< the store in place of the database
  ManagerOptions options;
  StatedFabric stated;
  bool discovers = false;            ///< links come by LLDP, too
  Fabric fabric;                     ///< of what is stated
  std::vector<SwitchAccess> access;  ///< by NodeId; of hosts empty
};

[[nodiscard]] config::Schema manager_schema();
/// The configuration in `text`, or nullopt and every mistake with its position.
[[nodiscard]] std::optional<ManagerConfig> load_manager_config(const std::string& text, const std::string& file,
                                                               config::Diagnostics& diagnostics);

}  // namespace weft::inc::manager
