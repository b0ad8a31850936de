// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The bytes of a gRPC client, by hand, so that a test can send any of them, in any order, or half of them (RFC 9113;
// header blocks are HPACK literals without indexing, RFC 7541).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::api::http2 {

inline constexpr std::uint8_t kData = 0, kHeaders = 1, kSettings = 4, kPing = 6;
inline constexpr std::uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;
/// Identifier of a setting.
inline constexpr std::uint16_t kInitialWindowSize = 4;
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How a connection begins: the preface and empty SETTINGS.
inline std::string opening() {
  return std::string(kPreface) + std::string("\0\0\0\4\0\0\0\0\0", 9);
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  const auto byte = [](std::size_t value, unsigned shift) { return static_cast<char>(value >> shift & 0xff); };
  const std::size_t size = payload.size();
  std::string out{byte(size, 16),           byte(size, 8),    byte(size, 0),    static_cast<char>(type),
                  static_cast<char>(flags), byte(stream, 24), byte(stream, 16), byte(stream, 8),
                  byte(stream, 0)};
  return out.append(payload);
}

struct Frame {
  std::uint8_t type = 0, flags = 0;
  std::string payload;
};

/// A number of some bytes, the highest first.
inline std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t out = 0;
  for (const char c : bytes.substr(at, size)) out = out << 8 | static_cast<std::uint8_t>(c);
  return out;
}

/// The whole frames of what one side has said, after the preface of a client.
inline std::vector<Frame> frames_of(std::string_view bytes) {
  constexpr std::size_t kHead = 9;
  std::vector<Frame> out;
  while (bytes.size() >= kHead && bytes.size() - kHead >= number_at(bytes, 0, 3)) {
    const std::size_t size = number_at(bytes, 0, 3);
    out.push_back({static_cast<std::uint8_t>(bytes[3]), static_cast<std::uint8_t>(bytes[4]),
                   std::string(bytes.substr(kHead, size))});
    bytes.remove_prefix(kHead + size);
  }
  return out;
}

/// Of SETTINGS: values by identifier.
inline std::map<std::uint16_t, std::uint32_t> settings_of(const Frame& frame) {
  std::map<std::uint16_t, std::uint32_t> out;
  for (std::size_t at = 0; at + 6 <= frame.payload.size(); at += 6) {
    out[static_cast<std::uint16_t>(number_at(frame.payload, at, 2))] = number_at(frame.payload, at + 2, 4);
  }
  return out;
}

/// HEADERS of a call of a method of the control service.
inline std::string call(std::uint32_t stream, std::string_view method, std::uint8_t flags = kEndHeaders) {
  const auto text = [](std::string_view value) {
    return std::string(1, static_cast<char>(value.size())).append(value);
  };
  const std::array<std::array<std::string_view, 2>, 6> headers{{{":method", "POST"},
                                                                {":scheme", "http"},
                                                                {":path", method},
                                                                {":authority", "weft"},
                                                                {"content-type", "application/grpc"},
                                                                {"te", "trailers"}}};
  std::string block;
  for (const auto& [name, value] : headers) {
    block += '\0' + text(name);
    block += name == ":path" ? text("/weft.control.v1.Control/" + std::string(value)) : text(value);
  }
  return frame(kHeaders, flags, stream, block);
}

/// A message as gRPC frames it: not compressed, its length, its bytes.
inline std::string message(std::string_view bytes) {
  const std::size_t size = bytes.size();
  std::string out{0, static_cast<char>(size >> 24 & 0xff), static_cast<char>(size >> 16 & 0xff),
                  static_cast<char>(size >> 8 & 0xff), static_cast<char>(size & 0xff)};
  return out.append(bytes);
}

/// weft.control.v1.ShowRequest for a table.
inline std::string show_request(std::string_view table) {
  return "\x0a" + std::string(1, static_cast<char>(table.size())).append(table);
}

}  // namespace weft::api::http2
