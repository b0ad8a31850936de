// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a switch remembers about one direction of a queue pair: 64 bytes that every packet touches and 52 that only
// unusual packets do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "switch/wire/types.h"

namespace weft::tables {

/// Coarse time of the table: nanoseconds >> 20, about a millisecond; wraps after 52 days.
[[nodiscard]] constexpr std::uint32_t tick_of(std::uint64_t now_ns) noexcept {
  return static_cast<std::uint32_t>(now_ns >> 20);
}
/// Ticks of a number of seconds, rounded up. Up to 30 days.
[[nodiscard]] constexpr std::uint32_t ticks_of_seconds(std::uint64_t seconds) noexcept {
  return static_cast<std::uint32_t>((seconds * 1'000'000'000 + (1u << 20) - 1) >> 20);
}
/// Coarser time for ages: nanoseconds >> 30, about a second.
[[nodiscard]] constexpr std::uint32_t age_tick_of(std::uint64_t now_ns) noexcept {
  return static_cast<std::uint32_t>(now_ns >> 30);
}

/// A 24-bit number and eight flags in one word, so that one comparison answers "this number and no flag".
class Word24 {
 public:
  [[nodiscard]] constexpr std::uint32_t raw() const noexcept { return raw_; }
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return raw_ & 0xffffff; }
  [[nodiscard]] constexpr std::uint8_t high() const noexcept { return static_cast<std::uint8_t>(raw_ >> 24); }
  [[nodiscard]] constexpr bool has(std::uint8_t flags) const noexcept { return (high() & flags) != 0; }

  constexpr void set_raw(std::uint32_t raw) noexcept { raw_ = raw; }
  constexpr void set_value(std::uint32_t v) noexcept { raw_ = (raw_ & 0xff000000) | (v & 0xffffff); }
  /// Adds 1 to a number without flags, or 0 to any.
  constexpr void advance(std::uint32_t one_or_none) noexcept {
    raw_ += one_or_none;
    if (raw_ == 1u << 24 && one_or_none != 0) [[unlikely]]
      raw_ = 0;
  }
  constexpr void set_high(std::uint8_t v) noexcept { raw_ = (raw_ & 0xffffff) | std::uint32_t{v} << 24; }
  constexpr void set(std::uint8_t flags) noexcept { raw_ |= std::uint32_t{flags} << 24; }
  constexpr void clear(std::uint8_t flags) noexcept { raw_ &= ~(std::uint32_t{flags} << 24); }

 private:
  std::uint32_t raw_ = 0;
};

/// A 48-bit counter; at 100 million events a second it would wrap after a month of nothing else.
class Counter48 {
 public:
  [[nodiscard]] constexpr std::uint64_t value() const noexcept {
    return std::uint64_t{part_[2]} << 32 | std::uint64_t{part_[1]} << 16 | part_[0];
  }
  constexpr void increment() noexcept { add(1); }
  constexpr void add(std::uint64_t n) noexcept {
    const std::uint64_t sum = value() + n;
    for (unsigned i = 0; i < 3; ++i) part_[i] = static_cast<std::uint16_t>(sum >> (16 * i));
  }

 private:
  std::uint16_t part_[3] = {};
};

/// One more, but no more than so many bits hold.
[[nodiscard]] constexpr std::uint32_t saturating_increment(std::uint32_t counter, unsigned bits) noexcept {
  return counter + (counter < (1u << bits) - 1 ? 1 : 0);
}

/// Transport service of a queue pair; `unknown` until a packet says.
enum class QpTransport : std::uint8_t { rc, uc, ud, unknown };

/// Where the pairing of two directions comes from, weakest first; a stronger source overrides a weaker one.
enum class PairSource : std::uint8_t {
  none,     ///< not paired
  traffic,  ///< inferred from what the two directions say about each other
  agent,    ///< reported by a host
  cm,       ///< read from the connection's CM messages
  config,   ///< stated in the configuration
};

/// Flags of QpEntry::request. Any of them sends request packets to the slow path.
struct RequestFlag {
  static constexpr std::uint8_t unsynced = 1;   ///< no request seen and no starting PSN known
  static constexpr std::uint8_t gap = 2;        ///< an in-order responder still waits for an earlier PSN
  static constexpr std::uint8_t uncertain = 4;  ///< the last request was a READ of unknown span: the PMTU is not known
  static constexpr std::uint8_t want_pmtu = 8;  ///< learn the PMTU from the next first or middle packet
  static constexpr std::uint8_t asked = 16;     ///< with `gap`: it has sent a NAK, or will, and sends no other one
};

/// Flags of QpEntry::response; bits 0-2 are the PairSource.
struct ResponseFlag {
  static constexpr std::uint8_t source_mask = 7;
  static constexpr std::uint8_t synced = 8;     ///< a READ or ATOMIC response was seen
  static constexpr std::uint8_t watch = 16;     ///< ACKs here tell what the paired direction's responder waits for
  static constexpr std::uint8_t evidence = 32;  ///< ACKs here are wanted for pairing
  static constexpr std::uint8_t enlisted = 64;  ///< has a place among the candidates for pairing
  static constexpr std::uint8_t closed = 128;   ///< the connection was closed by CM
};

/// The hot half of an entry: one cache line.
struct alignas(64) QpEntry {
  static constexpr std::uint32_t kNoPeer = 0xffffffff;
  /// Bits of the key in `qp`: destination QPN and address family.
  static constexpr std::uint32_t kKeyMask = 0x01ffffff;
  static constexpr std::uint32_t kV6 = 0x01000000;

  std::uint64_t addresses;  ///< IPv4: source << 32 | destination, host order; IPv6: id in AddressPairs
  std::uint64_t packets;    ///< of every kind
  std::uint64_t window;     ///< bit i: the request with PSN (expected - 1 - i) was seen
  std::uint64_t bytes;      ///< frame bytes from the Ethernet header to the ICRC, without padding and FCS
  std::uint32_t qp;         ///< QPN | family << 24 | transport << 25 | PMTU code << 27 | fixed << 30 | in order << 31
  Word24 request;           ///< expected PSN of requests: highest seen + 1; RequestFlag
  Word24 response;          ///< expected PSN of READ and ATOMIC responses; ResponseFlag
  Word24 responder;         ///< while RequestFlag::gap: PSN that an in-order responder waits for; high: confidence
  std::uint32_t peer;       ///< position of the opposite direction; kNoPeer
  std::uint32_t last_seen;  ///< tick of the last packet
  std::uint64_t tally;      ///< repeats << 48 | messages

  static constexpr unsigned kRepeatShift = 48;
  /// Request messages whose last packet arrived; repeated packets do not count. 48 bits.
  [[nodiscard]] constexpr std::uint64_t messages() const noexcept {
    return tally & ((std::uint64_t{1} << kRepeatShift) - 1);
  }
  /// Requests that were seen before and that the cold half does not count yet: where they are many, it stays cold.
  [[nodiscard]] constexpr std::uint32_t repeats() const noexcept {
    return static_cast<std::uint32_t>(tally >> kRepeatShift);
  }
  /// Adds to both. False when the repeats began anew at 0: the cold half has kMostRepeats + 1 to count.
  [[nodiscard]] constexpr bool count(std::uint64_t both) noexcept {
    return !__builtin_add_overflow(tally, both, &tally);
  }
  static constexpr std::uint32_t kMostRepeats = 0xffff;

  [[nodiscard]] bool is_free() const noexcept { return qp == 0; }
  [[nodiscard]] wire::Qpn dest_qp() const noexcept { return wire::Qpn(qp & 0xffffff); }
  [[nodiscard]] bool is_v6() const noexcept { return (qp & kV6) != 0; }
  [[nodiscard]] bool paired() const noexcept { return peer != kNoPeer; }
  [[nodiscard]] bool closed() const noexcept { return response.has(ResponseFlag::closed); }
  [[nodiscard]] constexpr QpTransport transport() const noexcept { return static_cast<QpTransport>(qp >> 25 & 3); }
  void set_transport(QpTransport t) noexcept { qp = (qp & ~(3u << 25)) | static_cast<std::uint32_t>(t) << 25; }
  /// Path MTU as IBTA codes it: 1 to 5 for 256 to 4096 bytes; 0 while unknown.
  [[nodiscard]] std::uint8_t pmtu_code() const noexcept { return static_cast<std::uint8_t>(qp >> 27 & 7); }
  void set_pmtu_code(std::uint8_t code) noexcept { qp = (qp & ~(7u << 27)) | std::uint32_t{code} << 27; }
  /// Comes from the configuration: never ages.
  [[nodiscard]] bool fixed() const noexcept { return (qp >> 30 & 1) != 0; }
  void set_fixed() noexcept { qp |= 1u << 30; }
  void clear_fixed() noexcept { qp &= ~(1u << 30); }
  /// The receiver of its requests keeps no early packets: they must not be spread over paths.
  [[nodiscard]] bool in_order() const noexcept { return (qp >> 31 & 1) != 0; }
  void set_in_order() noexcept { qp |= 1u << 31; }
  void clear_in_order() noexcept { qp &= ~(1u << 31); }
  [[nodiscard]] PairSource source() const noexcept {
    return static_cast<PairSource>(response.high() & ResponseFlag::source_mask);
  }
  void set_source(PairSource s) noexcept {
    response.clear(ResponseFlag::source_mask);
    response.set(static_cast<std::uint8_t>(s));
  }
  /// How sure the pairing is, 0 to 100. 100 only for configuration and CM.
  [[nodiscard]] std::uint8_t confidence() const noexcept { return responder.high(); }
  void set_confidence(std::uint8_t percent) noexcept { responder.set_high(std::min<std::uint8_t>(percent, 100)); }
};
static_assert(sizeof(QpEntry) == 64);

/// The cold half: what only unusual packets touch.
struct QpDetail {
  Counter48 out_of_order;
  Counter48 retransmitted;  ///< without QpEntry::repeats()
  Counter48 duplicates;     ///< the same
  Counter48 ce;
  Counter48 cnps;
  std::uint16_t service;          ///< which CM service, as the owner of the table numbers them; 0: none
  std::uint32_t response_window;  ///< bit i: the response with PSN (expected - 1 - i) was seen
  // NAKs saturate; those with few bits end a connection.
  static constexpr unsigned kManyBits = 24, kFewBits = 8, kFewerBits = 7;
  static constexpr std::uint32_t kAgeBits = 25, kAgeMask = (1u << kAgeBits) - 1;
  std::uint32_t nak_psn_sequence : kManyBits;
  std::uint32_t nak_invalid_request : kFewBits;
  std::uint32_t rnr_naks : kManyBits;
  std::uint32_t nak_remote_access : kFewBits;
  std::uint32_t first_psn : 24;  ///< of the connection's first request
  std::uint32_t first_psn_known : 1;
  std::uint32_t nak_remote_operational : kFewerBits;
  std::uint32_t first_seen : kAgeBits;  ///< age tick; a year
  std::uint32_t nak_invalid_rd : kFewerBits;

  /// Age ticks since the entry was made.
  [[nodiscard]] constexpr std::uint32_t age_ticks(std::uint64_t now_ns) const noexcept {
    return (age_tick_of(now_ns) - first_seen) & kAgeMask;
  }
};
static_assert(sizeof(QpDetail) == 52);

/// Requests that were seen before.
[[nodiscard]] constexpr std::uint64_t retransmitted(const QpEntry& e, const QpDetail& d) noexcept {
  return d.retransmitted.value() + e.repeats();
}
/// Of those and others, requests that an in-order RC responder would count as duplicates. UC has none.
[[nodiscard]] constexpr std::uint64_t duplicates(const QpEntry& e, const QpDetail& d) noexcept {
  return d.duplicates.value() + (e.transport() == QpTransport::rc ? e.repeats() : 0);
}
/// Adds requests that were seen before to the cold half.
constexpr void count_repeats(const QpEntry& e, QpDetail& d, std::uint32_t repeats) noexcept {
  d.retransmitted.add(repeats);
  if (e.transport() == QpTransport::rc) d.duplicates.add(repeats);
}

}  // namespace weft::tables
