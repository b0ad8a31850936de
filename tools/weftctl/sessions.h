// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Commands that do more than look at tables: capture, trace, clear, set.
#pragma once

#include "tools/weftctl/options.h"

namespace weft::weftctl {

/// Runs the command; returns the exit status.
[[nodiscard]] int run_session(const Options& options);

}  // namespace weft::weftctl
