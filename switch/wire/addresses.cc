// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/addresses.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "switch/wire/headers.h"

namespace weft::wire {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  if (text.size() != 17) return std::nullopt;
  MacAddress m;
  for (std::size_t i = 0; i < 6; ++i) {
    const int high = hex_digit(text[3 * i]);
    const int low = hex_digit(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':')) return std::nullopt;
    m.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return m;
}

std::string MacAddress::to_string() const {
  char out[18];
  std::snprintf(out, sizeof out, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
                bytes[5]);
  return out;
}

bool IpAddress::is_multicast() const noexcept {
  return v6_ ? bytes_[0] == 0xff : (bytes_[12] & 0xf0) == 0xe0;
}

bool IpAddress::is_link_local() const noexcept {
  return v6_ ? bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80 : bytes_[12] == 169 && bytes_[13] == 254;
}

bool IpAddress::is_loopback() const noexcept {
  if (!v6_) return bytes_[12] == 127;
  std::array<std::uint8_t, 16> one{};
  one[15] = 1;
  return bytes_ == one;
}

bool IpAddress::is_unspecified() const noexcept {
  return v6_ ? bytes_ == std::array<std::uint8_t, 16>{} : v4_value() == 0;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string terminated(text);
  in_addr v4{};
  if (inet_pton(AF_INET, terminated.c_str(), &v4) == 1) return IpAddress::v4(ntohl(v4.s_addr));
  in6_addr v6{};
  if (inet_pton(AF_INET6, terminated.c_str(), &v6) != 1) return std::nullopt;
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), v6.s6_addr, bytes.size());
  return IpAddress::v6(bytes);
}

std::string IpAddress::to_string() const {
  char out[INET6_ADDRSTRLEN];
  inet_ntop(v6_ ? AF_INET6 : AF_INET, v6_ ? bytes_.data() : bytes_.data() + 12, out, sizeof out);
  return out;
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  const auto digits = text.substr(slash + 1);
  unsigned length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (length > (address->is_v6() ? 128u : 32u)) return std::nullopt;
  return IpPrefix{*address, static_cast<std::uint8_t>(length)};
}

std::string IpPrefix::to_string() const {
  return address.to_string() + "/" + std::to_string(length);
}

IpPrefix IpPrefix::network() const noexcept {
  auto bytes = address.bytes();
  const unsigned first = address.is_v6() ? 0 : 96;
  for (unsigned bit = first + length; bit < 128; ++bit)
    bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80u >> bit % 8));
  if (address.is_v6()) return {IpAddress::v6(bytes), length};
  const std::uint32_t v4 =
      std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 | std::uint32_t{bytes[14]} << 8 | bytes[15];
  return {IpAddress::v4(v4), length};
}

// On the packet path: stages ask it of both addresses of a packet.
bool IpPrefix::contains(const IpAddress& a) const noexcept {
  if (a.is_v6() != address.is_v6()) return false;
  // Read as they were written just before: a wider load would have to wait until all of the address is in the cache.
  if (!a.is_v6()) return length == 0 || (a.v4_value() ^ address.v4_value()) >> (32 - length) == 0;
  constexpr unsigned kHalf = 64, kWhole = 128;
  const auto half_of = [](const IpAddress& of, std::size_t at) {
    return header_at<be64>(of.bytes().data() + at).value();
  };
  const std::uint64_t higher = half_of(a, 0) ^ half_of(address, 0), lower = half_of(a, 8) ^ half_of(address, 8);
  if (length <= kHalf) return length == 0 || higher >> (kHalf - length) == 0;
  return higher == 0 && lower >> (kWhole - length) == 0;
}

}  // namespace weft::wire
