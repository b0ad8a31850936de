// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The headers' share of an ICRC, for the packets of one endpoint that carry the same number of bytes: of what the ICRC
// covers they differ in opcode, flags and PSN alone, and such a difference costs less than the CRC of all headers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "nic/rnic/packet.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {

/// One for each endpoint.
class HeadCrc {
 public:
  /// wire::icrc_of_head() of a packet.
  /// @param head    Ethernet to the last header; of two calls, IP addresses, UDP ports and destination QP are the same
  /// @param layout  of the whole frame
  /// @param p       with more than no payload, in whole words
  [[nodiscard]] std::uint32_t part(const std::uint8_t* head, const wire::RoceLayout& layout,
                                   const nic::Packet& p) noexcept {
    const std::uint8_t* const bth = head + layout.l4 + sizeof(wire::UdpHeader);
    if (p.info().header_bytes != sizeof(wire::Bth)) return wire::icrc_of_head(head, layout, p.payload.bytes);
    if (layout.icrc == end_) [[likely]] {
      const std::uint32_t behind = layout.icrc - layout.l4 - static_cast<std::uint32_t>(sizeof(wire::UdpHeader));
      const wire::FieldEdit edits[]{
          wire::make_edit(bth_.data(), bth, kWord, behind - kWord),
          wire::make_edit(&bth_[kPsnWord], bth + kPsnWord, kWord, behind - sizeof(wire::Bth))};
      part_ = wire::icrc_update(part_, edits);
    } else {
      part_ = wire::icrc_of_head(head, layout, p.payload.bytes);
      end_ = layout.icrc;
    }
    std::memcpy(bth_.data(), bth, sizeof(wire::Bth));
    return part_;
  }

 private:
  static constexpr std::uint32_t kWord = 4, kPsnWord = 8;

  std::array<std::uint8_t, sizeof(wire::Bth)> bth_{};  ///< of the last packet
  std::uint32_t end_ = 0;                              ///< its RoceLayout::icrc; 0: there is none
  std::uint32_t part_ = 0;                             ///< what part() said of it
};

}  // namespace weft::inc
