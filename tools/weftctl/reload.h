// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/api/client.h"
#include "tools/weftctl/options.h"

namespace weft::weftctl {

/// `weftctl diff FILE`: what the file would change.
[[nodiscard]] int run_diff(const Options& options, api::Client& client);
/// `weftctl reload`: what the process's own file changed.
[[nodiscard]] int run_reload(const Options& options, api::Client& client);

}  // namespace weft::weftctl
