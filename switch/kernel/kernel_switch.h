// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch/kernel/kernel_path.h"
#include "switch/kernel/kernel_tables.h"
#include "switch/pipeline/switch_state.h"

namespace weft::kernel {

/// The kernel as the control plane of one switch: an interface for every port, with its MAC address, MTU and carrier,
/// and packets between the two. A router's interfaces have the addresses of the configuration, and its tables are as
/// the kernel's are; through a bridge's go link-local control frames (LLDP, LACP) only.
class KernelSwitch {
 public:
  /// Creates the interfaces. nullptr, and the reason, when that is not possible.
  /// @param info  with SwitchInfo::kernel and the MAC addresses and MTUs of the ports
  /// @param pool  for packets of the kernel
  /// @param clock  of the workers
  /// @param previous  whose place the new one will take, or nullptr: interfaces of the same name and namespace are
  ///                  shared with it, and stay as they are until attach()
  [[nodiscard]] static std::unique_ptr<KernelSwitch> open(const pipeline::SwitchInfo& info, rte_mempool* pool,
                                                          const Clock& clock, const KernelSwitch* previous,
                                                          std::string& error);

  /// Fills the tables of a switch, which has the ports of `info` and forwards nothing yet, so that it knows all routes
  /// when it does. May take as long as reading the kernel's tables.
  void prepare(pipeline::SwitchState& state);
  /// After prepare(), and stop() of the previous one: changes shared interfaces as the new configuration says, and
  /// starts the threads for this switch, which outlives the next stop().
  void attach(pipeline::SwitchState& state);
  /// What somebody has changed at the kernel's interface of a port: `up` is false after `ip link set PORT down`, which
  /// shuts the port; `mtu_bytes` is set when it is another one than at the last call, or than set_mtu() gave it.
  /// nullopt when the interface is gone. Control thread.
  struct Wishes {
    bool up = true;
    std::optional<std::uint32_t> mtu_bytes{};
  };
  [[nodiscard]] std::optional<Wishes> wishes(pipeline::PortIndex port);
  /// The port has this MTU now: the interface gets it, and next hops, once SwitchState has it. Control thread.
  void set_mtu(pipeline::PortIndex port, std::uint32_t mtu_bytes);
  /// Ends the threads. The interfaces stay, without an answer to anything.
  void stop();

 private:
  struct Interface {
    std::shared_ptr<const Tap> tap{};
    wire::MacAddress mac{};
    std::uint32_t mtu_bytes = 0;
    std::vector<wire::IpPrefix> addresses{};  ///< of the configuration
  };
  KernelSwitch() = default;
  [[nodiscard]] std::string open_interfaces(const pipeline::SwitchInfo& info, const KernelSwitch* previous);
  void adjust(const Interface& was, const Interface& is);

  std::string namespace_;
  std::vector<Interface> interfaces_;             ///< by PortIndex
  std::vector<std::optional<Interface>> before_;  ///< by PortIndex: how shared ones are, until attach()
  NetlinkSocket requests_;
  std::unique_ptr<KernelTables> tables_;
  std::unique_ptr<KernelPath> path_;
};

}  // namespace weft::kernel
