// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

namespace weft::weftctl {

/// Where the answer goes.
struct Screen {
  bool terminal = false;
  unsigned rows = 0;     ///< 0: unknown
  unsigned columns = 0;  ///< 0: no limit, as without a terminal
};
[[nodiscard]] Screen screen_of_stdout();

/// What a terminal is sent before a table that takes the place of the one before.
inline constexpr const char* kHomeAndClear = "\033[H\033[J";

}  // namespace weft::weftctl
