// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace weft::testing {

/// The folder of example configurations.
inline std::filesystem::path conf_directory() {
  return std::filesystem::path(WEFT_SOURCE_DIR) / "conf";
}

/// All YAML files in it, sorted; found at run time, so that none can be forgotten.
inline std::vector<std::filesystem::path> conf_files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(conf_directory())) {
    if (entry.path().extension() == ".yaml") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace weft::testing
