// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Arguments of weft-flow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::flow {

struct Options {
  enum class Command : std::uint8_t { run, sweep, explain };
  Command command = Command::run;
  std::string file;
  std::vector<std::string> sets;  ///< key=value; --seed N is seed=N, behind the others
  std::string json, html, folder;
  std::string job;  ///< of explain: a name; "" for all
  unsigned jobs = 0;
  bool trace_hash = false, quiet = false;
};

/// nullopt when there is nothing to do any more: help was asked for, or a mistake was reported on standard error.
[[nodiscard]] std::optional<Options> parse_command_line(int argc, const char* const* argv, int& exit_code);

}  // namespace weft::flow
