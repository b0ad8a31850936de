// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packets as bytes: a prepared Ethernet, IP and UDP header per path, RoCE headers behind it, payload by reference.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nic/rnic/packet.h"
#include "switch/wire/addresses.h"
#include "switch/wire/headers.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parsed.h"
#include "switch/wire/telemetry.h"

namespace weft::nic {

/// Bytes of the longest headers: Ethernet, IPv4 with its options, UDP, BTH with AtomicETH.
inline constexpr std::size_t kMaxHeadBytes = sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) +
                                             wire::kIntOptionBytes + sizeof(wire::UdpHeader) +
                                             wire::kMaxRoceHeaderBytes;

/// Bytes of the longest headers before the BTH without options, rounded up.
inline constexpr std::size_t kTemplateBytes = 64;
static_assert(sizeof(wire::EthernetHeader) + sizeof(wire::Ipv6Header) + sizeof(wire::UdpHeader) <= kTemplateBytes &&
              kTemplateBytes <= kMaxHeadBytes);

/// A way to a peer.
struct Path {
  wire::MacAddress source_mac{};
  wire::MacAddress destination_mac{};
  wire::IpAddress source{};  ///< of the same family as `destination`
  wire::IpAddress destination{};
  std::uint16_t source_port = 49152;
  std::uint8_t ttl = 64;
  std::uint32_t flow_label = 0;
};

/// A packet to be sent. On the wire: `head`, `payload`, `pad` zero bytes, four bytes of ICRC.
struct TxFrame {
  std::span<const std::uint8_t> head;
  const Payload* payload = nullptr;
  std::uint8_t pad = 0;
  wire::RoceLayout layout{};

  [[nodiscard]] std::uint32_t bytes() const noexcept {
    return layout.icrc + static_cast<std::uint32_t>(wire::kIcrcBytes);
  }
};

/// Copies a frame together, ICRC included; payload without values becomes zeros. Returns its length, or 0 when `out` is
/// too small.
std::size_t copy_frame(const TxFrame& frame, std::span<std::uint8_t> out) noexcept;

/// Takes packets from an RNIC. References in a frame are good during the call only.
class TxSink {
 public:
  virtual ~TxSink() = default;
  /// False to be asked again later; the RNIC keeps what it has to send.
  [[nodiscard]] virtual bool ready() noexcept { return true; }
  virtual void send(const TxFrame& frame) noexcept = 0;
};

/// Headers up to UDP, written once.
class HeaderTemplate {
 public:
  /// @param telemetry  with the option of switch/wire/telemetry.h, which IPv6 has not
  void set(const Path& path, bool telemetry = false) noexcept;
  [[nodiscard]] const Path& path() const noexcept { return path_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Copies the headers before `udp_payload` bytes, with lengths, TOS and checksum. `out` has room for kMaxHeadBytes,
  /// of which kTemplateBytes may all be overwritten.
  /// @param echo  what the option takes back to the peer; nullptr: it collects
  void write(std::uint8_t* out, std::uint8_t tos, std::uint32_t udp_payload,
             const wire::IntPath* echo = nullptr) const noexcept;
  /// Layout of a frame whose UDP payload has so many bytes.
  [[nodiscard]] wire::RoceLayout layout(std::uint32_t udp_payload) const noexcept {
    return {sizeof(wire::EthernetHeader), static_cast<std::uint32_t>(size_ - sizeof(wire::UdpHeader)),
            static_cast<std::uint32_t>(size_ + udp_payload - wire::kIcrcBytes), path_.source.is_v6()};
  }

 private:
  std::uint32_t write_telemetry(std::uint8_t* out, const wire::IntPath* echo) const noexcept;

  Path path_{};
  std::size_t size_ = 0;
  bool telemetry_ = false;
  std::uint32_t checksum_base_ = 0;  ///< IPv4: sum of all words but those with TOS, length and checksum
  std::array<std::uint8_t, kMaxHeadBytes> bytes_{};
};

/// Writes BTH and what the opcode asks for; returns the bytes. `out` has room for kMaxRoceHeaderBytes.
std::size_t encode(const Packet& packet, wire::Qpn dest_qp, std::uint8_t* out) noexcept;

/// A whole frame for a packet: headers into `head`, which has room for kMaxHeadBytes.
/// @param echo  see HeaderTemplate::write()
TxFrame make_frame(const HeaderTemplate& to, std::uint8_t tos, const Packet& packet, wire::Qpn dest_qp,
                   std::uint8_t* head, const wire::IntPath* echo = nullptr) noexcept;

/// Reads the packet in a frame of kind roce with an RC opcode. Payload that is not among the `contiguous` bytes at
/// `frame` was elided, and has a length but no values.
void decode(const std::uint8_t* frame, std::uint32_t contiguous, const wire::Parsed& parsed, Packet& out) noexcept;

}  // namespace weft::nic
