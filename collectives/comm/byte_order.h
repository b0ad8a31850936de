// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Numbers, addresses and texts in network byte order: what ranks, and the library and its daemon, tell each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "switch/wire/addresses.h"

namespace weft::inc::comm {

class ByteWriter {
 public:
  void number(std::uint64_t value, std::size_t bytes) {
    while (bytes-- > 0) out_.push_back(static_cast<std::uint8_t>(value >> (8 * bytes)));
  }
  void address(const wire::IpAddress& a) {
    number(a.is_v6() ? 6 : 4, 1);
    out_.insert(out_.end(), a.bytes().begin(), a.bytes().end());
  }
  /// At most 65535 bytes; more are left out.
  void text(std::string_view s) {
    s = s.substr(0, UINT16_MAX);
    number(s.size(), 2);
    out_.insert(out_.end(), s.begin(), s.end());
  }
  [[nodiscard]] std::vector<std::uint8_t> take() { return std::move(out_); }

 private:
  std::vector<std::uint8_t> out_;
};

/// After the first thing that is not there, or is none, all that follows is 0 or empty, and fine() is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> in) noexcept : in_(in) {}

  std::uint64_t number(std::size_t bytes) noexcept {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes_of(bytes)) value = value << 8 | byte;
    return value;
  }
  wire::IpAddress address() noexcept {
    const std::uint64_t family = number(1);
    std::array<std::uint8_t, 16> raw{};
    const auto bytes = bytes_of(raw.size());
    std::copy(bytes.begin(), bytes.end(), raw.begin());
    const wire::IpAddress mapped = wire::IpAddress::v6(raw);
    if (family == 6) return mapped;
    const auto v4 = wire::IpAddress::v4(std::uint32_t{raw[12]} << 24 | std::uint32_t{raw[13]} << 16 |
                                        std::uint32_t{raw[14]} << 8 | raw[15]);
    if (family != 4 || v4.bytes() != raw) fine_ = false;
    return v4;
  }
  std::string text() {
    const auto bytes = bytes_of(number(2));
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] std::size_t left() const noexcept { return in_.size(); }
  [[nodiscard]] bool fine() const noexcept { return fine_; }
  void refuse() noexcept { fine_ = false; }

 private:
  std::span<const std::uint8_t> bytes_of(std::size_t count) noexcept {
    if (!fine_ || count > in_.size()) {
      fine_ = false;
      return {};
    }
    const auto out = in_.first(count);
    in_ = in_.subspan(count);
    return out;
  }

  std::span<const std::uint8_t> in_;
  bool fine_ = true;
};

}  // namespace weft::inc::comm
