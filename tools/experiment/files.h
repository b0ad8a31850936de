// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Files that a run reads, with the reason when that fails.
#pragma once

#include <optional>
#include <string>

namespace weft::experiment {

/// The contents of a file; nullopt, and errno says why, when it cannot be read. A folder cannot.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

}  // namespace weft::experiment
