// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace weft::wire {
namespace {

/// CRC of the eight bytes of ones that stand for the local route header, in the convention of crc32_gzip_refl().
constexpr std::uint32_t kSeed = 0x2144df1c;

std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* at, std::size_t bytes) noexcept {
  return crc32_gzip_refl(crc, at, bytes);
}

/// Sets the fields of a copied header that the ICRC does not cover to ones. `l4` counts from the IP header.
void mask_headers(std::uint8_t* ip, std::uint32_t l4, bool ipv6) noexcept {
  if (ipv6) {
    auto& header = header_at<Ipv6Header>(ip);
    header.version_class_flow.set(header.version_class_flow.value() | 0x0fffffff);
    header.hop_limit = 0xff;
  } else {
    auto& header = header_at<Ipv4Header>(ip);
    header.tos = 0xff;
    header.ttl = 0xff;
    header.checksum.set(0xffff);
  }
  header_at<UdpHeader>(ip + l4).checksum.set(0xffff);
  header_at<Bth>(ip + l4 + sizeof(UdpHeader)).fecn_becn = 0xff;
}

/// IP, UDP and BTH; the size is known to the compiler for headers without options.
template <std::size_t kIpBytes>
std::uint32_t crc_fixed_headers(const std::uint8_t* ip, bool ipv6) noexcept {
  constexpr std::size_t kBytes = kIpBytes + sizeof(UdpHeader) + sizeof(Bth);
  std::uint8_t copy[kBytes];
  std::memcpy(copy, ip, kBytes);
  mask_headers(copy, kIpBytes, ipv6);
  return crc32(kSeed, copy, kBytes);
}

std::uint32_t crc_headers(const std::uint8_t* ip, std::uint32_t ip_bytes, bool ipv6) noexcept {
  if (!ipv6 && ip_bytes == sizeof(Ipv4Header)) return crc_fixed_headers<sizeof(Ipv4Header)>(ip, false);
  if (ipv6 && ip_bytes == sizeof(Ipv6Header)) return crc_fixed_headers<sizeof(Ipv6Header)>(ip, true);
  // l4 offsets are bytes, so options and extension headers always fit.
  std::uint8_t copy[256 + sizeof(UdpHeader) + sizeof(Bth)];
  const std::size_t bytes = ip_bytes + sizeof(UdpHeader) + sizeof(Bth);
  std::memcpy(copy, ip, bytes);
  mask_headers(copy, ip_bytes, ipv6);
  return crc32(kSeed, copy, bytes);
}

}  // namespace

IcrcCalculator::IcrcCalculator(std::span<const std::uint8_t> head, const RoceLayout& layout) noexcept
    : crc_(crc_headers(head.data() + layout.l3, layout.l4 - layout.l3, layout.ipv6)) {
  const std::uint32_t body = layout.l4 + static_cast<std::uint32_t>(sizeof(UdpHeader) + sizeof(Bth));
  remaining_ = layout.icrc - body;
  add(head.subspan(body));
}

void IcrcCalculator::add(std::span<const std::uint8_t> piece) noexcept {
  const std::size_t bytes = std::min<std::size_t>(piece.size(), remaining_);
  if (bytes == 0) return;
  crc_ = crc32(crc_, piece.data(), bytes);
  remaining_ -= static_cast<std::uint32_t>(bytes);
}

}  // namespace weft::wire
