// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <vector>

#include "switch/wire/parse.h"

namespace weft::testing {

/// What the parser says of a whole frame.
inline wire::Parsed parsed_of(const std::vector<std::uint8_t>& frame) {
  wire::Parsed parsed;
  const auto size = static_cast<std::uint32_t>(frame.size());
  wire::parse_frame(frame.data(), size, size, parsed);
  return parsed;
}

}  // namespace weft::testing
