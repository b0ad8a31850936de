// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Words of error messages: quoting what was found, and guessing what was meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::config {

/// 'text', shortened to 40 characters, without control characters.
[[nodiscard]] std::string quote(std::string_view text);

/// "a, b, c".
[[nodiscard]] std::string joined(const std::vector<std::string>& words);

/// The candidate that `word` is most likely a misspelling of, by edit distance; "" when none is close.
[[nodiscard]] std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?", or "; known: a, b, c" when nothing is close; "" without candidates.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace weft::config
