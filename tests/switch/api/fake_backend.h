// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A process to show without switches in it: fixed tables with known rows.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "switch/api/backend.h"

namespace weft::api {

/// Answers the tables that a test puts in. A table is a function of the switch that is asked ("" for all).
class FakeBackend : public Backend {
 public:
  static constexpr const char* kNothing = "a fake switch does nothing";

  using Rows = nlohmann::ordered_json;
  using Table = std::function<Rows(const std::string& switch_name)>;

  std::vector<std::string> switches{"tor1"};
  std::map<std::string, Table> content;
  std::size_t asked_max_rows = 0;  ///< of the last show()
  std::string asked_path;          ///< of the last diff()
  ReloadResult changes;            ///< what diff() and reload() answer
  std::vector<CommandInfo> stage_commands;
  std::function<void()> in_reload = [] {};

  void add(const std::string& table, Rows rows) {
    content[table] = [rows = std::move(rows)](const std::string&) { return rows; };
  }

  [[nodiscard]] std::vector<TableInfo> tables() const override {
    std::vector<TableInfo> all;
    for (const auto& [name, rows] : content) all.push_back({name, "The " + name + " of a fake switch."});
    return all;
  }

  [[nodiscard]] std::vector<std::string> switch_names() const override { return switches; }

  [[nodiscard]] ShowResult show(const std::string& table, const std::string& switch_name,
                                std::size_t max_rows) override {
    asked_max_rows = max_rows;
    const Rows all = content.at(table)(switch_name);
    ShowResult result;
    for (const auto& row : all) {
      if (!switch_name.empty() && row.value("switch", switch_name) != switch_name) continue;
      result.truncated = result.rows.size() == max_rows;
      if (result.truncated) break;
      result.rows.push_back(row);
    }
    return result;
  }

  [[nodiscard]] ReloadResult diff(const std::string& path) override {
    asked_path = path;
    return changes;
  }
  [[nodiscard]] ReloadResult reload() override {
    in_reload();
    return changes;
  }

  // Nothing can be asked of it, unless a test says so.
  [[nodiscard]] SessionStart start_capture(const CaptureRequest& /*request*/) override { return {0, kNothing}; }
  [[nodiscard]] SessionStart start_trace(const TraceRequest& /*request*/) override { return {0, kNothing}; }
  [[nodiscard]] SessionStart start_record(const RecordRequest& /*request*/) override { return {0, kNothing}; }
  [[nodiscard]] SessionPart read_session(std::uint64_t /*id*/) override {
    return {"", true, "", 0, 0, 0, "there is no such session"};
  }
  [[nodiscard]] bool stop_session(std::uint64_t /*id*/) override { return false; }
  [[nodiscard]] Outcome clear(const std::vector<std::string>& /*tables*/, const std::string& /*name*/) override {
    return Outcome::refused(kNothing);
  }
  [[nodiscard]] Outcome set(const SetRequest& /*request*/) override { return Outcome::refused(kNothing); }
  [[nodiscard]] std::vector<CommandInfo> commands() const override { return stage_commands; }
  [[nodiscard]] bool checks_peer(const std::string& /*stage*/, const std::string& verb) const override {
    return verb == "agent";
  }
  [[nodiscard]] CommandResult run_command(const CommandRequest& /*request*/) override {
    CommandResult result;
    result.error = kNothing;
    return result;
  }

  [[nodiscard]] nlohmann::ordered_json about() const override {
    return {{"version", "0.1.0"}, {"pid", 4711}, {"uptime_s", 12}, {"workers", {1, 2}}};
  }
};

/// `count` rows of about 100 bytes.
inline FakeBackend::Rows numbered_rows(int count) {
  auto rows = FakeBackend::Rows::array();
  for (int i = 0; i < count; ++i) {
    rows.push_back({{"switch", "tor1"}, {"index", i}, {"text", std::string(64, 'x')}});
  }
  return rows;
}

}  // namespace weft::api
