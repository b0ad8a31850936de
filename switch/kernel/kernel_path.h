// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Carries packets between the workers' rings and the kernel's interfaces, and questions about neighbours to the kernel.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "switch/kernel/kernel_tables.h"
#include "switch/kernel/netlink_socket.h"
#include "switch/kernel/tap.h"
#include "switch/pipeline/switch_state.h"
#include "switch/stages/l3/shared.h"

namespace weft::kernel {

/// Copies a frame into packet buffers; nullptr when there are none.
[[nodiscard]] rte_mbuf* to_packet(std::span<const std::uint8_t> frame, rte_mempool* pool);
/// Copies a packet's bytes into `frame`; returns how many, 0 when there is not enough room.
[[nodiscard]] std::size_t to_frame(const rte_mbuf* m, std::span<std::uint8_t> frame);

/// A thread. Workers cannot wake it (they make no system calls), so it looks at their rings each 2 ms, and ten times as
/// often for a while after there was something.
class KernelPath {
 public:
  /// @param taps  by PortIndex
  KernelPath(std::vector<std::shared_ptr<const Tap>> taps, PortByIndex ports, rte_mempool* pool, Clock clock);
  ~KernelPath() { stop(); }
  KernelPath(const KernelPath&) = delete;
  KernelPath& operator=(const KernelPath&) = delete;

  /// In the namespace of the taps. Empty, or what went wrong.
  [[nodiscard]] std::string open() { return questions_.open({}); }
  /// `state`, and `rings` and `l3`, which are its, outlive this or the next stop().
  /// @param l3  learns neighbours; nullptr: the switch is a bridge, through which the kernel's link-local control
  /// frames
  ///            leave and nothing else
  void start(pipeline::SwitchState& state, stages::L3Kernel& rings, stages::L3Shared* l3);
  void stop();

 private:
  void run(pipeline::SwitchState& state, stages::L3Kernel& rings, stages::L3Shared* l3);
  std::uint32_t to_kernel(stages::L3Kernel& rings, std::uint16_t worker);
  std::uint32_t from_kernel(const pipeline::SwitchState& state, stages::L3Kernel& rings, pipeline::PortIndex port,
                            bool control_only);
  std::uint32_t pass_questions(stages::L3Kernel& rings, std::uint16_t worker);
  void ask(const stages::L3Kernel::Question& question);
  void take_answers(stages::L3Shared& l3);
  void mirror_links(const pipeline::SwitchState& state, bool all);

  Clock clock_;
  std::vector<std::shared_ptr<const Tap>> taps_;
  PortByIndex ports_;
  rte_mempool* pool_;
  NetlinkSocket questions_;
  std::vector<bool> carrier_;
  std::vector<std::uint8_t> frame_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

}  // namespace weft::kernel
