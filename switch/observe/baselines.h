// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

/// Lets tables count from zero again for those who look at them. Counters themselves never go back: metrics, and the
/// check that no packet is lost, rely on it. Any thread.
class Baselines {
 public:
  /// Tables that count something.
  [[nodiscard]] static std::vector<std::string> tables();

  /// From now on, `rows` are what the table of one switch counts from. They are as show() gives them without
  /// baselines; each has "switch" first.
  void set(const std::string& table, const std::string& switch_name, const nlohmann::ordered_json& rows);

  /// Subtracts what was there at the time of set(), and leaves out rows of tables that list only what happened. A row
  /// that counts less than its baseline is a new one with an old name: nothing is subtracted from it. Columns that are
  /// there for this alone are gone afterwards, whether or not there is a baseline.
  void apply(const std::string& table, nlohmann::ordered_json& rows);

 private:
  using Counts = std::vector<std::uint64_t>;  ///< in the order of the table's counters; then those of its histogram
  using Rows = std::unordered_map<std::string, Counts>;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Rows> rows_;  ///< by table and switch
};

}  // namespace weft
