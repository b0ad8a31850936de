// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::weftctl {

/// The file that a capture is written to. When it cannot take more, it ends behind the last whole block, so that it can
/// still be read.
class CaptureFile {
 public:
  CaptureFile() = default;
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  /// "-" is stdout. Gives what went wrong: "" or an error of the system in words.
  [[nodiscard]] std::string open(const std::string& path);
  /// Whole pcapng blocks. As open().
  [[nodiscard]] std::string write(std::string_view blocks);
  /// Closes it. As open(): some file systems tell now that there was no room.
  [[nodiscard]] std::string close();

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The last write() failed because nobody reads the pipe any more.
  [[nodiscard]] bool reader_gone() const noexcept { return reader_gone_; }

 private:
  void cut_to_whole_blocks(std::string_view written);

  int fd_ = -1;
  bool owned_ = false;
  bool reader_gone_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::weftctl
