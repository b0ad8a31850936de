// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Verbs that a stage type offers to operators and programs: weftctl STAGE VERB key=value...
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"

namespace weft::pipeline {

class Stage;
class StageShared;

/// One stage of one running switch, as a command reaches it. Nothing is locked between two calls: a command may take
/// its time, and neither tables, captures nor other commands wait for it.
class StageAccess {
 public:
  virtual ~StageAccess() = default;

  /// The switch, with the options of its stages, as it was when the command began.
  [[nodiscard]] virtual const SwitchInfo& info() const = 0;
  [[nodiscard]] virtual std::uint16_t workers() const = 0;

  /// Runs `task` on the worker with its instance of the stage, between two bursts, and waits for it. Packets wait as
  /// well: the task is short, and does not allocate, block or log more than it must.
  /// @return false, without a call, when a reload has replaced the stage since the command began; end the command then
  [[nodiscard]] virtual bool on_worker(std::uint16_t worker, const std::function<void(Stage&)>& task) = 0;

  /// Runs `task` here with the state that all workers share, which no reload replaces meanwhile; the same result. False
  /// too when the stage shares no state.
  [[nodiscard]] virtual bool with_shared(const std::function<void(StageShared&)>& task) = 0;
};

/// A verb of a stage type.
struct StageCommand {
  std::string verb;          ///< lower case; `set` is the verb of StageType::set and no other's
  std::string summary;       ///< one sentence, for help
  config::Schema arguments;  ///< a map; words key=value are read by it, and defaults filled in
  /// Does it, on a thread of the control service, for one switch. Gives rows (JSON objects with equal keys, possibly
  /// none), or a sentence in `error`. Commands of one process may run at the same time.
  std::function<nlohmann::ordered_json(StageAccess& stage, const config::Value& arguments, std::string& error)> run;
  /// The argument that a word without `=` gives; empty: none.
  std::string word{};
};

}  // namespace weft::pipeline
