// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An RNIC on an interface as the commands use it.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nic/host/host.h"
#include "tools/weft-rnic/options.h"

namespace weft::rnic_tool {

/// Why a command ends early. The message is for people.
struct Failure {
  int exit_status = kExitFailed;
  std::string message;
};

/// True once Ctrl-C or SIGTERM has come; run_until() ends then.
[[nodiscard]] bool interrupted() noexcept;
void catch_signals();

class Session {
 public:
  /// Opens the interface and makes an RNIC.
  std::optional<Failure> open(Options& options);

  [[nodiscard]] nic::Host& host() noexcept { return host_; }
  [[nodiscard]] nic::Device& device() noexcept { return *device_; }
  [[nodiscard]] nic::Pd pd() const noexcept { return pd_; }

  /// Runs until the condition holds, a signal comes or the time is over; tells whether it holds.
  bool run_until(const std::function<bool()>& condition, double seconds);
  /// Connects a queue pair to the server of the options; `answer` gets the private data of the REP.
  std::optional<Failure> connect(const Options& options, nic::Qp& qp, std::span<const std::uint8_t> private_data,
                                 nic::CmEvent& answer);
  /// Ends the connections that connect() made, and lets the messages leave.
  void disconnect_all();

 private:
  std::optional<Failure> choose_interface(Options& options);
  std::optional<Failure> find_server(const Options& options, nic::CmTarget& target);

  nic::Host host_;
  nic::Device* device_ = nullptr;
  nic::Pd pd_{};
  std::optional<nic::CmTarget> target_;
  std::vector<nic::CmId> connections_;
};

/// Counters of a queue pair, as --json has them.
[[nodiscard]] nlohmann::ordered_json describe(nic::Qp& qp);

}  // namespace weft::rnic_tool
