// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <string>

namespace weft {

/// Names of ports for a line of the log: the first few of many, and how many more there are.
class PortNames {
 public:
  void add(const std::string& name) {
    if (++count_ <= kNamed) text_ += (text_.empty() ? "" : ", ") + name;
  }
  /// Empty when none was added.
  [[nodiscard]] std::string text() const {
    return count_ <= kNamed ? text_ : text_ + " and " + std::to_string(count_ - kNamed) + " more";
  }
  [[nodiscard]] bool several() const { return count_ > 1; }

 private:
  static constexpr std::size_t kNamed = 8;
  std::string text_{};
  std::size_t count_ = 0;
};

}  // namespace weft
