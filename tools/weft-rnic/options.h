// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The command line of weft-rnic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nic/rnic/config.h"
#include "switch/config/exit_status.h"

namespace weft::rnic_tool {

using config::ExitStatus;
using enum config::ExitStatus;

enum class Command : std::uint8_t { serve, write_bw, send_bw, read_bw, write_lat, send_lat, verify, rping, inc };

struct Options {
  Command command = Command::serve;
  std::string interface;  ///< empty: the way to the server, or the only one; with a device: the tap's name
  std::string device;     ///< DPDK device string; empty: a network interface
  std::uint32_t device_mtu = 4200;
  std::vector<std::string> addresses;  ///< our own, an RNIC for each; empty: the interface's first
  std::string server;                  ///< empty: be the server
  std::uint16_t port = 18515;
  std::uint32_t size = 65536;
  std::uint64_t iterations = 5000;
  double duration_s = 0;  ///< 0: by iterations
  std::uint32_t qps = 1;
  std::uint32_t depth = 128;
  bool report_gbits = false;
  bool json = false;
  bool verbose = false;
  bool validate = false;          ///< rping
  bool persistent = false;        ///< rping
  std::optional<double> watch_s;  ///< progress
  std::uint64_t connections = 0;  ///< serve: end after so many; 0: never
  double timeout_s = 10;          ///< without any progress
  // Of a rank of collectives.
  std::uint32_t rank = 0, ranks = 0;
  std::uint32_t group = 0;
  std::uint32_t message_packets = 4, window = 4;  ///< as the group has them
  std::string primitive = "all";
  std::string element = "uint32";  ///< type of elements
  bool write_imm = false;          ///< data goes by RDMA WRITE with immediate, not by SEND
  bool group_per_root = false;     ///< a group for what has no root, and one for each root of Reduces and of Broadcasts
  bool unchecked = false;          ///< what is in memory is sent, and what comes is compared with nothing
  int root = -1;                   ///< -1: another one each time
  nic::QpConfig qp;                ///< path_mtu 0 until the interface is known
};

/// Reads the command line. When there is nothing to run (a mistake, --help, --version), prints what there is to say and
/// gives the exit status instead.
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace weft::rnic_tool
