// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The commands of weftctl.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "switch/api/client.h"
#include "tools/weftctl/format.h"
#include "tools/weftctl/options.h"
#include "tools/weftctl/screen.h"

namespace weft::weftctl {

/// Connects to the service that the options name.
[[nodiscard]] std::optional<api::CallError> connect(const Options& options, api::Client& client);

/// Runs the command: the answer goes to stdout, all else to stderr. Returns the exit status.
[[nodiscard]] int run(const Options& options);

// What commands share.

/// Says why there is no answer; returns the exit status.
[[nodiscard]] int fail(const api::CallError& error);
/// Writes to stdout; returns the exit status.
[[nodiscard]] int print(std::string_view text);
/// Indented for people, one line for programs.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, const Screen& screen);
[[nodiscard]] TableStyle style_of(const Options& options, const Screen& screen);

}  // namespace weft::weftctl
