// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// YAML text to a document with positions. Stricter than YAML where people are misled: keys are unique, there is one
// document, tags are refused.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "switch/config/schema/document.h"

namespace weft::config {

/// Limits that no reasonable file meets; they bound time and memory for any input.
inline constexpr std::size_t kMaxYamlBytes = 1u << 20;
inline constexpr std::size_t kMaxYamlDepth = 32;
inline constexpr std::size_t kMaxYamlNodes = 100'000;           ///< after aliases were replaced by what they mean
inline constexpr std::size_t kMaxYamlExpandedBytes = 4u << 20;  ///< text of all scalars, likewise

/// For files of another size than a switch's. A value takes 200 bytes of memory and some microseconds, whether it is
/// written or comes of an alias.
struct YamlLimits {
  std::size_t bytes = kMaxYamlBytes;
  std::size_t nodes = kMaxYamlNodes;
  std::size_t expanded_bytes = kMaxYamlExpandedBytes;
};

/// The document in `text`, or nullopt with at least one diagnostic. Columns count characters, from 1.
/// @param file  the name that positions carry
[[nodiscard]] std::optional<DocumentNode> read_yaml(std::string_view text, const std::string& file,
                                                    Diagnostics& diagnostics, const YamlLimits& limits = {});

}  // namespace weft::config
