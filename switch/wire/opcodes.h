// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The opcode table: which headers follow a BTH, and what may come after them. Parser, builder and validation read
// this one table (IBTA 9.2 "OpCode", annexes A14 and A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "switch/wire/ib.h"

namespace weft::wire {

/// Opcodes that RoCEv2 hosts and weft use. Top three bits: transport; low five: operation.
enum class Opcode : std::uint8_t {
  RC_SEND_FIRST = 0x00,
  RC_SEND_MIDDLE = 0x01,
  RC_SEND_LAST = 0x02,
  RC_SEND_LAST_IMM = 0x03,
  RC_SEND_ONLY = 0x04,
  RC_SEND_ONLY_IMM = 0x05,
  RC_RDMA_WRITE_FIRST = 0x06,
  RC_RDMA_WRITE_MIDDLE = 0x07,
  RC_RDMA_WRITE_LAST = 0x08,
  RC_RDMA_WRITE_LAST_IMM = 0x09,
  RC_RDMA_WRITE_ONLY = 0x0a,
  RC_RDMA_WRITE_ONLY_IMM = 0x0b,
  RC_RDMA_READ_REQUEST = 0x0c,
  RC_RDMA_READ_RESPONSE_FIRST = 0x0d,
  RC_RDMA_READ_RESPONSE_MIDDLE = 0x0e,
  RC_RDMA_READ_RESPONSE_LAST = 0x0f,
  RC_RDMA_READ_RESPONSE_ONLY = 0x10,
  RC_ACKNOWLEDGE = 0x11,
  RC_ATOMIC_ACKNOWLEDGE = 0x12,
  RC_CMP_SWAP = 0x13,
  RC_FETCH_ADD = 0x14,
  RC_SEND_LAST_INV = 0x16,
  RC_SEND_ONLY_INV = 0x17,
  UC_SEND_FIRST = 0x20,
  UC_SEND_MIDDLE = 0x21,
  UC_SEND_LAST = 0x22,
  UC_SEND_LAST_IMM = 0x23,
  UC_SEND_ONLY = 0x24,
  UC_SEND_ONLY_IMM = 0x25,
  UC_RDMA_WRITE_FIRST = 0x26,
  UC_RDMA_WRITE_MIDDLE = 0x27,
  UC_RDMA_WRITE_LAST = 0x28,
  UC_RDMA_WRITE_LAST_IMM = 0x29,
  UC_RDMA_WRITE_ONLY = 0x2a,
  UC_RDMA_WRITE_ONLY_IMM = 0x2b,
  UD_SEND_ONLY = 0x64,
  UD_SEND_ONLY_IMM = 0x65,
  CNP = 0x81,
};

/// Transport service: the top three bits of an opcode. RD (2) and XRC (5) opcodes are in no row.
enum class Transport : std::uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5 };

[[nodiscard]] constexpr Transport transport_of(std::uint8_t opcode) noexcept {
  return static_cast<Transport>(opcode >> 5);
}

/// A set of headers behind the BTH, in wire order from the lowest bit. Its own type, so that an opcode cannot be
/// tested with a mask or the other way round.
class HeaderMask {
 public:
  constexpr HeaderMask() = default;
  [[nodiscard]] constexpr bool has(HeaderMask m) const noexcept { return (bits_ & m.bits_) == m.bits_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  friend constexpr HeaderMask operator|(HeaderMask a, HeaderMask b) noexcept {
    return HeaderMask(static_cast<std::uint8_t>(a.bits_ | b.bits_));
  }
  friend constexpr bool operator==(HeaderMask, HeaderMask) noexcept = default;

  static const HeaderMask deth, reth, atomic_eth, aeth, atomic_ack_eth, immdt, ieth, cnp_reserved;

 private:
  constexpr explicit HeaderMask(std::uint8_t bits) noexcept : bits_(bits) {}
  std::uint8_t bits_ = 0;
};
inline constexpr HeaderMask HeaderMask::deth{0x01};
inline constexpr HeaderMask HeaderMask::reth{0x02};
inline constexpr HeaderMask HeaderMask::atomic_eth{0x04};
inline constexpr HeaderMask HeaderMask::aeth{0x08};
inline constexpr HeaderMask HeaderMask::atomic_ack_eth{0x10};
inline constexpr HeaderMask HeaderMask::immdt{0x20};
inline constexpr HeaderMask HeaderMask::ieth{0x40};
inline constexpr HeaderMask HeaderMask::cnp_reserved{0x80};

/// Place of a packet in its message.
enum class MessagePart : std::uint8_t { none, first, middle, last, only };

/// Who sends it. `notification` is the CNP.
enum class OpcodeRole : std::uint8_t { unknown, request, response, notification };

/// What may follow the headers. Padding is allowed exactly where payload is.
enum class PayloadRule : std::uint8_t {
  none,      ///< READ request, atomics, ACK, CNP
  optional,  ///< "only" packets: 0 to PMTU bytes
  required,  ///< "first" and "middle": PMTU bytes; "last": 1 to PMTU bytes (IBTA 9.7.4.1.6)
};

/// One row of the opcode table. A row of zeros is an unknown opcode.
struct OpcodeInfo {
  HeaderMask headers{};           ///< behind the BTH
  std::uint8_t header_bytes = 0;  ///< BTH and `headers`; 0: unknown opcode
  PayloadRule payload = PayloadRule::none;
  MessagePart part = MessagePart::none;
  OpcodeRole role = OpcodeRole::unknown;

  [[nodiscard]] constexpr bool known() const noexcept { return header_bytes != 0; }
  [[nodiscard]] constexpr bool has(HeaderMask m) const noexcept { return headers.has(m); }
  [[nodiscard]] constexpr bool may_carry_payload() const noexcept { return payload != PayloadRule::none; }
  [[nodiscard]] constexpr bool is_request() const noexcept { return role == OpcodeRole::request; }
  [[nodiscard]] constexpr bool is_response() const noexcept { return role == OpcodeRole::response; }
  [[nodiscard]] constexpr bool starts_message() const noexcept {
    return part == MessagePart::first || part == MessagePart::only;
  }
  [[nodiscard]] constexpr bool ends_message() const noexcept {
    return part == MessagePart::last || part == MessagePart::only;
  }
  /// Bytes from the start of the BTH to `header`, which must be in `headers`.
  [[nodiscard]] constexpr std::size_t offset_of(HeaderMask header) const noexcept;
};
static_assert(sizeof(OpcodeInfo) == 5);

/// Headers in wire order with their sizes.
struct ExtensionHeader {
  HeaderMask mask;
  std::uint8_t bytes;
};
inline constexpr std::array<ExtensionHeader, 8> kExtensionHeaders{{
    {HeaderMask::deth, sizeof(Deth)},
    {HeaderMask::reth, sizeof(Reth)},
    {HeaderMask::atomic_eth, sizeof(AtomicEth)},
    {HeaderMask::aeth, sizeof(Aeth)},
    {HeaderMask::atomic_ack_eth, sizeof(AtomicAckEth)},
    {HeaderMask::immdt, sizeof(ImmDt)},
    {HeaderMask::ieth, sizeof(Ieth)},
    {HeaderMask::cnp_reserved, kCnpReservedBytes},
}};

constexpr std::size_t OpcodeInfo::offset_of(HeaderMask header) const noexcept {
  std::size_t at = sizeof(Bth);
  for (const auto& e : kExtensionHeaders) {
    if (e.mask == header) break;
    if (headers.has(e.mask)) at += e.bytes;
  }
  return at;
}

namespace detail {

constexpr OpcodeInfo opcode_row(OpcodeRole role, MessagePart part, PayloadRule payload, HeaderMask headers = {}) {
  OpcodeInfo row;
  row.role = role;
  row.part = part;
  row.payload = payload;
  row.headers = headers;
  row.header_bytes = sizeof(Bth);
  for (const auto& e : kExtensionHeaders) {
    if (headers.has(e.mask)) row.header_bytes = static_cast<std::uint8_t>(row.header_bytes + e.bytes);
  }
  return row;
}

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> t{};
  const auto set = [&t](Opcode o, OpcodeInfo row) { t[static_cast<std::uint8_t>(o)] = row; };
  constexpr auto request = OpcodeRole::request, response = OpcodeRole::response;
  constexpr auto first = MessagePart::first, middle = MessagePart::middle, last = MessagePart::last,
                 only = MessagePart::only;
  constexpr auto none = PayloadRule::none, optional = PayloadRule::optional, required = PayloadRule::required;
  constexpr auto reth = HeaderMask::reth, aeth = HeaderMask::aeth, immdt = HeaderMask::immdt, ieth = HeaderMask::ieth,
                 deth = HeaderMask::deth;

  set(Opcode::RC_SEND_FIRST, opcode_row(request, first, required));
  set(Opcode::RC_SEND_MIDDLE, opcode_row(request, middle, required));
  set(Opcode::RC_SEND_LAST, opcode_row(request, last, required));
  set(Opcode::RC_SEND_LAST_IMM, opcode_row(request, last, required, immdt));
  set(Opcode::RC_SEND_ONLY, opcode_row(request, only, optional));
  set(Opcode::RC_SEND_ONLY_IMM, opcode_row(request, only, optional, immdt));
  set(Opcode::RC_RDMA_WRITE_FIRST, opcode_row(request, first, required, reth));
  set(Opcode::RC_RDMA_WRITE_MIDDLE, opcode_row(request, middle, required));
  set(Opcode::RC_RDMA_WRITE_LAST, opcode_row(request, last, required));
  set(Opcode::RC_RDMA_WRITE_LAST_IMM, opcode_row(request, last, required, immdt));
  set(Opcode::RC_RDMA_WRITE_ONLY, opcode_row(request, only, optional, reth));
  set(Opcode::RC_RDMA_WRITE_ONLY_IMM, opcode_row(request, only, optional, reth | immdt));
  set(Opcode::RC_RDMA_READ_REQUEST, opcode_row(request, only, none, reth));
  set(Opcode::RC_RDMA_READ_RESPONSE_FIRST, opcode_row(response, first, required, aeth));
  set(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, opcode_row(response, middle, required));
  set(Opcode::RC_RDMA_READ_RESPONSE_LAST, opcode_row(response, last, required, aeth));
  set(Opcode::RC_RDMA_READ_RESPONSE_ONLY, opcode_row(response, only, optional, aeth));
  set(Opcode::RC_ACKNOWLEDGE, opcode_row(response, only, none, aeth));
  set(Opcode::RC_ATOMIC_ACKNOWLEDGE, opcode_row(response, only, none, aeth | HeaderMask::atomic_ack_eth));
  set(Opcode::RC_CMP_SWAP, opcode_row(request, only, none, HeaderMask::atomic_eth));
  set(Opcode::RC_FETCH_ADD, opcode_row(request, only, none, HeaderMask::atomic_eth));
  set(Opcode::RC_SEND_LAST_INV, opcode_row(request, last, required, ieth));
  set(Opcode::RC_SEND_ONLY_INV, opcode_row(request, only, optional, ieth));
  set(Opcode::UC_SEND_FIRST, opcode_row(request, first, required));
  set(Opcode::UC_SEND_MIDDLE, opcode_row(request, middle, required));
  set(Opcode::UC_SEND_LAST, opcode_row(request, last, required));
  set(Opcode::UC_SEND_LAST_IMM, opcode_row(request, last, required, immdt));
  set(Opcode::UC_SEND_ONLY, opcode_row(request, only, optional));
  set(Opcode::UC_SEND_ONLY_IMM, opcode_row(request, only, optional, immdt));
  set(Opcode::UC_RDMA_WRITE_FIRST, opcode_row(request, first, required, reth));
  set(Opcode::UC_RDMA_WRITE_MIDDLE, opcode_row(request, middle, required));
  set(Opcode::UC_RDMA_WRITE_LAST, opcode_row(request, last, required));
  set(Opcode::UC_RDMA_WRITE_LAST_IMM, opcode_row(request, last, required, immdt));
  set(Opcode::UC_RDMA_WRITE_ONLY, opcode_row(request, only, optional, reth));
  set(Opcode::UC_RDMA_WRITE_ONLY_IMM, opcode_row(request, only, optional, reth | immdt));
  set(Opcode::UD_SEND_ONLY, opcode_row(request, only, optional, deth));
  set(Opcode::UD_SEND_ONLY_IMM, opcode_row(request, only, optional, deth | immdt));
  set(Opcode::CNP, opcode_row(OpcodeRole::notification, only, none, HeaderMask::cnp_reserved));
  return t;
}

}  // namespace detail

/// Indexed by the raw opcode.
inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = detail::make_opcode_table();

[[nodiscard]] constexpr const OpcodeInfo& opcode_info(std::uint8_t raw) noexcept {
  return kOpcodeTable[raw];
}
[[nodiscard]] constexpr const OpcodeInfo& opcode_info(Opcode o) noexcept {
  return kOpcodeTable[static_cast<std::uint8_t>(o)];
}

/// The largest headers of any row: BTH and AtomicETH.
inline constexpr std::size_t kMaxRoceHeaderBytes = sizeof(Bth) + sizeof(AtomicEth);

/// "RC_SEND_FIRST" as the enumerator is spelled; "UNKNOWN" when the opcode is in no row.
[[nodiscard]] std::string_view opcode_name(std::uint8_t raw) noexcept;
[[nodiscard]] inline std::string_view opcode_name(Opcode o) noexcept {
  return opcode_name(static_cast<std::uint8_t>(o));
}
/// The opcode whose enumerator is spelled `name`; nullopt when there is none.
[[nodiscard]] std::optional<Opcode> opcode_from_name(std::string_view name) noexcept;

}  // namespace weft::wire
