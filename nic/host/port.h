// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What RNICs are attached to: frames in and out, in bursts, and a way to sleep until there is something.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nic/host/interface.h"
#include "nic/rnic/frame.h"

namespace weft::nic {

/// All only grow.
struct PortCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_missed = 0;     ///< lost before we saw them: a ring or a buffer was full
  std::uint64_t rx_truncated = 0;  ///< longer than the MTU allows: offloads are on somewhere
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_busy = 0;    ///< times the device took nothing, for a while
  std::uint64_t tx_errors = 0;  ///< frames that it refused
};

/// A port. Gives RoCE and MAC control frames (PAUSE, PFC) only; all others are the kernel's. Not thread-safe.
class Port : public TxSink {
 public:
  /// The kernel's interface that has the RNICs' addresses; without one its index is 0.
  [[nodiscard]] const InterfaceInfo& info() const noexcept { return info_; }
  /// Reads the kernel's interface again.
  void refresh_info() {
    if (const auto now = find_interface(name_)) info_ = *now;
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Frames that have arrived; good until the next call.
  virtual std::span<const std::span<const std::uint8_t>> receive() noexcept = 0;
  /// Hands over what send() collected. False when some of it has to wait.
  virtual bool flush() noexcept = 0;
  /// Waits for frames, or for room if there are frames to send; at most `ns`, without end when negative. May return
  /// early.
  virtual void wait(std::int64_t ns) noexcept = 0;
  /// True while somebody is at the other end, as far as the port can tell.
  [[nodiscard]] virtual bool link_up() noexcept = 0;
  [[nodiscard]] virtual PortCounters counters() noexcept = 0;

 protected:
  std::string name_;
  InterfaceInfo info_;
};

}  // namespace weft::nic
