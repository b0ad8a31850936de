// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Programs of others that print something.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weft::inc_tool {

/// What a program prints on its standard output, when it ends with status 0 in time and prints no more than `most`
/// bytes; otherwise it is killed, and `error` says why. Its standard error is the caller's.
/// @param command  the program, which is searched in PATH, and its arguments
[[nodiscard]] std::optional<std::string> output_of(const std::vector<std::string>& command,
                                                   std::chrono::milliseconds limit, std::size_t most,
                                                   std::string& error);

}  // namespace weft::inc_tool
