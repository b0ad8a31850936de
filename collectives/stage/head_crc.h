// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The headers' share of an ICRC, for the packets of one peer that carry the same number of bytes: of what the ICRC
// covers they differ in few words, and such a difference costs less than the CRC of all headers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "switch/wire/headers.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {

/// One for each endpoint. Any header may differ, so that all that the ICRC covers is compared.
class ArrivedHeadCrc {
 public:
  /// wire::icrc_of_head() of a packet.
  /// @param frame    as it came, Ethernet to the last header at least
  /// @param layout   of the whole frame
  /// @param payload  bytes, pad included: a multiple of four, and more than none
  [[nodiscard]] std::uint32_t part(const std::uint8_t* frame, const wire::RoceLayout& layout,
                                   std::uint32_t payload) noexcept {
    const bool plain = !layout.ipv6 && layout.l4 == layout.l3 + sizeof(wire::Ipv4Header) &&
                       layout.icrc == layout.l3 + kHeadBytes + payload;
    if (!plain) return wire::icrc_of_head(frame, layout, payload);
    Words head, changed;
    std::memcpy(head.data(), frame + layout.l3, kHeadBytes);
    std::uint64_t other = payload ^ payload_;
    // Word by word: GCC 12 copies the whole array by `rep movs`, which costs more than all the rest.
    for (std::size_t i = 0; i < kWords; ++i) {
      changed[i] = head[i] ^ head_[i];
      head_[i] = head[i];
      other |= changed[i] & kSame[i];
    }
    if (other == 0) [[likely]] {
      const std::uint32_t behind = payload + kHeadBytes - kWord;
      const wire::FieldEdit edits[]{{word(changed, 1), behind - 1 * kWord},
                                    {word(changed, 7), behind - 7 * kWord},
                                    {word(changed, 9), behind - 9 * kWord}};
      part_ = wire::icrc_update(part_, edits);
    } else {
      part_ = wire::icrc_of_head(frame, layout, payload);
      payload_ = payload;
    }
    return part_;
  }

 private:
  static constexpr std::uint32_t kWord = 4;
  static constexpr std::size_t kWords = 5, kHeadBytes = 8 * kWords;
  using Words = std::array<std::uint64_t, kWords>;
  static_assert(kHeadBytes == sizeof(wire::Ipv4Header) + sizeof(wire::UdpHeader) + sizeof(wire::Bth));
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

  /// Bits that are the same in most packets. Not those: the identification of IPv4, opcode and flags, AckReq and PSN,
  /// whose difference the edits are; and what the ICRC does not cover: TOS, TTL, checksums, resv8a.
  static constexpr Words kSame{0x00000000'ffff00ff, 0xffffffff'0000ff00, ~std::uint64_t{0}, 0x00000000'0000ffff,
                               0x00000000'ffffff00};

  /// A word of four bytes.
  [[nodiscard]] static std::uint32_t word(const Words& words, std::size_t i) noexcept {
    return static_cast<std::uint32_t>(words[i / 2] >> (i % 2 * 32));
  }

  Words head_{};               ///< of the last packet
  std::uint32_t payload_ = 0;  ///< bytes in it; 0: there is none
  std::uint32_t part_ = 0;     ///< what part() said of it
};

}  // namespace weft::inc
