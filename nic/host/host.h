// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// RNICs on a port, and the loop that runs them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nic/host/pauses.h"
#include "nic/host/port.h"
#include "nic/rnic/device.h"

namespace weft::nic {

/// The monotonic clock (CLOCK_MONOTONIC) as an RNIC's time. Any thread.
[[nodiscard]] Time monotonic_now() noexcept;

/// One port with any number of RNICs, each with an address of its own that the port's interface has as well. One
/// thread.
class Host {
 public:
  /// Opens an interface of the kernel; returns what went wrong, or an empty string.
  [[nodiscard]] std::string open(const std::string& interface);
  /// Takes a port that is open.
  void open(std::unique_ptr<Port> port) noexcept;
  /// Ends the RNICs and closes the port.
  void close() noexcept {
    by_address_.clear();
    devices_.clear();
    port_.reset();
  }

  /// Adds an RNIC; its MAC address is the interface's. The address must be one of the interface's, and no other RNIC's.
  Device& add_device(const wire::IpAddress& address, std::uint64_t seed, const CmConfig& cm = {});

  /// Handles what has arrived and what is due; then, unless there was something, sleeps until there is, at most
  /// `limit`.
  void run_once(std::chrono::nanoseconds limit);
  /// The two halves of run_once() that do not sleep, for who has work of his own in between: what receive() makes the
  /// RNICs answer leaves with what is posted meanwhile.
  void receive();
  /// What is due. False: there is no room in the interface's queue for all of it.
  bool send();
  /// run_once() until the condition holds or the time is over; tells whether it holds.
  bool run_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit);

  /// The open port.
  [[nodiscard]] Port& port() noexcept { return *port_; }
  [[nodiscard]] const Port& port() const noexcept { return *port_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Device>>& devices() const noexcept { return devices_; }
  [[nodiscard]] std::uint64_t unclaimed() const noexcept { return unclaimed_; }
  /// What the switch at the other end of the port has asked to hold back.
  [[nodiscard]] const Pauses& pauses() const noexcept { return pauses_; }

 private:
  /// False: there was nothing.
  bool take_in(Time now);
  /// @param next  when something is due at the latest
  bool send(Time now, Time& next);
  void dispatch(Time now, std::span<const std::uint8_t> frame);
  void heed_pauses(Time now) noexcept;

  std::unique_ptr<Port> port_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<wire::IpAddress, Device*> by_address_;
  Pauses pauses_;
  std::uint64_t paused_dscps_ = 0;  ///< as the devices know it
  std::uint64_t unclaimed_ = 0;     ///< frames for an address that no RNIC has
};

}  // namespace weft::nic
