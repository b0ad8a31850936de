// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Where a function lies in a shared library, for an uprobe. libibverbs has ibv_modify_qp() twice, an old version beside
// the one that programs are linked with today, and libbpf 1.1 cannot tell them apart by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft::agent {

/// The offset in the file of a function's default version (the one that a program gets that is linked now).
/// @param image  an ELF file of this machine's kind (64 bits, little-endian), whatever it may say of itself
/// @return nullopt when the file is no such one, or has no such function
[[nodiscard]] std::optional<std::uint64_t> function_offset(std::span<const std::uint8_t> image,
                                                           std::string_view function) noexcept;

}  // namespace weft::agent
