// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Structures of the C interface that grow: a program may have been built when they had fewer fields, or more. Their
// first member is `size`, the program's sizeof.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace weft::inc::comm {

/// No structure is larger: a size that is was never set.
inline constexpr std::size_t kMostStructBytes = 4096;

/// What is wrong with the size of a structure with this name, or an empty string.
[[nodiscard]] inline std::string mistake_of_size(std::size_t size, const std::string& name) {
  if (size >= sizeof size && size <= kMostStructBytes) return "";
  return name + ".size is " + std::to_string(size) + ", and has to be sizeof(" + name + ")";
}

/// Reads a program's structure; fields that it does not have are zeros. What is wrong with it, or an empty string.
template <class T>
[[nodiscard]] std::string take(const T& theirs, const std::string& name, T& ours) {
  const std::size_t size = theirs.size;
  if (auto why = mistake_of_size(size, name); !why.empty()) return why;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&theirs);
  if (size > sizeof ours && std::any_of(bytes + sizeof ours, bytes + size, [](unsigned char b) { return b != 0; })) {
    return "the program sets a field of " + name + " that libweftinc " WEFT_VERSION " does not know";
  }
  ours = {};
  std::memcpy(&ours, bytes, std::min(size, sizeof ours));
  return "";
}

/// Writes as much of a structure as the program's has room for; fields that we do not know become zeros. What is wrong
/// with its size, or an empty string.
template <class T>
[[nodiscard]] std::string give(const T& ours, const std::string& name, T& theirs) {
  const std::size_t size = theirs.size;
  if (auto why = mistake_of_size(size, name); !why.empty()) return why;
  auto* bytes = reinterpret_cast<unsigned char*>(&theirs);
  std::memset(bytes, 0, size);
  std::memcpy(bytes, &ours, std::min(size, sizeof ours));
  std::memcpy(bytes + offsetof(T, size), &size, sizeof size);
  return "";
}

}  // namespace weft::inc::comm
