// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What weft-sim was asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/exit_status.h"

namespace weft::sim {

struct Options {
  enum class Command : std::uint8_t { run, sweep };
  Command command = Command::run;
  std::string file;
  std::vector<std::string> sets;  ///< key=value; --seed N is seed=N, behind the others
  std::string json;
  std::string html;
  std::string pcap_link;
  std::string pcap_file = "weft-sim.pcap";
  std::string folder;
  unsigned jobs = 0;
  unsigned threads = 1;
  bool force = false;
  bool trace_hash = false;
  bool quiet = false;
};

/// nullopt when there is nothing to do any more: help was asked for, or a mistake was reported on standard error.
[[nodiscard]] std::optional<Options> parse_command_line(int argc, const char* const* argv, int& exit_code);

}  // namespace weft::sim
