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
#include "switch/ports/unmap_guard.h"
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
  Session() = default;
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Opens the interface or device and makes an RNIC for each address.
  std::optional<Failure> open(Options& options);

  [[nodiscard]] nic::Host& host() noexcept { return host_; }
  /// The RNIC of number `i`, round and round.
  [[nodiscard]] nic::Device& device(std::size_t i = 0) noexcept {
    const auto& all = host_.devices();
    return *all[i % all.size()];
  }
  /// Every RNIC has one protection domain; they have the same number.
  [[nodiscard]] nic::Pd pd() const noexcept { return pd_; }

  /// Runs until the condition holds, a signal comes or the time is over; tells whether it holds.
  bool run_until(const std::function<bool()>& condition, double seconds);
  /// Where frames to the server of the options go: waits for its neighbour's address.
  std::optional<Failure> find_server(const Options& options, nic::CmTarget& target);
  /// Connects a queue pair of an RNIC to the server of the options; `answer` gets the private data of the REP.
  std::optional<Failure> connect(const Options& options, nic::Device& device, nic::Qp& qp,
                                 std::span<const std::uint8_t> private_data, nic::CmEvent& answer);
  /// Ends the connections that connect() made, and lets the messages leave.
  void disconnect_all();

 private:
  std::optional<Failure> choose_interface(Options& options);
  std::optional<Failure> open_device(Options& options);
  std::optional<Failure> our_addresses(const Options& options, std::vector<wire::IpAddress>& all) const;
  std::optional<Failure> choose_mtu(Options& options, bool ipv6) const;

  struct Connection {
    nic::Device* device;
    nic::CmId id;
  };
  nic::Host host_;
  bool dpdk_ = false;
  std::optional<ports::UnmapGuard> unmap_guard_;
  nic::Pd pd_{};
  std::optional<nic::CmTarget> target_;
  std::vector<Connection> connections_;
};

/// Counters of a queue pair, as --json has them.
[[nodiscard]] nlohmann::ordered_json describe(nic::Qp& qp);

}  // namespace weft::rnic_tool
