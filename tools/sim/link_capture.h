// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What arrives over one direction of a link, as a capture file.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "switch/base/time.h"

namespace weft::sim {

class LinkCapture {
 public:
  LinkCapture() = default;
  ~LinkCapture() { static_cast<void>(finish()); }
  LinkCapture(const LinkCapture&) = delete;
  LinkCapture& operator=(const LinkCapture&) = delete;

  /// Begins the file. "" or why it cannot be written.
  [[nodiscard]] std::string start(const std::string& path);
  void packet(TimeNs now, const rte_mbuf* m) noexcept;
  /// Ends the capture. "" or why not all of it was written; also when there was none.
  [[nodiscard]] std::string finish();

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
  std::uint64_t packets_ = 0;
  int error_ = 0;  ///< errno; the capture ends with the first
};

}  // namespace weft::sim
