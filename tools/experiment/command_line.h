// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Arguments that all programs have that run experiments, and what is said about wrong ones.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace weft::experiment {

/// "" or what is wrong with the argument of --seed, and of --set.
[[nodiscard]] std::string check_seed(const std::string& text);
[[nodiscard]] std::string check_set(const std::string& text);

/// Words that nobody expected, with what may have been meant: a command, or an option of the command.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::experiment
