// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A directory for sockets and files of one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weft::api {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  /// The path of a file in it.
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/weft-test-XXXXXX";
};

}  // namespace weft::api
