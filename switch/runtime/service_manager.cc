// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/service_manager.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdio>

#include "switch/system/clock.h"

namespace weft {
namespace {

constexpr TimeNs kStatusPeriodNs = 5'000'000'000;
// Without a watchdog a worker that hangs is still worth a line in the log.
constexpr TimeNs kWatchPeriodNs = 10'000'000'000;
// Looks in a watchdog period: one that comes late does no harm.
constexpr TimeNs kLooks = 3;

std::string rate_text(std::uint64_t packets, TimeNs elapsed) {
  double rate = elapsed == 0 ? 0 : static_cast<double>(packets) * 1e9 / static_cast<double>(elapsed);
  const char* unit = "pps";
  if (rate >= 1e6) {
    rate /= 1e6;
    unit = "Mpps";
  } else if (rate >= 1e3) {
    rate /= 1e3;
    unit = "kpps";
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.3g %s", rate, unit);
  return text;
}

}  // namespace

std::optional<std::size_t> WorkerWatch::look(const std::vector<std::uint64_t>& worker_loops) {
  std::optional<std::size_t> hung;
  for (std::size_t w = 0; w < std::min(before_.size(), worker_loops.size()); ++w) {
    if (worker_loops[w] == before_[w] && !hung) hung = w;
  }
  before_ = worker_loops;
  return hung;
}

std::string status_text(const Health& before, const Health& now, TimeNs elapsed) {
  return std::to_string(now.ports_up) + " of " + std::to_string(now.ports) + " ports up, " +
         rate_text(now.rx_packets - before.rx_packets, elapsed) + " received, " +
         rate_text(now.dropped - before.dropped, elapsed) + " dropped";
}

ServiceManager::ServiceManager() : watch_period_(kWatchPeriodNs) {
  std::uint64_t period_us = 0;
  watchdog_ = sd_watchdog_enabled(0, &period_us) > 0;
  if (watchdog_) watch_period_ = static_cast<TimeNs>(period_us) * 1000 / kLooks;
}

void ServiceManager::ready() {
  sd_notify(0, "READY=1\nSTATUS=forwarding");
}

void ServiceManager::reloading() {
  const std::string text =
      "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_now() / kUs) + "\nSTATUS=reading the configuration";
  sd_notify(0, text.c_str());
}

void ServiceManager::stopping() {
  sd_notify(0, "STOPPING=1\nSTATUS=sending what is held");
}

TimeNs ServiceManager::next_tick() const noexcept {
  return std::min(next_watch_, next_status_);
}

void ServiceManager::tick(TimeNs now, const Health& health) {
  if (now >= next_watch_) {
    watch(health);
    next_watch_ = now + watch_period_;
  }
  if (now >= next_status_) {
    tell(now, health);
    next_status_ = now + kStatusPeriodNs;
  }
}

void ServiceManager::watch(const Health& health) {
  const auto hung = workers_.look(health.worker_loops);
  if (hung && hung != hung_) {
    spdlog::error("worker {} has finished no loop for {} ms{}", *hung, watch_period_ / 1'000'000,
                  watchdog_ ? ": the watchdog will end the process" : "");
  }
  if (!hung && hung_) spdlog::warn("worker {} runs again", *hung_);
  hung_ = hung;
  if (watchdog_ && !hung) sd_notify(0, "WATCHDOG=1");
}

void ServiceManager::tell(TimeNs now, const Health& health) {
  if (told_at_ != 0) sd_notify(0, ("STATUS=" + status_text(told_, health, now - told_at_)).c_str());
  told_ = health;
  told_at_ = now;
}

}  // namespace weft
