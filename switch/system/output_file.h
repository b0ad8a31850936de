// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// A file for results or for what the next process takes over. It appears under its name, or replaces what was there,
/// only when all of it is on the disk: neither a full disk nor a crash leaves a part of it or costs what it held. It
/// can be tried before the work begins whose results it takes. Devices and pipes are written in place. One thread;
/// several processes may write files of the same name, of which the last one stays.
class OutputFile {
 public:
  /// @param path  links are followed: what they lead to is replaced
  explicit OutputFile(std::string path);

  /// Whether it can be written, as far as that can be known before: "" or "cannot write PATH: REASON", with the
  /// system's word for a full disk, a folder that is not there, or a permission that is missing. What a file with this
  /// name holds stays as it is.
  [[nodiscard]] std::string probe() const;
  /// Replaces the file by `text`. "" or what went wrong, as probe() says it; then no part of the text is there.
  [[nodiscard]] std::string write(std::string_view text) const;

 private:
  /// A descriptor of the file that takes the text first; -1 with errno.
  [[nodiscard]] int open_staged() const;
  /// "cannot write PATH: ", and what errno means.
  [[nodiscard]] std::string failure() const;

  std::string path_;    ///< as it was named
  std::string target_;  ///< where links lead to
  std::string staged_;  ///< where the text is put first; target_ when it is written in place
  bool in_place_ = false;
};

}  // namespace weft
