// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>
#include <string>

#include "switch/kernel/kernel_path.h"
#include "switch/kernel/kernel_tables.h"
#include "switch/pipeline/switch_state.h"

namespace weft::kernel {

/// The kernel as the control plane of one switch: an interface for every port, with its MAC address, MTU and carrier,
/// and the addresses of the configuration; packets between the two; the switch's tables as the kernel's are.
class KernelSwitch {
 public:
  /// Creates the interfaces. nullptr, and the reason, when that is not possible.
  /// @param info  with SwitchInfo::kernel and the MAC addresses and MTUs of the ports
  /// @param pool  for packets of the kernel
  /// @param clock  of the workers
  [[nodiscard]] static std::unique_ptr<KernelSwitch> open(const pipeline::SwitchInfo& info, rte_mempool* pool,
                                                          const Clock& clock, std::string& error);

  /// Starts the threads for this switch, which has the ports of `info` and outlives the next stop(); ends them first
  /// when they run for another one. The kernel notices nothing of that.
  void attach(pipeline::SwitchState& state);
  /// Ends the threads. The interfaces stay, without an answer to anything.
  void stop();

 private:
  KernelSwitch() = default;

  std::unique_ptr<KernelTables> tables_;
  std::unique_ptr<KernelPath> path_;
};

}  // namespace weft::kernel
