// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::weftctl {

/// Rows of a table that says how full things are: rows with `bytes` and `peak_bytes`, and `threshold_bytes`, which is
/// null where there is no limit.
[[nodiscard]] bool tells_occupancy(const std::vector<nlohmann::ordered_json>& rows);

inline constexpr const char* kBarColumn = "occupancy";

/// Puts the column kBarColumn before `bytes`: a bar of `width` characters, '#' for what is held and '|' for the most
/// that ever was, and percent of the threshold. Bars of rows without a limit are as long as the highest peak among
/// those. Rows that never held a byte go; returns how many.
std::size_t add_bars(std::vector<nlohmann::ordered_json>& rows, std::size_t width);

}  // namespace weft::weftctl
