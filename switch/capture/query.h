// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::capture {

/// What an operator asks for, in words. Empty lists ask for everything.
struct Query {
  std::string switch_name{};         ///< empty: all
  std::vector<std::string> ports{};  ///< "h1" (in every switch that has it) or "tor1/h1"
  bool rx = false;                   ///< packets as they arrive
  bool tx = false;                   ///< packets as they leave
  std::vector<std::string> drops{};  ///< drop reasons, or "any"
  std::vector<std::uint32_t> dest_qps{};
  std::vector<std::uint32_t> groups{};  ///< of collectives: packets of their queue pairs, in both directions
  std::vector<std::string> opcodes{};  ///< "RC_SEND_ONLY" or a number
  /// PSNs from first to last, both included; the range may wrap around zero.
  struct PsnRange {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  std::vector<PsnRange> psns{};
};

}  // namespace weft::capture
