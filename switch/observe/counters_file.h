// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Where a run leaves its counters (`--counters-out`). The file appears whole or not at all: a disk that is full keeps
/// what an earlier run wrote.
class CountersFile {
 public:
  explicit CountersFile(std::string path);

  /// Whether the file could be written now: before a long run, not after it. Empty, or what is wrong.
  [[nodiscard]] std::string probe() const;
  /// Replaces the file by `text`. Empty, or what is wrong.
  [[nodiscard]] std::string write(std::string_view text) const;

 private:
  [[nodiscard]] std::string failure() const;

  std::string path_;    ///< as given
  std::string target_;  ///< behind symbolic links
  bool in_place_;       ///< a device or a pipe, which is written to and stays
  std::string staged_;  ///< what is written before it takes the file's name
};

}  // namespace weft
