// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// InfiniBand transport headers as RoCEv2 carries them behind UDP (IBTA volume 1 chapter 9, annexes A3, A14, A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/types.h"

namespace weft::wire {

/// Bytes of the invariant CRC at the end of every RoCEv2 packet.
inline constexpr std::size_t kIcrcBytes = 4;

/// QP number of the general service interface, where CM messages go.
inline constexpr Qpn kGsiQpn{1};
/// Q_Key that QP1 uses (IBTA 10.2.5).
inline constexpr std::uint32_t kGsiQkey = 0x80010000;
/// The partition key that every port has: full member of the default partition.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

/// Base transport header, 12 bytes (IBTA 9.2; FECN and BECN: annex A17.9.3).
struct Bth {
  std::uint8_t opcode;
  std::uint8_t flags;  ///< SE, M, PadCnt, TVer
  be16 pkey;
  std::uint8_t fecn_becn;  ///< FECN, BECN, six reserved bits: "resv8a", not covered by the ICRC
  be24 dest_qp;
  std::uint8_t ack_reserved;  ///< A, seven reserved bits
  be24 psn;

  /// Solicited event.
  [[nodiscard]] constexpr bool solicited() const noexcept { return (flags & 0x80) != 0; }
  constexpr void set_solicited(bool v) noexcept { flags = static_cast<std::uint8_t>((flags & 0x7f) | (v ? 0x80 : 0)); }
  /// Migration state: set when migrated, as RoCE is but for CNPs of ConnectX.
  [[nodiscard]] constexpr bool migrated() const noexcept { return (flags & 0x40) != 0; }
  constexpr void set_migrated(bool v) noexcept { flags = static_cast<std::uint8_t>((flags & 0xbf) | (v ? 0x40 : 0)); }
  /// Bytes that fill the payload up to a multiple of four, 0-3.
  [[nodiscard]] constexpr std::uint8_t pad_count() const noexcept { return flags >> 4 & 3; }
  constexpr void set_pad_count(std::uint8_t v) noexcept {
    flags = static_cast<std::uint8_t>((flags & 0xcf) | (v & 3) << 4);
  }
  /// Transport header version, 0.
  [[nodiscard]] constexpr std::uint8_t transport_version() const noexcept { return flags & 0x0f; }
  constexpr void set_transport_version(std::uint8_t v) noexcept {
    flags = static_cast<std::uint8_t>((flags & 0xf0) | (v & 0x0f));
  }
  /// Forward explicit congestion notification.
  [[nodiscard]] constexpr bool fecn() const noexcept { return (fecn_becn & 0x80) != 0; }
  constexpr void set_fecn(bool v) noexcept {
    fecn_becn = static_cast<std::uint8_t>((fecn_becn & 0x7f) | (v ? 0x80 : 0));
  }
  /// Backward explicit congestion notification, set in a CNP.
  [[nodiscard]] constexpr bool becn() const noexcept { return (fecn_becn & 0x40) != 0; }
  constexpr void set_becn(bool v) noexcept {
    fecn_becn = static_cast<std::uint8_t>((fecn_becn & 0xbf) | (v ? 0x40 : 0));
  }
  /// Acknowledge request.
  [[nodiscard]] constexpr bool ack_req() const noexcept { return (ack_reserved & 0x80) != 0; }
  constexpr void set_ack_req(bool v) noexcept {
    ack_reserved = static_cast<std::uint8_t>((ack_reserved & 0x7f) | (v ? 0x80 : 0));
  }
};
static_assert(sizeof(Bth) == 12 && alignof(Bth) == 1);
static_assert(offsetof(Bth, pkey) == 2 && offsetof(Bth, fecn_becn) == 4 && offsetof(Bth, dest_qp) == 5);
static_assert(offsetof(Bth, ack_reserved) == 8 && offsetof(Bth, psn) == 9);

/// RDMA extended transport header, 16 bytes (IBTA 9.3).
struct Reth {
  be64 virtual_address;
  be32 rkey;
  be32 dma_length;
};
static_assert(sizeof(Reth) == 16 && offsetof(Reth, rkey) == 8 && offsetof(Reth, dma_length) == 12);

/// Kinds of an AETH syndrome: bits 6-5. The value 2 is reserved.
enum class AethKind : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };

/// NAK codes (IBTA 9.7.5.2). Values above are reserved.
enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

/// Credit code of an ACK that says nothing about credits.
inline constexpr std::uint8_t kInvalidCreditCode = 31;

/// The AETH syndrome byte (IBTA 9.7.5.2): bit 7 reserved, bits 6-5 kind, bits 4-0 credit code, RNR timer or NAK code.
class Syndrome {
 public:
  static constexpr std::uint8_t kKindMask = 0x60;  ///< all zero for an ACK
  constexpr explicit Syndrome(std::uint8_t raw) noexcept : raw_(raw) {}
  static constexpr Syndrome ack(std::uint8_t credit_code = kInvalidCreditCode) noexcept {
    return Syndrome(static_cast<std::uint8_t>(credit_code & 31));
  }
  static constexpr Syndrome rnr_nak(std::uint8_t timer) noexcept {
    return Syndrome(static_cast<std::uint8_t>(0x20 | (timer & 31)));
  }
  static constexpr Syndrome nak(NakCode code) noexcept {
    return Syndrome(static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code)));
  }

  [[nodiscard]] constexpr std::uint8_t raw() const noexcept { return raw_; }
  [[nodiscard]] constexpr AethKind kind() const noexcept { return static_cast<AethKind>(raw_ >> 5 & 3); }
  [[nodiscard]] constexpr bool is_ack() const noexcept { return kind() == AethKind::ack; }
  [[nodiscard]] constexpr bool is_nak() const noexcept { return kind() == AethKind::nak; }
  [[nodiscard]] constexpr bool is_rnr_nak() const noexcept { return kind() == AethKind::rnr_nak; }
  /// True for the NAK that asks for retransmission from its PSN.
  [[nodiscard]] constexpr bool is_sequence_nak() const noexcept {
    return is_nak() && code() == NakCode::psn_sequence_error;
  }
  /// Meaning depends on kind().
  [[nodiscard]] constexpr std::uint8_t value() const noexcept { return raw_ & 31; }
  [[nodiscard]] constexpr NakCode code() const noexcept { return static_cast<NakCode>(value()); }
  friend constexpr bool operator==(Syndrome, Syndrome) noexcept = default;

 private:
  std::uint8_t raw_;
};
static_assert(sizeof(Syndrome) == 1);

/// Time in nanoseconds to wait after an RNR NAK with this timer code, 0-31 (IBTA 9.7.5.2).
[[nodiscard]] constexpr std::uint64_t rnr_timer_ns(std::uint8_t code) noexcept {
  constexpr std::array<std::uint32_t, 32> kHundredthsOfMs{
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::uint64_t{kHundredthsOfMs[code & 31]} * 10'000;
}

/// Receive work requests that a credit code stands for, codes 0-30 (IBTA 9.7.7.2). kInvalidCreditCode has none and
/// gives 0xffffffff: no limit.
[[nodiscard]] constexpr std::uint32_t credit_count(std::uint8_t code) noexcept {
  constexpr std::array<std::uint32_t, 32> kCredits{
      0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 0xffffffff};
  return kCredits[code & 31];
}

/// ACK extended transport header, 4 bytes (IBTA 9.3).
struct Aeth {
  std::uint8_t syndrome;
  be24 msn;  ///< message sequence number

  [[nodiscard]] constexpr Syndrome decoded() const noexcept { return Syndrome(syndrome); }
  constexpr void set(Syndrome s) noexcept { syndrome = s.raw(); }
};
static_assert(sizeof(Aeth) == 4 && offsetof(Aeth, msn) == 1);

/// Atomic extended transport header, 28 bytes (IBTA 9.3).
struct AtomicEth {
  be64 virtual_address;
  be32 rkey;
  be64 swap_add;
  be64 compare;
};
static_assert(sizeof(AtomicEth) == 28 && alignof(AtomicEth) == 1);
static_assert(offsetof(AtomicEth, rkey) == 8 && offsetof(AtomicEth, swap_add) == 12);
static_assert(offsetof(AtomicEth, compare) == 20);

/// Atomic acknowledge extended transport header, 8 bytes: the value before the operation (IBTA 9.3).
struct AtomicAckEth {
  be64 original;
};
static_assert(sizeof(AtomicAckEth) == 8);

/// Datagram extended transport header, 8 bytes (IBTA 9.3).
struct Deth {
  be32 qkey;
  std::uint8_t reserved;
  be24 source_qp;
};
static_assert(sizeof(Deth) == 8 && offsetof(Deth, source_qp) == 5);

/// Immediate data, 4 bytes (IBTA 9.3).
struct ImmDt {
  be32 data;
};
static_assert(sizeof(ImmDt) == 4);

/// Invalidate extended transport header, 4 bytes (IBTA 9.3).
struct Ieth {
  be32 rkey;
};
static_assert(sizeof(Ieth) == 4);

/// Reserved bytes behind the BTH of a congestion notification packet (annex A17.9.3).
inline constexpr std::size_t kCnpReservedBytes = 16;

}  // namespace weft::wire
