// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/reload.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "tools/weftctl/commands.h"
#include "tools/weftctl/format.h"

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;

Json texts(const std::vector<std::string>& lines) {
  Json out = Json::array();
  for (const auto& line : lines) out.push_back(line);
  return out;
}

// Columns that say nothing in any row are left out.
std::string table_of(const Options& options, const Json& changes) {
  std::vector<Json> rows(changes.begin(), changes.end());
  for (const char* key : {"switch", "key", "refused"}) {
    bool said = false;
    for (const Json& row : rows) said = said || row.value(key, "") != "";
    for (Json& row : rows) {
      if (!said) row.erase(key);
    }
  }
  return rows.empty() ? "nothing changes\n" : format_table(rows, style_of(options, screen_of_stdout()));
}

// Changes go to stdout, mistakes and notes to stderr.
int answer(const Options& options, const api::ReloadResult& result, const char* verdict) {
  const bool fine = result.mistakes.empty();
  if (options.json) {
    const Json all{{"changes", result.changes},
                   {"mistakes", texts(result.mistakes)},
                   {"notes", texts(result.notes)},
                   {"applied", result.applied}};
    const int status = print(json_text(all, screen_of_stdout()));
    return status == kExitFine && !fine ? kExitFailed : status;
  }
  if (const int status = print(fine || !result.changes.empty() ? table_of(options, result.changes) : "");
      status != kExitFine) {
    return status;
  }
  for (const auto& line : result.notes) std::fprintf(stderr, "%s\n", line.c_str());
  for (const auto& line : result.mistakes) std::fprintf(stderr, "%s\n", line.c_str());
  if (!fine) std::fprintf(stderr, "weftctl: %s\n", verdict);
  return fine ? kExitFine : kExitFailed;
}

}  // namespace

int run_diff(const Options& options, api::Client& client) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(options.file, error).string();
  api::ReloadResult result;
  if (const auto refused = client.diff(path, result)) return fail(*refused);
  return answer(options, result, "the running switch could not take this file");
}

int run_reload(const Options& options, api::Client& client) {
  api::ReloadResult result;
  if (const auto refused = client.reload(result)) return fail(*refused);
  return answer(options, result, "refused, nothing has changed");
}

}  // namespace weft::weftctl
