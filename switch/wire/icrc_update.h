// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Incremental ICRC: what a change of covered header fields does to the ICRC, without reading the payload. CRC is
// linear over the exclusive or, so the new ICRC is the old one xor the CRC of the difference, and a difference d of
// four bytes with n covered bytes behind it contributes d(x) * x^(8n + 32) mod P(x). A wrong ICRC stays wrong by the
// same difference. (Satran, Sheinwald, Shimony: Out of Order Incremental CRC Computation, IEEE TC 54(9), 2005.)
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "switch/wire/types.h"

namespace weft::wire {

/// Up to four changed bytes of the covered part.
struct FieldEdit {
  std::uint32_t delta;        ///< old xor new bytes, first byte on the wire lowest
  std::uint32_t bytes_after;  ///< covered bytes behind the fourth byte of the difference, pad included, ICRC excluded
};

/// The edit of `bytes` (1 to 4) bytes, given before and after, with `after` covered bytes behind the last of them.
[[nodiscard]] inline FieldEdit make_edit(const void* old_bytes, const void* new_bytes, std::uint32_t bytes,
                                         std::uint32_t after) noexcept {
  // Shorter differences are moved to the end of the four bytes, so that `after` stays what it is.
  be32 a(0), b(0);
  std::memcpy(reinterpret_cast<std::uint8_t*>(&a) + (4 - bytes), old_bytes, bytes);
  std::memcpy(reinterpret_cast<std::uint8_t*>(&b) + (4 - bytes), new_bytes, bytes);
  return {byte_swap(a.value() ^ b.value()), after};
}

/// The ICRC after all `edits`, given the one before. Any positions, any order, overlaps allowed; at its fastest when
/// bytes_after is below 16 KiB.
[[nodiscard]] std::uint32_t icrc_update(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept;

/// The same in portable code. icrc_update() chooses it where the processor has no carry-less multiplication.
[[nodiscard]] std::uint32_t icrc_update_portable(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept;

}  // namespace weft::wire
