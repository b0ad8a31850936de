// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Communication management messages (IBTA volume 1 chapter 12): how RDMA hosts agree on queue pairs. Over RoCEv2 they
// are datagrams of 256 bytes to QP1. All values are in host order; times are the wire's codes, see cm_timeout_ns().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "switch/wire/addresses.h"
#include "switch/wire/parsed.h"
#include "switch/wire/types.h"

namespace weft::wire {

/// Bytes of a management datagram and of its header.
inline constexpr std::size_t kMadBytes = 256;
inline constexpr std::size_t kMadHeaderBytes = 24;

/// Header of every management datagram (IBTA 13.4.3).
struct MadHeader {
  std::uint8_t base_version;
  std::uint8_t management_class;
  std::uint8_t class_version;
  std::uint8_t method;
  be16 status;
  be16 class_specific;
  be64 transaction_id;
  be16 attribute;
  be16 reserved;
  be32 attribute_modifier;

  static constexpr std::uint8_t kBaseVersion = 1, kCmClass = 0x07, kCmClassVersion = 2, kMethodSend = 0x03;
};
static_assert(sizeof(MadHeader) == kMadHeaderBytes && alignof(MadHeader) == 1);
static_assert(offsetof(MadHeader, transaction_id) == 8 && offsetof(MadHeader, attribute) == 16);

/// CM messages by their attribute identifier.
enum class CmAttribute : std::uint16_t {
  req = 0x0010,
  mra = 0x0011,
  rej = 0x0012,
  rep = 0x0013,
  rtu = 0x0014,
  dreq = 0x0015,
  drep = 0x0016,
  sidr_req = 0x0017,
  sidr_rep = 0x0018,
};

/// The first rule that a CM datagram breaks.
enum class CmValidity : std::uint8_t {
  ok,
  truncated,         ///< shorter than 256 bytes
  oversized,         ///< longer: every management datagram has 256 bytes (IBTA 13.4.2)
  base_version,      ///< not 1
  management_class,  ///< not communication management
  class_version,     ///< not 2
  method,            ///< not Send
  attribute,         ///< none of CmAttribute
  rej_info_length,   ///< additional reject information longer than its field
};
inline constexpr std::uint8_t kCmValidityCount = static_cast<std::uint8_t>(CmValidity::rej_info_length) + 1;

/// The enumerator as spelled, and one sentence that says what is wrong.
[[nodiscard]] std::string_view name(CmValidity v) noexcept;
[[nodiscard]] std::string_view description(CmValidity v) noexcept;
/// "REQ", "SIDR_REP", ...
[[nodiscard]] std::string_view name(CmAttribute a) noexcept;

/// A port's global identifier. Over RoCEv2 it holds the IPv6 or the IPv4-mapped address.
using Gid = std::array<std::uint8_t, 16>;
[[nodiscard]] IpAddress gid_address(const Gid& gid) noexcept;

/// One of the two paths of a REQ.
struct CmPath {
  std::uint16_t local_lid = 0xffff;  ///< over RoCE permissive, 0xffff
  std::uint16_t remote_lid = 0xffff;
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t packet_rate = 0;  ///< 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;  ///< 4 bits
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  ///< 5 bits

  friend bool operator==(const CmPath&, const CmPath&) = default;
};

/// Transport service of a connection, as REQ spells it.
enum class CmTransport : std::uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };

/// Request for communication (12.6.5).
struct CmReq {
  std::uint32_t local_comm_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn{};
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;  ///< 24 bits
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;                ///< 24 bits
  std::uint8_t remote_cm_response_timeout = 0;  ///< 5 bits
  CmTransport transport = CmTransport::rc;
  bool end_to_end_flow_control = false;
  Psn starting_psn{};
  std::uint8_t local_cm_response_timeout = 0;  ///< 5 bits
  std::uint8_t retry_count = 0;                ///< 3 bits
  std::uint16_t pkey = 0xffff;
  std::uint8_t path_mtu = 0;  ///< 4 bits: 1 is 256 bytes, 5 is 4096
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits; 7: without end
  std::uint8_t max_cm_retries = 0;   ///< 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  ///< 3 bits; 1 is XRC
  CmPath primary{};
  CmPath alternate{};
  bool sap_supported = false;  ///< the bit behind the alternate path
  std::array<std::uint8_t, 92> private_data{};

  friend bool operator==(const CmReq&, const CmReq&) = default;
};

/// Which message an MRA or a REJ answers.
enum class CmAnswered : std::uint8_t { req = 0, rep = 1, other = 2, reserved = 3 };

/// Message receipt acknowledgement (12.6.6): wait longer.
struct CmMra {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmAnswered answered = CmAnswered::req;
  std::uint8_t service_timeout = 0;  ///< 5 bits
  std::array<std::uint8_t, 222> private_data{};

  friend bool operator==(const CmMra&, const CmMra&) = default;
};

/// Reasons of a REJ that RoCE hosts meet (12.6.7.2). Other values occur.
enum class CmRejectReason : std::uint16_t {
  no_qp = 1,
  no_resources = 3,
  timeout = 4,
  unsupported = 5,
  invalid_comm_id = 6,
  invalid_comm_instance = 7,
  invalid_service_id = 8,
  invalid_transport = 9,
  stale_connection = 10,
  invalid_gid = 12,
  invalid_path_mtu = 26,
  insufficient_responder_resources = 27,
  consumer_defined = 28,
  invalid_rnr_retry = 29,
  duplicate_local_comm_id = 30,
  invalid_class_version = 31,
};

/// Reject (12.6.7).
struct CmRej {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmAnswered rejected = CmAnswered::req;
  std::uint8_t info_length = 0;  ///< used bytes of `info`, 0-72
  CmRejectReason reason = CmRejectReason::consumer_defined;
  std::array<std::uint8_t, 72> info{};
  std::array<std::uint8_t, 148> private_data{};

  friend bool operator==(const CmRej&, const CmRej&) = default;
};

/// Reply to request for communication (12.6.8).
struct CmRep {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn{};
  std::uint32_t local_eecn = 0;  ///< 24 bits
  Psn starting_psn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   ///< 5 bits
  std::uint8_t failover_accepted = 0;  ///< 2 bits
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  std::array<std::uint8_t, 196> private_data{};

  friend bool operator==(const CmRep&, const CmRep&) = default;
};

/// Ready to use (12.6.9).
struct CmRtu {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::array<std::uint8_t, 224> private_data{};

  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

/// Request to release the connection (12.6.10).
struct CmDreq {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn remote_qpn{};
  std::array<std::uint8_t, 220> private_data{};

  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

/// Reply to that request (12.6.11).
struct CmDrep {
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::array<std::uint8_t, 224> private_data{};

  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

/// Service identifier resolution request (12.11.1), for datagram QPs.
struct CmSidrReq {
  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0xffff;
  std::uint64_t service_id = 0;
  std::array<std::uint8_t, 216> private_data{};

  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

/// Its response (12.11.2).
struct CmSidrRep {
  std::uint32_t request_id = 0;
  std::uint8_t status = 0;  ///< 0: the QPN and Q_Key are valid
  std::uint8_t info_length = 0;
  Qpn qpn{};
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  std::array<std::uint8_t, 72> info{};
  std::array<std::uint8_t, 136> private_data{};

  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

/// A CM message with the header fields that matter.
struct CmMessage {
  std::uint64_t transaction_id = 0;
  std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep> body{};

  [[nodiscard]] CmAttribute attribute() const noexcept;
  friend bool operator==(const CmMessage&, const CmMessage&) = default;
};

/// Decodes a management datagram. `out` is only written when the result is ok. Reserved bits are ignored.
[[nodiscard]] CmValidity parse_cm(std::span<const std::uint8_t> mad, CmMessage& out) noexcept;

/// Encodes a message; bits beyond a field's width are discarded, reserved ones are 0.
[[nodiscard]] std::array<std::uint8_t, kMadBytes> build_cm(const CmMessage& message) noexcept;

/// The datagram in a frame of kind roce that goes to QP1, within its `contiguous` first bytes; empty otherwise.
[[nodiscard]] std::span<const std::uint8_t> mad_in_frame(const std::uint8_t* frame, std::uint32_t contiguous,
                                                         const Parsed& parsed) noexcept;

/// 4.096 us * 2^code: what the five-bit timeout fields mean (12.7).
[[nodiscard]] constexpr std::uint64_t cm_timeout_ns(std::uint8_t code) noexcept {
  constexpr std::uint64_t kUnitNs = 4096;
  return kUnitNs << (code & 31);
}

/// What rdma_cm puts before the consumer's private data of REQ and SIDR_REQ (IBTA annex A11).
struct CmaHeader {
  std::uint8_t version = 0;  ///< major << 4 | minor, 0
  std::uint16_t source_port = 0;
  IpAddress source{};  ///< of the same family as `destination`
  IpAddress destination{};

  static constexpr std::size_t kBytes = 36;
  friend bool operator==(const CmaHeader&, const CmaHeader&) = default;
};

/// nullopt when the version is not 0 or the IP version is neither 4 nor 6.
[[nodiscard]] std::optional<CmaHeader> parse_cma(std::span<const std::uint8_t> private_data) noexcept;
[[nodiscard]] std::array<std::uint8_t, CmaHeader::kBytes> build_cma(const CmaHeader& header) noexcept;

/// The destination port that rdma_cm puts into a service identifier, and the port space before it (annex A11).
struct CmaServiceId {
  std::uint16_t port_space = 0;
  std::uint16_t port = 0;

  static constexpr std::uint16_t kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f;
  [[nodiscard]] constexpr std::uint64_t encode() const noexcept { return std::uint64_t{port_space} << 16 | port; }
  static constexpr CmaServiceId decode(std::uint64_t service_id) noexcept {
    return {static_cast<std::uint16_t>(service_id >> 16), static_cast<std::uint16_t>(service_id)};
  }
};

}  // namespace weft::wire
