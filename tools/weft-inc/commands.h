// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the commands of weft-inc do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/manager/client.h"
#include "switch/config/exit_status.h"
#include "tools/weft-inc/rhythm.h"

namespace weft::inc_tool {

using config::ExitStatus;
using enum config::ExitStatus;

struct Options {
  std::string socket = "/run/weft/inc-manager.sock";
  std::string address;     ///< HOST:PORT of a manager on another machine, or several with commas; empty: the socket
  config::TlsFiles files;  ///< of it
  bool json = false;
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  std::vector<std::string> hosts;  ///< names or addresses
  std::string svg;                 ///< path; empty: text
  bool hold = false;
  double interval_s = 1;    ///< of top
  std::uint64_t count = 0;  ///< how often top prints; 0: without end
  // Of the agent of a switch:
  std::string node;                 ///< the switch
  std::string lldpcli = "lldpcli";  ///< the program
  std::string lldp_socket;          ///< of lldpd; empty: its own
  std::string control;              ///< socket of the weft-switch that hears itself; empty: lldpd does
  double period_s = 10;
  bool once = false;
  // Of a group; `rate_mbps` of the agent, too:
  std::string mode, prefer;
  std::uint32_t mtu = 0, message_packets = 0, window = 0, least_window = 0, rate_mbps = 0;
  bool reproducible = false;
  Rhythm rhythm;  ///< of explain
};

// Each connects by itself, prints to standard output, and gives the exit status.
int create_group(const Options& options);
int list_groups(const Options& options);
int show_group(const Options& options);
int explain_group(const Options& options);
int destroy_group(const Options& options);
int explain_hosts(const Options& options);
int show_topology(const Options& options);
int show_top(const Options& options);
int run_agent(const Options& options);

/// Connects to the manager, or one of them.
/// @param first  which of several is asked first
/// @return why it cannot
[[nodiscard]] std::optional<std::string> reach(const Options& options, inc::manager::Client& client,
                                               std::chrono::milliseconds call_time, std::size_t first = 0);
/// The same; false: it cannot, and has said so.
[[nodiscard]] bool connect(const Options& options, inc::manager::Client& client);
/// Text for weft_inc_options, which has nullptr where nothing was given. Valid as long as the text.
[[nodiscard]] inline const char* given(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}
/// Prints an error.
int fail(const std::string& sentence, ExitStatus status);

}  // namespace weft::inc_tool
