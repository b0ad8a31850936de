// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::weftctl {

/// The file that a capture or a recording is written to. When it cannot take more, it ends behind the last whole block
/// or line, so that it can still be read.
class CaptureFile {
 public:
  enum class Unit : std::uint8_t { pcapng_block, line };
  explicit CaptureFile(Unit unit) : unit_(unit) {}
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  /// "-" is stdout. Gives what went wrong: "" or an error of the system in words.
  [[nodiscard]] std::string open(const std::string& path);
  /// Whole units. As open().
  [[nodiscard]] std::string write(std::string_view units);
  /// Closes it. As open(): some file systems tell now that there was no room.
  [[nodiscard]] std::string close();

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The last write() failed because nobody reads the pipe any more.
  [[nodiscard]] bool reader_gone() const noexcept { return reader_gone_; }

 private:
  void cut_to_whole_units(std::string_view written);

  Unit unit_;
  int fd_ = -1;
  bool owned_ = false;
  bool reader_gone_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::weftctl
