// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What has to be true whatever the input is.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft {

/// Ends the process, which libFuzzer reports with its input, if it is not.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what);
  std::abort();
}

}  // namespace weft
