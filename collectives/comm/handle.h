// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a rank tells all others of its group before they can connect; the program carries it (weft_inc_handle).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/comm/byte_order.h"
#include "collectives/comm/host_path.h"
#include "collectives/comm/transport.h"

namespace weft::inc::comm {

inline constexpr std::size_t kHandleBytes = 256;
inline constexpr std::uint32_t kMaxGroupRanks = 1024;

struct Handle {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  MessageShape shape;
  QpEnd switch_end;         ///< the rank's end of the connection with its switch
  std::vector<QpEnd> ends;  ///< by partner; all have the address of switch_end

  friend bool operator==(const Handle&, const Handle&) = default;
};

/// Queue pair and PSNs of an end, of 24 bits each; not its address.
inline constexpr std::size_t kEndBytes = 9;
void write_end(ByteWriter& out, const QpEnd& end);
void read_end(ByteReader& in, QpEnd& end);

[[nodiscard]] std::array<std::uint8_t, kHandleBytes> write_handle(const Handle& handle);
/// nullopt: it is none.
[[nodiscard]] std::optional<Handle> read_handle(std::span<const std::uint8_t, kHandleBytes> bytes);

/// What keeps ranks from being a group, in words, or an empty string.
[[nodiscard]] std::string disagreement(const std::vector<Handle>& all);

}  // namespace weft::inc::comm
