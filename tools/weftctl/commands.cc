// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/commands.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "switch/api/client.h"
#include "tools/weftctl/bars.h"
#include "tools/weftctl/format.h"
#include "tools/weftctl/reload.h"
#include "tools/weftctl/sessions.h"

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;
using api::CallError;

}  // namespace

int fail(const CallError& error) {
  std::fprintf(stderr, "weftctl: %s\n", error.message.c_str());
  return error.kind == CallError::Kind::unreachable ? kExitUnreachable : kExitFailed;
}

// A full disk or a closed pipe must not look like success.
int print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kExitFine;
  std::fprintf(stderr, "weftctl: cannot write the output: %s\n", std::strerror(errno));
  return kExitFailed;
}

// Indented for people, one line for programs.
std::string json_text(const Json& value, const Screen& screen) {
  return value.dump(screen.terminal ? 2 : -1, ' ', false, Json::error_handler_t::replace) + '\n';
}

TableStyle style_of(const Options& options, const Screen& screen) {
  return {options.columns.value_or(screen.columns), options.thousands, kBarColumn};
}

namespace {

int run_about(const Options& options, api::Client& client) {
  api::ProcessInfo info;
  if (const auto error = client.about(info)) return fail(*error);
  info.facts["switches"] = info.switches;
  return print(options.json ? json_text(info.facts, screen_of_stdout()) : format_facts(info.facts));
}

int run_tables(const Options& options, api::Client& client) {
  std::vector<api::TableInfo> tables;
  if (const auto error = client.tables(tables)) return fail(*error);
  const Screen screen = screen_of_stdout();
  auto rows = Json::array();
  for (const auto& table : tables) rows.push_back({{"name", table.name}, {"summary", table.summary}});
  return print(options.json ? json_text(rows, screen)
                            : format_table(rows.get<std::vector<Json>>(), style_of(options, screen)));
}

// The texts of rows as an array, before they are parsed: what a program reads is what the switch sent.
std::string array_text(const std::vector<std::string>& rows, const Screen& screen) {
  std::string text = "[";
  for (const auto& row : rows) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += row;
  }
  text += rows.empty() ? "]\n" : "\n]\n";
  const Json parsed = screen.terminal ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
  return parsed.is_discarded() ? text : json_text(parsed, screen);
}

constexpr std::size_t kBarWidth = 24;

std::string table_text(const Options& options, const std::vector<std::string>& texts, bool switch_column,
                       const Screen& screen) {
  std::vector<Json> rows;
  rows.reserve(texts.size());
  for (const auto& text : texts) {
    Json row = Json::parse(text, nullptr, false);
    if (!row.is_object()) row = Json{{"unreadable", text}};
    if (!switch_column) row.erase("switch");
    rows.push_back(std::move(row));
  }
  std::string note;
  if (options.interval_s && screen.terminal && tells_occupancy(rows)) {
    const std::size_t idle = add_bars(rows, kBarWidth);
    if (idle != 0) note = "\n" + std::to_string(idle) + " more that never held a byte\n";
  }
  return format_table(rows, style_of(options, screen)) + note;
}

// The value of a key that names a port, or "".
std::string port_of(const Json& row) {
  return row.is_object() && row.contains("port") && row["port"].is_string() ? row["port"].get<std::string>() : "";
}

bool wanted_port(const Options& options, const Json& row) {
  if (options.ports.empty()) return true;
  const std::string port = port_of(row);
  const std::string whole = row.value("switch", "") + "/" + port;
  return std::any_of(options.ports.begin(), options.ports.end(),
                     [&](const std::string& name) { return name == port || name == whole; });
}

// Settings and addresses are numbers too, but do not count anything.
bool counts_something(const Json& row) {
  for (const auto& [key, value] : row.items()) {
    const bool setting = key == "mtu" || key == "worker" || key == "queue_limit" || key == "age_s" || key == "cpu";
    if (!setting && value.is_number() && value.get<double>() != 0) return true;
  }
  return false;
}

// Leaves the rows that the options ask for; says in `mistake` when no row names such a port.
void filter_rows(const Options& options, std::vector<std::string>& rows, std::string& mistake) {
  if (options.ports.empty() && !options.nonzero) return;
  std::vector<std::string> kept;
  bool named = false;
  for (auto& text : rows) {
    const Json row = Json::parse(text, nullptr, false);
    named = named || !port_of(row).empty();
    if (!row.is_object() || !wanted_port(options, row)) continue;
    if (options.nonzero && !counts_something(row)) continue;
    kept.push_back(std::move(text));
  }
  if (!options.ports.empty() && !rows.empty() && !named) mistake = "the rows of this table name no port";
  rows = std::move(kept);
}

// Asks once. Gives the text to print, or an exit status.
int ask(const Options& options, api::Client& client, const Screen& screen, std::string& text) {
  std::vector<std::string> rows;
  api::ShowSummary summary;
  // Drops of a port are a table of their own.
  const std::string table = options.table == "drops" && !options.ports.empty() ? "port_drops" : options.table;
  const api::Question question{table, options.switch_name, options.max_rows};
  const auto keep = [&rows](const std::string& row) { rows.push_back(row); };
  if (const auto error = client.show(question, keep, summary)) return fail(*error);
  std::string mistake;
  filter_rows(options, rows, mistake);
  if (!mistake.empty()) return fail({CallError::Kind::refused, "--port: " + mistake});
  const bool switch_column = options.switch_column || summary.switches.size() > 1;
  text = options.json ? array_text(rows, screen) : table_text(options, rows, switch_column, screen);
  if (summary.truncated) {
    std::fprintf(stderr, "weftctl: more rows exist than the %zu printed\n", rows.size());
  }
  return kExitFine;
}

// As much of the text as a screen of `rows` (0: unknown) has room for under the heading of watch().
std::string clipped(const std::string& text, unsigned rows) {
  constexpr unsigned kOtherLines = 3;  // heading, empty line, and the line that tells of the rest
  if (rows == 0) return text;
  std::size_t end = 0;
  for (unsigned line = kOtherLines; line < std::max(rows, kOtherLines + 1); ++line) {
    const std::size_t next = text.find('\n', end);
    if (next == std::string::npos) return text;
    end = next + 1;
  }
  return end == text.size() ? text : text.substr(0, end) + "... the screen is full";
}

int watch(const Options& options, api::Client& client) {
  const std::chrono::duration<double> interval(*options.interval_s);
  char heading[64];
  std::snprintf(heading, sizeof heading, "every %g s: ", *options.interval_s);
  while (true) {
    // Each time: the service ends connections after a while, and the user may have changed the size of the window.
    if (const auto error = connect(options, client)) return fail(*error);
    const Screen screen = screen_of_stdout();
    std::string text;
    if (const int status = ask(options, client, screen, text); status != kExitFine) return status;
    if (screen.terminal) {
      text = kHomeAndClear + (heading + options.table) + " (Ctrl-C ends)\n\n" + clipped(text, screen.rows);
    } else if (!options.json) {
      text += '\n';
    }
    if (const int status = print(text); status != kExitFine) return status;
    std::this_thread::sleep_for(interval);
  }
}

int run_clear(const Options& options, api::Client& client) {
  std::string text;
  const RequestOptions& what = options.request;
  if (const auto error = client.clear(what.tables, what.switch_name, text)) return fail(*error);
  return print((options.json ? Json{{"done", text}}.dump() : text) + "\n");
}

int run_set(const Options& options, api::Client& client) {
  std::string text;
  if (const auto error = client.set(options.request.set, text)) return fail(*error);
  return print((options.json ? Json{{"done", text}}.dump() : text) + "\n");
}

int run_stage(const Options& options, api::Client& client) {
  api::CommandResult result;
  if (const auto error = client.run_command(options.request.stage, result)) return fail(*error);
  const Screen screen = screen_of_stdout();
  if (options.json) {
    return print(result.done.empty() ? json_text(result.rows, screen) : Json{{"done", result.done}}.dump() + "\n");
  }
  if (!result.done.empty()) return print(result.done + "\n");
  // Whoever may run this command may not ask for all: then the column stays.
  api::ProcessInfo info;
  const bool one_switch = !client.about(info) && info.switches.size() == 1;
  std::vector<Json> rows(result.rows.begin(), result.rows.end());
  for (Json& row : rows) {
    if (one_switch) row.erase("switch");
  }
  return print(format_table(rows, style_of(options, screen)));
}

// "address=IP (required): which address", as the schema of the arguments has it.
std::string argument_text(const std::string& key, const Json& schema, const Json& required) {
  std::string text = key + "=";
  if (schema.contains("enum")) {
    std::string words;
    for (const auto& word : schema["enum"]) words += (words.empty() ? "" : "|") + word.get<std::string>();
    text += words;
  } else {
    text += schema.contains("type") && schema["type"].is_string() ? schema["type"].get<std::string>() : "...";
  }
  const bool needed = std::find(required.begin(), required.end(), key) != required.end();
  return needed ? text : "[" + text + "]";
}

int run_commands(const Options& options, api::Client& client) {
  std::vector<api::CommandInfo> commands;
  if (const auto error = client.commands(commands)) return fail(*error);
  auto rows = Json::array();
  for (const auto& command : commands) {
    std::string arguments;
    if (command.arguments.contains("properties") && command.verb != "set") {
      for (const auto& [key, schema] : command.arguments["properties"].items()) {
        arguments += (arguments.empty() ? "" : " ") +
                     argument_text(key, schema, command.arguments.value("required", Json::array()));
      }
    }
    rows.push_back({{"stage", command.stage},
                    {"verb", command.verb},
                    {"arguments", options.json ? command.arguments : Json(arguments)},
                    {"summary", command.summary}});
  }
  const Screen screen = screen_of_stdout();
  return print(options.json ? json_text(rows, screen)
                            : format_table(rows.get<std::vector<Json>>(), style_of(options, screen)));
}

int run_show(const Options& options, api::Client& client) {
  if (options.interval_s) return watch(options, client);
  std::string text;
  const int status = ask(options, client, screen_of_stdout(), text);
  return status == kExitFine ? print(text) : status;
}

}  // namespace

std::optional<CallError> connect(const Options& options, api::Client& client) {
  const auto time = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
  return options.address.empty() ? client.connect(options.socket, time)
                                 : client.connect_tls(options.address, options.files, time);
}

int run(const Options& options) {
  using Request = RequestOptions::Request;
  const Request request = options.request.command;
  if (request == Request::capture || request == Request::trace || request == Request::record) {
    return run_session(options);
  }
  api::Client client;
  if (const auto error = connect(options, client)) return fail(*error);
  switch (options.command) {
    case Command::about:
      return run_about(options, client);
    case Command::tables:
      return run_tables(options, client);
    case Command::commands:
      return run_commands(options, client);
    case Command::show:
      return run_show(options, client);
    case Command::diff:
      return run_diff(options, client);
    case Command::reload:
      return run_reload(options, client);
    case Command::request:
      break;
  }
  if (request == Request::clear) return run_clear(options, client);
  return request == Request::set ? run_set(options, client) : run_stage(options, client);
}

}  // namespace weft::weftctl
