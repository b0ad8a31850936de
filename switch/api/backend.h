// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the control service asks of a running switch process. The service and the command line know no stage: tables,
// and their columns, come from whoever owns the state.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "switch/api/requests.h"

namespace weft::api {

/// A table of `weftctl show`.
struct TableInfo {
  std::string name;     ///< ports, stages, drops, qps, fdb, routes, ...
  std::string summary;  ///< one sentence
};

/// Answer of Backend::show(): rows in the order to print, or why there are none.
struct ShowResult {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();  ///< objects; every row has "switch" first
  std::string error;       ///< empty when fine; otherwise what was wrong with the question, with the known names
  bool truncated = false;  ///< more rows exist than `max_rows`
};

/// Answer of Backend::diff() and reload().
struct ReloadResult {
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();  ///< rows, see change_row() in config_diff.h
  std::vector<std::string> mistakes{};  ///< why nothing is, or would be, applied: "file:line:col: sentence" where known
  std::vector<std::string> notes{};     ///< what is allowed and may surprise
  bool applied = false;                 ///< reload: the file is what runs now
};

/// Implemented by the process that runs switches. Every call may come from any thread and may take milliseconds; none
/// disturbs forwarding.
class Backend {
 public:
  virtual ~Backend() = default;

  /// All tables that any switch of the process offers.
  [[nodiscard]] virtual std::vector<TableInfo> tables() const = 0;
  [[nodiscard]] virtual std::vector<std::string> switch_names() const = 0;

  /// Rows of a table of one switch, or of all when `switch_name` is empty.
  [[nodiscard]] virtual ShowResult show(const std::string& table, const std::string& switch_name,
                                        std::size_t max_rows) = 0;
  /// The same, with counters as if nothing had been cleared.
  [[nodiscard]] virtual ShowResult show_uncleared(const std::string& table, const std::string& switch_name,
                                                  std::size_t max_rows) {
    return show(table, switch_name, max_rows);
  }

  /// What would change if the configuration file at `path`, absolute, took the place of the running configuration.
  [[nodiscard]] virtual ReloadResult diff(const std::string& path) = 0;
  /// Reads the process's configuration file again and applies what changed: all of it, or nothing.
  [[nodiscard]] virtual ReloadResult reload() = 0;

  /// Process facts: version, pid, uptime_s, configuration file, workers.
  [[nodiscard]] virtual nlohmann::ordered_json about() const = 0;

  /// Begin sessions. None disturbs forwarding for longer than a task between two bursts takes.
  [[nodiscard]] virtual SessionStart start_capture(const CaptureRequest& request) = 0;
  [[nodiscard]] virtual SessionStart start_trace(const TraceRequest& request) = 0;
  [[nodiscard]] virtual SessionStart start_record(const RecordRequest& request) = 0;
  /// Waits up to a quarter of a second for something to say.
  [[nodiscard]] virtual SessionPart read_session(std::uint64_t id) = 0;
  /// Makes the session end; what it still has can be read. False when there is no such session.
  [[nodiscard]] virtual bool stop_session(std::uint64_t id) = 0;

  /// Tables count from zero again for those who look at them; nothing else notices. Without names all that count.
  [[nodiscard]] virtual Outcome clear(const std::vector<std::string>& tables, const std::string& switch_name) = 0;
  [[nodiscard]] virtual Outcome set(const SetRequest& request) = 0;

  /// Verbs of the stages of the process, in the order of the pipeline.
  [[nodiscard]] virtual std::vector<CommandInfo> commands() const = 0;
  /// Whether a verb decides by CommandRequest::peer what it does, so that any client may run it.
  [[nodiscard]] virtual bool checks_peer(const std::string& stage, const std::string& verb) const = 0;
  /// Runs a verb. May take long; other calls go on meanwhile.
  [[nodiscard]] virtual CommandResult run_command(const CommandRequest& request) = 0;
};

}  // namespace weft::api
