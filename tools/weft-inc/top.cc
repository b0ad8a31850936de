// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tools/weft-inc/activity.h"
#include "tools/weft-inc/commands.h"
#include "tools/weftctl/format.h"
#include "tools/weftctl/screen.h"

namespace weft::inc_tool {

using inc::v1::ShowActivityReply;
using nlohmann::ordered_json;

namespace {

/// False: nobody reads what is printed any more.
bool print(const Options& options, std::vector<ordered_json> rows) {
  if (options.json) {
    std::puts(ordered_json{{"groups", rows}}.dump().c_str());
    return std::fflush(stdout) == 0;
  }
  // For people three digits will do.
  for (ordered_json& row : rows) {
    for (const char* key : {"collectives_per_s", "mbytes_per_s", "still_s"}) {
      char text[32];
      if (!row[key].is_number()) continue;
      std::snprintf(text, sizeof text, "%.3g", row[key].get<double>());
      row[key] = ordered_json::parse(text);
    }
  }
  const std::size_t width = weftctl::screen_of_stdout().columns;
  if (width > 0) std::printf("%severy %g s (Ctrl-C ends)\n\n", weftctl::kHomeAndClear, options.interval_s);
  std::printf("%s%s", weftctl::format_table(rows, {.width = width}).c_str(), width > 0 ? "" : "\n");
  return std::fflush(stdout) == 0;
}

}  // namespace

int show_top(const Options& options) {
  std::optional<ShowActivityReply> before;
  for (std::uint64_t printed = 0;;) {
    // Each time anew: the manager ends connections that grow old.
    inc::manager::Client client;
    if (!connect(options, client)) return kExitUnreachable;
    ShowActivityReply now;
    if (const auto error = client.activity(now)) return fail(*error, kExitUnreachable);
    if (before) {
      if (!print(options, activity_rows(now, &*before))) return kExitFine;
      if (++printed == options.count) return kExitFine;
    }
    before = std::move(now);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  }
}

}  // namespace weft::inc_tool
