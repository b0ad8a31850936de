// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The command lines of capture, trace, clear and set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "switch/control/operator.h"

namespace CLI {
class App;
}

namespace weft::weftctl {

/// What the command line of these commands holds.
struct OperateOptions {
  enum class Command : std::uint8_t { none, capture, trace, clear, set };
  Command command = Command::none;
  control::CaptureRequest capture{};
  control::TraceRequest trace{};
  std::string file{};  ///< capture: "-" is stdout
  std::vector<std::string> tables{};
  control::SetRequest set{};
  std::string switch_name{};

  // As written; read by finish_operate().
  std::vector<std::string> psns{};
  double duration_s = 0;
};

/// Adds the commands to the command line.
void add_operate_commands(CLI::App& app, OperateOptions& options);

/// After the command line was read: what CLI11 could not check. A sentence, or nothing.
[[nodiscard]] std::optional<std::string> finish_operate(OperateOptions& options);

}  // namespace weft::weftctl
