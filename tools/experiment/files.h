// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Files that a run reads and writes, with the reason when that fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::experiment {

/// The contents of a file; nullopt, and errno says why, when it cannot be read. A folder cannot.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

/// A file for results. It can be tried before the work begins whose results it takes, and it appears under its name, or
/// replaces what was there, only when all of it is on the disk. Devices and pipes are written in place.
class OutputFile {
 public:
  explicit OutputFile(std::string path);

  /// Whether it can be written, as far as that can be known before: "" or what is in the way. What a file with this
  /// name holds stays as it is.
  [[nodiscard]] std::string probe() const;
  /// "" or what went wrong; then no part of the text is there.
  [[nodiscard]] std::string write(std::string_view text) const;

 private:
  /// "cannot write PATH: ", and what errno means.
  [[nodiscard]] std::string failure() const;

  std::string path_;    ///< as it was named
  std::string target_;  ///< where links lead to
  std::string staged_;  ///< where the text is put first; target_ when it is written in place
  bool in_place_ = false;
};

}  // namespace weft::experiment
