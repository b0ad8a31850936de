// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a Schema holds; for the code that applies schemas, not for those who declare them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "switch/config/schema/schema.h"

namespace weft::config {

struct Schema::Node {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    number,
    string,
    text,
    name,
    one_of,
    mac,
    ip,
    prefix,
    list,
    map,
    dictionary,
    tagged,
    either,
    stages,
  };

  Kind kind = Kind::map;
  std::int64_t min = 0, max = 0;                               ///< integer
  double low = 0, high = 0;                                    ///< number
  std::vector<std::string> words{};                            ///< one_of
  std::vector<Schema> children{};                              ///< list and dictionary: its item; either: both
  std::size_t min_items = 0;                                   ///< list
  std::vector<Key> keys{};                                     ///< map
  std::string tag{};                                           ///< tagged
  std::vector<std::pair<std::string, Schema>> alternatives{};  ///< tagged
};

/// "an integer from 1 to 64", "one of poll, sleep, adaptive": what belongs after "expected".
[[nodiscard]] std::string describe(const Schema& schema);

/// Longest name that Schema::name() accepts.
inline constexpr std::size_t kMaxNameLength = 63;
/// True when `text` is what Schema::name() accepts.
[[nodiscard]] bool is_name(std::string_view text) noexcept;

}  // namespace weft::config
