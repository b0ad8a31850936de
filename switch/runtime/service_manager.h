// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the process tells systemd about itself (sd_notify(3)), and the watchdog of the workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/base/time.h"

namespace weft {

/// A moment of the process, as Runtime::health() sees it.
struct Health {
  std::vector<std::uint64_t> worker_loops;  ///< loops that each worker has finished
  std::size_t ports = 0;
  std::size_t ports_up = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t dropped = 0;
};

/// Finds workers that hang: a worker finishes a loop every millisecond or more often, whether there are packets or not.
class WorkerWatch {
 public:
  /// Looks; the first worker that has finished no loop since the look before, or nothing when all have (or this is the
  /// first look).
  [[nodiscard]] std::optional<std::size_t> look(const std::vector<std::uint64_t>& worker_loops);

 private:
  std::vector<std::uint64_t> before_;
};

/// Speaks to the service manager that started the process; to nobody when none did. Main thread.
class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET and WATCHDOG_USEC from the environment.
  ServiceManager();

  /// It forwards.
  void ready();
  /// It reads its configuration again; ready() ends that.
  void reloading();
  /// It drains and ends.
  void stopping();

  /// Call often: says how things stand every few seconds, and that all is well a few times per watchdog period, unless
  /// a worker hangs. Then it stops saying so, and the manager restarts the process.
  void tick(TimeNs now, const Health& health);
  /// When tick() next has something to do.
  [[nodiscard]] TimeNs next_tick() const noexcept;

 private:
  void watch(const Health& health);
  void tell(TimeNs now, const Health& health);

  bool watchdog_ = false;
  TimeNs watch_period_;
  TimeNs next_watch_ = 0;
  TimeNs next_status_ = 0;
  WorkerWatch workers_;
  std::optional<std::size_t> hung_;
  Health told_;  ///< what the last status was about
  TimeNs told_at_ = 0;
};

/// "4 of 4 ports up, 1.25 Mpps received, 0 pps dropped".
[[nodiscard]] std::string status_text(const Health& before, const Health& now, TimeNs elapsed);

}  // namespace weft
