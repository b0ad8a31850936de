// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The command line of weftctl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/exit_status.h"
#include "switch/config/tls_files.h"
#include "tools/weftctl/request_options.h"

namespace weft::weftctl {

inline constexpr const char* kDefaultSocket = "/run/weft/weft.sock";

using config::ExitStatus;
using enum config::ExitStatus;

enum class Command : std::uint8_t { about, tables, commands, show, diff, reload, request };

/// A valid command line.
struct Options {
  Command command = Command::about;
  std::string socket = kDefaultSocket;
  std::string address;     ///< HOST:PORT of a service on another machine; empty: the socket
  config::TlsFiles files;  ///< what to show and what to accept there
  bool json = false;
  double timeout_s = 30;            ///< for one answer
  std::optional<unsigned> columns;  ///< width of tables; absent: the terminal's; 0: no limit
  bool thousands = false;
  std::string table;                 ///< show
  std::string lookup;                ///< show route: an address
  std::string file;                  ///< diff
  std::string switch_name;           ///< show; empty: all
  bool switch_column = false;        ///< show: also when there is only one switch
  std::uint64_t max_rows = 0;        ///< show; 0: all
  std::vector<std::string> ports;    ///< show: rows of these ports; empty: all
  bool nonzero = false;              ///< show: only rows that count something
  std::optional<double> interval_s;  ///< show: again and again
  RequestOptions request;            ///< which request, and what it asks
};

/// Reads the command line. When there is nothing to run (a mistake, --help, --version), prints what there is to say and
/// gives the exit status instead.
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace weft::weftctl
