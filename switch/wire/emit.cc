// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/emit.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "switch/wire/qcn_cnp.h"
#include "switch/wire/rtt_echo.h"

namespace weft::wire {
namespace {

/// What write_qcn_cnp() writes of a congestion notification message; the rest of it is zero.
constexpr std::uint16_t kQcnEtherType = 0x22e9;
struct QcnMessage {
  be16 ethertype;
  be16 version_and_feedback;
};

std::size_t network_offset(const RoceAddressing& to) noexcept {
  return sizeof(EthernetHeader) + (to.tagged ? sizeof(VlanTag) : 0);
}

std::size_t transport_offset(const RoceAddressing& to) noexcept {
  return network_offset(to) + (to.source.is_v6() ? sizeof(Ipv6Header) : sizeof(Ipv4Header));
}

void write_ethernet(std::uint8_t* at, const RoceAddressing& to) noexcept {
  const be16 type(to.source.is_v6() ? EtherType::ipv6 : EtherType::ipv4);
  auto& eth = header_at<EthernetHeader>(at);
  eth = {to.destination_mac, to.source_mac, to.tagged ? be16(to.vlan_type) : type};
  if (to.tagged) header_at<VlanTag>(at + sizeof eth) = {be16(to.vlan_tci), type};
}

/// The IP header before `payload` bytes.
void write_ip(std::uint8_t* at, const RoceAddressing& to, std::size_t payload) noexcept {
  if (to.source.is_v6()) {
    Ipv6Header ip{};
    ip.set_version(6);
    ip.set_traffic_class(to.tos);
    ip.set_flow_label(to.flow_label);
    ip.payload_length.set(static_cast<std::uint16_t>(payload));
    ip.next_header = IpProtocol::udp;
    ip.hop_limit = to.ttl;
    ip.source = to.source.bytes();
    ip.destination = to.destination.bytes();
    header_at<Ipv6Header>(at) = ip;
    return;
  }
  // The checksum is that of the values, since reading back what was just written piece by piece takes longer than all
  // of this.
  constexpr std::uint16_t kDontFragment = 0x4000;
  constexpr std::uint16_t kVersionAndLength = 4 << 12 | sizeof(Ipv4Header) / 4 << 8;
  const auto bytes = static_cast<std::uint16_t>(sizeof(Ipv4Header) + payload);
  const std::uint32_t source = to.source.v4_value(), destination = to.destination.v4_value();
  ChecksumSum sum;
  sum.add_word(static_cast<std::uint16_t>(kVersionAndLength | to.tos));
  sum.add_word(bytes);
  sum.add_word(kDontFragment);
  sum.add_word(static_cast<std::uint16_t>(to.ttl << 8 | IpProtocol::udp));
  sum.add_word32(source);
  sum.add_word32(destination);
  auto& ip = header_at<Ipv4Header>(at);
  ip.version_ihl = kVersionAndLength >> 8;
  ip.tos = to.tos;
  ip.total_length.set(bytes);
  ip.set_dont_fragment(true);
  ip.ttl = to.ttl;
  ip.protocol = IpProtocol::udp;
  ip.source.set(source);
  ip.destination.set(destination);
  ip.checksum.set(sum.checksum());
}

/// Zeroes a frame's bytes, from the fewest to the most that there are here: two parts of fixed size, which may overlap.
/// For a size that it does not know the compiler makes a loop of microcode, which takes longer than all the rest.
void zero(std::uint8_t* frame, std::size_t bytes) noexcept {
  constexpr std::size_t kFirst =
      sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader) + sizeof(Bth) + kIcrcBytes;
  constexpr std::size_t kLast = kMaxEmittedBytes - kFirst;
  static_assert(kLast <= kFirst);
  assert(bytes >= kFirst && bytes <= kMaxEmittedBytes);
  std::memset(frame, 0, kFirst);
  std::memset(frame + bytes - kLast, 0, kLast);
}

/// Everything but the headers behind the BTH, which stay zero, and the ICRC. Returns the BTH.
Bth& write_headers(std::uint8_t* frame, const RoceAddressing& to, Opcode opcode, Qpn dest_qp, Psn psn) noexcept {
  assert(to.source.is_v6() == to.destination.is_v6());
  const std::size_t bytes = emitted_bytes(to, opcode);
  const std::size_t l4 = transport_offset(to);
  zero(frame, bytes);
  write_ethernet(frame, to);
  write_ip(frame + network_offset(to), to, bytes - l4);
  auto& udp = header_at<UdpHeader>(frame + l4);
  udp.source_port.set(to.source_port);
  udp.destination_port.set(kRoceUdpPort);
  udp.length.set(static_cast<std::uint16_t>(bytes - l4));
  auto& bth = header_at<Bth>(frame + l4 + sizeof udp);
  bth.opcode = static_cast<std::uint8_t>(opcode);
  bth.set_migrated(opcode != Opcode::CNP);  // ConnectX RNICs leave the bit clear in CNPs alone
  bth.pkey.set(kDefaultPkey);
  bth.dest_qp.set(dest_qp.value());
  bth.psn.set(psn.value());
  return bth;
}

std::size_t finish(std::uint8_t* frame, const RoceAddressing& to, Opcode opcode) noexcept {
  const std::size_t bytes = emitted_bytes(to, opcode);
  const RoceLayout layout{static_cast<std::uint32_t>(network_offset(to)),
                          static_cast<std::uint32_t>(transport_offset(to)),
                          static_cast<std::uint32_t>(bytes - kIcrcBytes), to.source.is_v6()};
  store_icrc(frame + layout.icrc, icrc_full(frame, layout));
  return bytes;
}

/// Ethernet header and zeros of a MAC control frame. Returns its content.
std::uint8_t* write_mac_control(std::span<std::uint8_t> out, MacAddress source) noexcept {
  std::memset(out.data(), 0, kMinFrameBytes);
  header_at<EthernetHeader>(out.data()) = {kMacControlAddress, source, be16(EtherType::mac_control)};
  return out.data() + sizeof(EthernetHeader);
}

}  // namespace

RoceAddressing reply_addressing(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const auto& eth = header_at<EthernetHeader>(frame);
  RoceAddressing to;
  to.source_mac = eth.destination;
  to.destination_mac = eth.source;
  to.tagged = parsed.has(ParsedFlag::vlan_tagged);
  if (to.tagged) to.vlan_type = eth.ethertype.value();
  to.vlan_tci = parsed.vlan_tci;
  to.tos = parsed.tos;
  to.source_port = parsed.source_port;
  if (parsed.has(ParsedFlag::ipv6)) {
    const auto& ip = header_at<Ipv6Header>(frame + parsed.l3_offset);
    to.source = IpAddress::v6(ip.destination);
    to.destination = IpAddress::v6(ip.source);
  } else {
    const auto& ip = header_at<Ipv4Header>(frame + parsed.l3_offset);
    to.source = IpAddress::v4(ip.destination.value());
    to.destination = IpAddress::v4(ip.source.value());
  }
  return to;
}

std::size_t emitted_bytes(const RoceAddressing& to, Opcode opcode) noexcept {
  return transport_offset(to) + sizeof(UdpHeader) + opcode_info(opcode).header_bytes + kIcrcBytes;
}

std::size_t write_cnp(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp) noexcept {
  if (out.size() < emitted_bytes(to, Opcode::CNP)) return 0;
  write_headers(out.data(), to, Opcode::CNP, dest_qp, Psn(0)).set_becn(true);
  return finish(out.data(), to, Opcode::CNP);
}

std::size_t write_rtt_echo(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp, Psn psn) noexcept {
  if (out.size() < emitted_bytes(to, Opcode::CNP)) return 0;
  write_headers(out.data(), to, Opcode::CNP, dest_qp, psn).fecn_becn = kRttEcho;
  return finish(out.data(), to, Opcode::CNP);
}

std::size_t write_qcn_cnp(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp,
                          unsigned feedback) noexcept {
  assert(feedback >= 1 && feedback <= kMostQcnFeedback);
  if (out.size() < emitted_bytes(to, Opcode::CNP)) return 0;
  Bth& bth = write_headers(out.data(), to, Opcode::CNP, dest_qp, Psn(0));
  bth.set_becn(true);
  header_at<QcnMessage>(reinterpret_cast<std::uint8_t*>(&bth) + sizeof bth) = {
      be16(kQcnEtherType), be16(static_cast<std::uint16_t>(feedback))};
  return finish(out.data(), to, Opcode::CNP);
}

unsigned qcn_feedback(std::span<const std::uint8_t> reserved) noexcept {
  if (reserved.size() < kCnpReservedBytes) return 0;
  const auto& message = header_at<QcnMessage>(reserved.data());
  if (message.ethertype.value() != kQcnEtherType) return 0;
  const unsigned feedback = message.version_and_feedback.value();
  return feedback <= kMostQcnFeedback ? feedback : 0;
}

std::size_t write_ack(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp, Psn psn, Syndrome syndrome,
                      std::uint32_t msn) noexcept {
  constexpr Opcode kOpcode = Opcode::RC_ACKNOWLEDGE;
  if (out.size() < emitted_bytes(to, kOpcode)) return 0;
  Bth& bth = write_headers(out.data(), to, kOpcode, dest_qp, psn);
  header_at<Aeth>(reinterpret_cast<std::uint8_t*>(&bth) + sizeof bth) = {syndrome.raw(), be24(msn)};
  return finish(out.data(), to, kOpcode);
}

std::size_t write_arp(std::span<std::uint8_t> out, MacAddress source, MacAddress destination, std::uint16_t operation,
                      const IpAddress& sender, MacAddress target_mac, const IpAddress& target) noexcept {
  if (out.size() < kMinFrameBytes) return 0;
  std::fill_n(out.begin(), kMinFrameBytes, std::uint8_t{0});
  header_at<EthernetHeader>(out.data()) = {destination, source, be16(EtherType::arp)};
  header_at<ArpHeader>(out.data() + sizeof(EthernetHeader)) = {be16(ArpHeader::kEthernet),
                                                               be16(EtherType::ipv4),
                                                               sizeof(MacAddress),
                                                               sizeof(be32),
                                                               be16(operation),
                                                               source,
                                                               be32(sender.v4_value()),
                                                               target_mac,
                                                               be32(target.v4_value())};
  return kMinFrameBytes;
}

std::size_t write_pause(std::span<std::uint8_t> out, MacAddress source, std::uint16_t quanta) noexcept {
  if (out.size() < kMinFrameBytes) return 0;
  header_at<PauseHeader>(write_mac_control(out, source)) = {be16(MacControlOpcode::pause), be16(quanta)};
  return kMinFrameBytes;
}

std::size_t write_pfc(std::span<std::uint8_t> out, MacAddress source, std::uint8_t class_enable,
                      const std::array<std::uint16_t, 8>& quanta) noexcept {
  if (out.size() < kMinFrameBytes) return 0;
  auto& pfc = header_at<PfcHeader>(write_mac_control(out, source));
  pfc.opcode.set(MacControlOpcode::pfc);
  pfc.class_enable.set(class_enable);
  for (std::size_t i = 0; i < quanta.size(); ++i) pfc.quanta[i].set(quanta[i]);
  return kMinFrameBytes;
}

}  // namespace weft::wire
