// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>

namespace weft::agent {

/// Gives up all capabilities but those that reading other processes' maps takes; uprobes stay attached. Without any it
/// does nothing.
/// @return "" or what is wrong
[[nodiscard]] std::string drop_capabilities(bool keep_bpf);

}  // namespace weft::agent
