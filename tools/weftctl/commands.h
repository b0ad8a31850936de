// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The commands of weftctl.
#pragma once

#include "tools/weftctl/options.h"

namespace weft::weftctl {

/// Runs the command: the answer goes to stdout, all else to stderr. Returns the exit status.
[[nodiscard]] int run(const Options& options);

}  // namespace weft::weftctl
