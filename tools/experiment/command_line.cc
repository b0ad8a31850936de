// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/command_line.h"

#include <charconv>
#include <cstdint>

#include "switch/config/schema/suggest.h"

namespace weft::experiment {

std::string check_seed(const std::string& text) {
  std::int64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc{} && end == text.data() + text.size() && seed >= 0) return {};
  return "expected an integer from 0 to " + std::to_string(INT64_MAX) + ", found " + config::quote(text);
}

std::string check_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != text.npos && equals != 0) return {};
  return "expected KEY=VALUE, as seed=7, found " + config::quote(text);
}

}  // namespace weft::experiment
