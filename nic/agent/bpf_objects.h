// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The BPF programs, as clang has compiled them: object files within the agent.
#pragma once

#include <span>

namespace weft::agent {

[[nodiscard]] std::span<const unsigned char> verbs_watch_object() noexcept;   ///< verbs_watch.bpf.c
[[nodiscard]] std::span<const unsigned char> kernel_watch_object() noexcept;  ///< kernel_watch.bpf.c

}  // namespace weft::agent
