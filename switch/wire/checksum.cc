// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/checksum.h"

namespace weft::wire {

void ChecksumSum::add_bytes(std::span<const std::uint8_t> bytes) noexcept {
  const std::uint8_t* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(be32); left -= sizeof(be32), at += sizeof(be32)) add_word32(header_at<be32>(at).value());
  if (left >= sizeof(be16)) {
    add_word(header_at<be16>(at).value());
    at += sizeof(be16);
    left -= sizeof(be16);
  }
  if (left != 0) add_word(static_cast<std::uint16_t>(*at << 8));
}

std::uint16_t ipv4_checksum(const Ipv4Header& header) noexcept {
  ChecksumSum s;
  s.add_bytes({reinterpret_cast<const std::uint8_t*>(&header), header.header_bytes()});
  s.remove_word(header.checksum.value());
  return s.checksum();
}

bool ipv4_checksum_ok(const Ipv4Header& header) noexcept {
  ChecksumSum s;
  s.add_bytes({reinterpret_cast<const std::uint8_t*>(&header), header.header_bytes()});
  return s.folded() == 0xffff;
}

ChecksumSum pseudo_header_sum(const Ipv4Header& ip, std::uint8_t protocol, std::uint32_t length) noexcept {
  ChecksumSum s;
  s.add_word32(ip.source.value());
  s.add_word32(ip.destination.value());
  s.add_word(protocol);
  s.add_word32(length);
  return s;
}

ChecksumSum pseudo_header_sum(const Ipv6Header& ip, std::uint8_t protocol, std::uint32_t length) noexcept {
  ChecksumSum s;
  s.add_bytes(ip.source);
  s.add_bytes(ip.destination);
  s.add_word(protocol);
  s.add_word32(length);
  return s;
}

}  // namespace weft::wire
