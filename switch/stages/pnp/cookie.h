// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The handshake monitor with SYN cookies (Figure 5 of the long-haul paper; RFC 4987 section 3.6): what a client's SYN
// says comes back in its ACK, so that nothing is kept of a handshake, however many SYNs there are. The price: the
// connection that shows who the client is cannot go on, because the server does not know of it, and is reset. No DPDK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/base/time.h"
#include "switch/stages/pnp/handshake.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words.
[[nodiscard]] std::uint64_t siphash(std::uint64_t key0, std::uint64_t key1,
                                    std::span<const std::uint64_t> words) noexcept;

/// Cookies under a key that nobody else knows.
class HandshakeCookies {
 public:
  /// A cookie is good for this time at least, and twice as long at most.
  static constexpr TimeNs kLifetimeNs = 64'000'000'000;

  HandshakeCookies(std::uint64_t key0, std::uint64_t key1) noexcept : key0_(key0), key1_(key1) {}

  /// The sequence number that answers this SYN.
  [[nodiscard]] std::uint32_t of_syn(TimeNs now, const TcpSegment& syn) const noexcept;
  /// Whether an ACK answers a cookie of the same client, so that the client's address is not forged.
  [[nodiscard]] bool answered_by(TimeNs now, const TcpSegment& ack) const noexcept;

 private:
  [[nodiscard]] std::uint32_t cookie(std::int64_t slot, const TcpSegment& from_client,
                                     std::uint32_t first) const noexcept;

  std::uint64_t key0_, key1_;
};

/// Room for any frame of write_tcp_answer().
inline constexpr std::size_t kMaxTcpAnswerBytes = 14 + 40 + 20;

/// Writes the answer of the receiver of `frame`, a TCP segment, to its sender, without a tag, at least 60 bytes long:
/// no options and no data, and a window of 0, so that the client sends none.
/// @param flags  SYN and ACK, or RST
/// @return the bytes written, 0 if `out` is too small
std::size_t write_tcp_answer(std::span<std::uint8_t> out, const std::uint8_t* frame, const wire::Parsed& parsed,
                             std::uint8_t flags, std::uint32_t sequence, std::uint32_t acknowledgement) noexcept;

}  // namespace weft::stages
