// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// All headers, and how to lay one over bytes. Headers are packed, have alignment 1 and hold big-endian fields, so
// they can be laid over any address.
#pragma once

#include <cstdint>
#include <type_traits>

#include "switch/wire/ethernet.h"
#include "switch/wire/ib.h"
#include "switch/wire/ip.h"

namespace weft::wire {

/// Views the bytes at `at` as a header. The caller has checked that sizeof(Header) bytes are there.
template <class Header>
[[nodiscard]] inline Header& header_at(std::uint8_t* at) noexcept {
  static_assert(alignof(Header) == 1 && std::is_trivially_copyable_v<Header>);
  return *reinterpret_cast<Header*>(at);
}
template <class Header>
[[nodiscard]] inline const Header& header_at(const std::uint8_t* at) noexcept {
  static_assert(alignof(Header) == 1 && std::is_trivially_copyable_v<Header>);
  return *reinterpret_cast<const Header*>(at);
}

}  // namespace weft::wire
