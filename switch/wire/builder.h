// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Builds whole frames for tests, tools and packets made off the data path. It allocates; write_cnp() and its siblings
// in emit.h write into a caller's buffer instead.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"

namespace weft::wire {

/// Describes a frame layer by layer; build() computes lengths, checksums, pad and ICRC, except where they were set by
/// hand to make a frame that breaks a rule. Layers that upper ones need but that were not named have defaults:
/// 02:00:00:00:00:01 to 02:00:00:00:00:02, 10.0.0.1 to 10.0.0.2, UDP 49152 to 4791. Extension headers that an opcode
/// asks for but that were not named are zero.
///
///   FrameBuilder().eth(a, b).vlan(10, 3).ipv4("10.0.0.1", "10.0.0.2").udp(50000)
///       .bth(Opcode::RC_SEND_ONLY, Qpn(17), Psn(5)).ack_req().payload(1024).build();
class FrameBuilder {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using View = std::span<const std::uint8_t>;

  // Ethernet.
  FrameBuilder& eth(MacAddress source, MacAddress destination);
  /// Adds an 802.1Q tag behind those added before.
  FrameBuilder& vlan(std::uint16_t vid, std::uint8_t pcp = 0, bool dei = false);
  /// Adds an 802.1ad service tag.
  FrameBuilder& service_vlan(std::uint16_t vid, std::uint8_t pcp = 0, bool dei = false);
  /// Ethertype of the innermost content; by default that of the layer above.
  FrameBuilder& ethertype(std::uint16_t type);
  /// Zeros at the end up to the 60 bytes of an Ethernet frame without FCS.
  FrameBuilder& pad_to_minimum();
  /// This many bytes of 0xee behind the IP packet.
  FrameBuilder& trailer(std::size_t bytes);

  // ARP and MAC control.
  FrameBuilder& arp(std::uint16_t operation, MacAddress sender_mac, IpAddress sender_ip, MacAddress target_mac,
                    IpAddress target_ip);
  /// 802.3 PAUSE; also sets the destination address and pads to the minimum.
  FrameBuilder& pause(std::uint16_t quanta);
  /// PFC with the class-enable vector and the quanta of the eight priorities.
  FrameBuilder& pfc(std::uint8_t class_enable, const std::array<std::uint16_t, 8>& quanta);

  // Network layer.
  FrameBuilder& ipv4(std::uint32_t source, std::uint32_t destination);
  FrameBuilder& ipv4(std::string_view source, std::string_view destination);
  FrameBuilder& ipv6(std::string_view source, std::string_view destination);
  /// IPv4 or IPv6, as the addresses are.
  FrameBuilder& ip(const IpAddress& source, const IpAddress& destination);
  /// TOS or traffic class; default 0.
  FrameBuilder& tos(std::uint8_t v);
  FrameBuilder& dscp(std::uint8_t v);
  FrameBuilder& ecn(Ecn v);
  /// TTL or hop limit; default 64.
  FrameBuilder& ttl(std::uint8_t v);
  FrameBuilder& flow_label(std::uint32_t v);
  FrameBuilder& identification(std::uint16_t v);
  FrameBuilder& dont_fragment(bool v = true);
  /// Makes it a fragment. The offset is in units of eight bytes. IPv6 gets a fragment header.
  FrameBuilder& fragment(std::uint16_t offset, bool more);
  /// IPv4 options, a multiple of four bytes up to 40.
  FrameBuilder& ip_options(View options);
  /// IPv6 extension header of this type with `units` * 8 + 8 bytes of content zero.
  FrameBuilder& extension(std::uint8_t type, std::uint8_t units = 0);
  /// Protocol or next header of the innermost content; by default that of the layer above.
  FrameBuilder& protocol(std::uint8_t v);

  // Transport layer.
  FrameBuilder& udp(std::uint16_t source_port, std::uint16_t destination_port = kRoceUdpPort);
  FrameBuilder& tcp(std::uint16_t source_port, std::uint16_t destination_port, std::uint8_t flags = TcpHeader::kAck,
                    std::uint32_t sequence = 0);
  /// ICMP over IPv4, ICMPv6 over IPv6.
  FrameBuilder& icmp(std::uint8_t type, std::uint8_t code, std::uint32_t rest = 0);
  /// Computes the UDP checksum even if IPv4 does not ask for it. Default: none for RoCEv2 and for IPv4.
  FrameBuilder& with_udp_checksum();

  // RoCE.
  FrameBuilder& bth(Opcode opcode, Qpn dest_qp, Psn psn);
  FrameBuilder& bth(std::uint8_t raw_opcode, Qpn dest_qp, Psn psn);
  FrameBuilder& ack_req(bool v = true);
  FrameBuilder& solicited(bool v = true);
  FrameBuilder& fecn(bool v = true);
  FrameBuilder& becn(bool v = true);
  FrameBuilder& migrated(bool v);
  FrameBuilder& pkey(std::uint16_t v);
  FrameBuilder& transport_version(std::uint8_t v);
  FrameBuilder& reth(std::uint64_t virtual_address, std::uint32_t rkey, std::uint32_t dma_length);
  FrameBuilder& aeth(Syndrome syndrome, std::uint32_t msn);
  FrameBuilder& atomic(std::uint64_t virtual_address, std::uint32_t rkey, std::uint64_t swap_add,
                       std::uint64_t compare = 0);
  FrameBuilder& atomic_ack(std::uint64_t original);
  FrameBuilder& deth(std::uint32_t qkey, Qpn source_qp);
  FrameBuilder& immediate(std::uint32_t data);
  FrameBuilder& invalidate(std::uint32_t rkey);
  /// A congestion notification packet: opcode, BECN, PSN 0 and the reserved bytes; the migration bit is clear.
  FrameBuilder& cnp(Qpn dest_qp);
  /// A management datagram to QP1 from QP1.
  FrameBuilder& mad(View mad, Psn psn = Psn(0));

  // Payload of the topmost layer.
  /// `bytes` bytes that count up from 0 modulo 251.
  FrameBuilder& payload(std::size_t bytes);
  FrameBuilder& payload(View bytes);

  // Fields by hand, to break a rule.
  FrameBuilder& ip_version(std::uint8_t v);
  FrameBuilder& ihl(std::uint8_t v);
  /// IPv4 total length or IPv6 payload length.
  FrameBuilder& ip_length(std::uint16_t v);
  FrameBuilder& ip_checksum(std::uint16_t v);
  FrameBuilder& udp_length(std::uint16_t v);
  FrameBuilder& udp_checksum(std::uint16_t v);
  /// Pad count in the BTH; the pad bytes themselves stay as many as the payload needs.
  FrameBuilder& pad_count(std::uint8_t v);
  FrameBuilder& icrc(std::uint32_t v);

  [[nodiscard]] Bytes build() const;

 private:
  enum class L3 : std::uint8_t { none, raw, ip };
  enum class L4 : std::uint8_t { none, udp, tcp, icmp };
  struct Tag {
    std::uint16_t type;
    std::uint16_t tci;
  };
  struct Extension {
    std::uint8_t type;
    std::uint8_t units;
  };
  struct Roce {
    Bth bth{};
    Deth deth{};
    Reth reth{};
    AtomicEth atomic{};
    Aeth aeth{};
    AtomicAckEth atomic_ack{};
    ImmDt immdt{};
    Ieth ieth{};
  };

  FrameBuilder& set_l4(L4 l4);
  FrameBuilder& set_raw(std::uint16_t type, View content);
  Roce& roce();
  [[nodiscard]] Bytes network_layer() const;
  [[nodiscard]] Bytes ipv4_packet(Bytes message) const;
  [[nodiscard]] Bytes ipv6_packet(Bytes message) const;
  [[nodiscard]] Bytes transport_layer() const;
  void append_roce(Bytes& out) const;
  [[nodiscard]] std::uint8_t top_protocol() const;
  template <class IpHeader>
  void finish_transport(const IpHeader& header, std::span<std::uint8_t> message) const;
  void finish_icrc(Bytes& packet, std::size_t ip_bytes) const;

  MacAddress source_mac_ = MacAddress::from_u64(0x020000000001);
  MacAddress destination_mac_ = MacAddress::from_u64(0x020000000002);
  std::vector<Tag> tags_;
  std::optional<std::uint16_t> ethertype_;
  bool pad_to_minimum_ = false;
  std::size_t trailer_ = 0;

  L3 l3_ = L3::none;
  Bytes raw_;
  std::uint16_t raw_type_ = 0;
  IpAddress source_ = IpAddress::v4(0x0a000001);
  IpAddress destination_ = IpAddress::v4(0x0a000002);
  std::uint8_t tos_ = 0;
  std::uint8_t ttl_ = 64;
  std::uint32_t flow_label_ = 0;
  std::uint16_t identification_ = 0;
  bool dont_fragment_ = true;
  std::optional<std::uint16_t> fragment_;  ///< offset << 1 | more
  Bytes options_;
  std::vector<Extension> extensions_;
  std::optional<std::uint8_t> protocol_;

  L4 l4_ = L4::none;
  UdpHeader udp_{be16(49152), be16(kRoceUdpPort), be16(0), be16(0)};
  TcpHeader tcp_{};
  IcmpHeader icmp_{};
  bool with_udp_checksum_ = false;
  std::optional<Roce> roce_;
  Bytes payload_;

  std::optional<std::uint8_t> ip_version_, ihl_, pad_count_;
  std::optional<std::uint16_t> ip_length_, ip_checksum_, udp_length_, udp_checksum_;
  std::optional<std::uint32_t> icrc_;
};

}  // namespace weft::wire
