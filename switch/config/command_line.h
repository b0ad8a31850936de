// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What programs say about a command line that CLI11 does not take.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "switch/config/exit_status.h"

namespace weft::config {

/// What is wrong, in one sentence without a stop. Of a word that nobody expected, what may have been meant: a command,
/// or an option of the command. `app` has parsed, and `error` is what it threw.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error);

/// "PROGRAM: SENTENCE; PROGRAM COMMAND --help explains\n", or without the hint where the sentence has a suggestion. The
/// program's name is that of `app`.
[[nodiscard]] std::string refusal(const CLI::App& app, const CLI::ParseError& error);

/// Prints what was asked for by --help or --version on standard output, or the refusal on standard error. Returns the
/// exit status: kExitFine or kExitUsage.
[[nodiscard]] int end_of_parsing(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::config
