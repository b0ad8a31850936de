// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/frame.h"

#include <cassert>
#include <cstring>

#include "switch/wire/checksum.h"

namespace weft::nic {
namespace {

using wire::Bth;
using wire::header_at;
using wire::HeaderMask;
using wire::Opcode;

constexpr std::size_t kL3 = sizeof(wire::EthernetHeader);
constexpr std::uint8_t kMigrated = 0x40, kBecn = 0x40;

}  // namespace

std::size_t copy_frame(const TxFrame& frame, std::span<std::uint8_t> out) noexcept {
  if (out.size() < frame.bytes()) return 0;
  std::uint8_t* at = out.data();
  std::memcpy(at, frame.head.data(), frame.head.size());
  at += frame.head.size();
  for (std::size_t i = 0; i < frame.payload->count; ++i) {
    const auto& piece = frame.payload->pieces[i];
    if (piece.data != nullptr) {
      std::memcpy(at, piece.data, piece.bytes);
    } else {
      std::memset(at, 0, piece.bytes);
    }
    at += piece.bytes;
  }
  std::memset(at, 0, frame.pad);
  assert(at + frame.pad == out.data() + frame.layout.icrc);
  wire::store_icrc(out.data() + frame.layout.icrc, wire::icrc_full(out.data(), frame.layout));
  return frame.bytes();
}

void HeaderTemplate::set(const Path& path, bool telemetry) noexcept {
  assert(path.source.is_v6() == path.destination.is_v6());
  path_ = path;
  bytes_ = {};
  const bool v6 = path.source.is_v6();
  telemetry_ = telemetry && !v6;
  header_at<wire::EthernetHeader>(bytes_.data()) = {path.destination_mac, path.source_mac,
                                                    wire::be16(v6 ? wire::EtherType::ipv6 : wire::EtherType::ipv4)};
  std::size_t l4 = kL3;
  if (v6) {
    wire::Ipv6Header ip{};
    ip.set_version(6);
    ip.set_flow_label(path.flow_label);
    ip.next_header = wire::IpProtocol::udp;
    ip.hop_limit = path.ttl;
    ip.source = path.source.bytes();
    ip.destination = path.destination.bytes();
    header_at<wire::Ipv6Header>(bytes_.data() + kL3) = ip;
    l4 += sizeof ip;
  } else {
    wire::Ipv4Header ip{};
    ip.set_dont_fragment(true);
    ip.ttl = path.ttl;
    ip.protocol = wire::IpProtocol::udp;
    ip.source.set(path.source.v4_value());
    ip.destination.set(path.destination.v4_value());
    wire::ChecksumSum sum;
    sum.add_bytes({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip});
    checksum_base_ = sum.folded();
    const std::size_t options = telemetry_ ? wire::kIntOptionBytes : 0;
    ip.set_version(4);
    ip.set_ihl(static_cast<std::uint8_t>((sizeof ip + options) / 4));
    header_at<wire::Ipv4Header>(bytes_.data() + kL3) = ip;
    l4 += sizeof ip + options;
  }
  auto& udp = header_at<wire::UdpHeader>(bytes_.data() + l4);
  udp.source_port.set(path.source_port);
  udp.destination_port.set(wire::kRoceUdpPort);
  size_ = l4 + sizeof udp;
}

void HeaderTemplate::write(std::uint8_t* out, std::uint8_t tos, std::uint32_t udp_payload,
                           const wire::IntPath* echo) const noexcept {
  // Of a fixed size, which is faster; what is behind the UDP header is written afterwards.
  std::memcpy(out, bytes_.data(), kTemplateBytes);
  const std::uint32_t udp_length = udp_payload + static_cast<std::uint32_t>(sizeof(wire::UdpHeader));
  if (path_.source.is_v6()) {
    auto& ip = header_at<wire::Ipv6Header>(out + kL3);
    ip.set_traffic_class(tos);
    ip.payload_length.set(static_cast<std::uint16_t>(udp_length));
  } else {
    auto& ip = header_at<wire::Ipv4Header>(out + kL3);
    const auto header = static_cast<std::uint32_t>(size_ - sizeof(wire::UdpHeader) - kL3);
    const std::uint32_t total = udp_length + header;
    ip.tos = tos;
    ip.total_length.set(static_cast<std::uint16_t>(total));
    std::uint32_t sum = checksum_base_ + (telemetry_ ? write_telemetry(out, echo) : 0) +
                        (std::uint32_t{ip.version_ihl} << 8 | tos) + total;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    ip.checksum.set(static_cast<std::uint16_t>(~sum));
  }
  header_at<wire::UdpHeader>(out + size_ - sizeof(wire::UdpHeader)).length.set(static_cast<std::uint16_t>(udp_length));
}

// The option, the UDP header that it pushes away from where it is copied otherwise, and the sum of the option's words.
std::uint32_t HeaderTemplate::write_telemetry(std::uint8_t* out, const wire::IntPath* echo) const noexcept {
  std::uint8_t* const option = out + kL3 + sizeof(wire::Ipv4Header);
  if (echo != nullptr) {
    wire::write_int(option, wire::IntKind::echo, *echo);
  } else {
    wire::begin_int(option, wire::IntKind::collects);
  }
  std::memcpy(option + wire::kIntOptionBytes, bytes_.data() + size_ - sizeof(wire::UdpHeader), sizeof(wire::UdpHeader));
  wire::ChecksumSum sum;
  sum.add_bytes({option, wire::kIntOptionBytes});
  return sum.folded();
}

std::size_t encode(const Packet& p, wire::Qpn dest_qp, std::uint8_t* out) noexcept {
  const wire::OpcodeInfo& info = p.info();
  // Every byte is written once: what follows reads nothing back.
  const auto pad = static_cast<std::uint8_t>(-p.payload.bytes & 3);
  auto& bth = header_at<Bth>(out);
  bth.opcode = static_cast<std::uint8_t>(p.opcode);
  const bool cnp = p.opcode == Opcode::CNP;
  // ConnectX RNICs leave the migration bit clear in CNPs alone.
  bth.flags = static_cast<std::uint8_t>((p.solicited ? 0x80 : 0) | (cnp ? 0 : kMigrated) | pad << 4);
  bth.pkey.set(wire::kDefaultPkey);
  bth.fecn_becn = cnp ? kBecn : 0;
  bth.dest_qp.set(dest_qp.value());
  bth.ack_reserved = p.ack_req ? 0x80 : 0;
  bth.psn.set(p.psn.value());
  std::uint8_t* at = out + sizeof bth;
  if (info.has(HeaderMask::deth)) {
    header_at<wire::Deth>(at) = {wire::be32(wire::kGsiQkey), 0, wire::be24(wire::kGsiQpn.value())};
    at += sizeof(wire::Deth);
  }
  if (info.has(HeaderMask::reth)) {
    header_at<wire::Reth>(at) = {wire::be64(p.remote_address), wire::be32(p.rkey), wire::be32(p.dma_length)};
    at += sizeof(wire::Reth);
  }
  if (info.has(HeaderMask::atomic_eth)) {
    header_at<wire::AtomicEth>(at) = {wire::be64(p.remote_address), wire::be32(p.rkey), wire::be64(p.swap_add),
                                      wire::be64(p.compare)};
    at += sizeof(wire::AtomicEth);
  }
  if (info.has(HeaderMask::aeth)) {
    header_at<wire::Aeth>(at) = {p.syndrome, wire::be24(p.msn)};
    at += sizeof(wire::Aeth);
  }
  if (info.has(HeaderMask::atomic_ack_eth)) {
    header_at<wire::AtomicAckEth>(at).original.set(p.compare);
    at += sizeof(wire::AtomicAckEth);
  }
  if (info.has(HeaderMask::immdt) || info.has(HeaderMask::ieth)) header_at<wire::be32>(at).set(p.immediate);
  if (info.has(HeaderMask::cnp_reserved)) std::memset(at, 0, wire::kCnpReservedBytes);
  return info.header_bytes;
}

TxFrame make_frame(const HeaderTemplate& to, std::uint8_t tos, const Packet& packet, wire::Qpn dest_qp,
                   std::uint8_t* head, const wire::IntPath* echo) noexcept {
  TxFrame f;
  f.payload = &packet.payload;
  f.pad = static_cast<std::uint8_t>(-packet.payload.bytes & 3);
  const std::size_t roce = packet.info().header_bytes;
  const auto udp_payload = static_cast<std::uint32_t>(roce + packet.payload.bytes + f.pad + wire::kIcrcBytes);
  to.write(head, tos, udp_payload, echo);
  encode(packet, dest_qp, head + to.size());
  f.head = {head, to.size() + roce};
  f.layout = to.layout(udp_payload);
  return f;
}

void decode(const std::uint8_t* frame, std::uint32_t contiguous, const wire::Parsed& parsed, Packet& out) noexcept {
  const std::uint8_t* roce = frame + parsed.l4_offset + sizeof(wire::UdpHeader);
  const auto& bth = header_at<Bth>(roce);
  out.opcode = static_cast<Opcode>(parsed.opcode);
  const wire::OpcodeInfo& info = out.info();
  out.ack_req = bth.ack_req();
  out.solicited = bth.solicited();
  out.psn = parsed.psn;
  const std::uint8_t* at = roce + sizeof bth;
  if (info.has(HeaderMask::reth)) {
    const auto& reth = header_at<wire::Reth>(at);
    out.remote_address = reth.virtual_address.value();
    out.rkey = reth.rkey.value();
    out.dma_length = reth.dma_length.value();
    at += sizeof reth;
  }
  if (info.has(HeaderMask::atomic_eth)) {
    const auto& atomic = header_at<wire::AtomicEth>(at);
    out.remote_address = atomic.virtual_address.value();
    out.rkey = atomic.rkey.value();
    out.swap_add = atomic.swap_add.value();
    out.compare = atomic.compare.value();
    at += sizeof atomic;
  }
  if (info.has(HeaderMask::aeth)) {
    const auto& aeth = header_at<wire::Aeth>(at);
    out.syndrome = aeth.syndrome;
    out.msn = aeth.msn.value();
    at += sizeof aeth;
  }
  if (info.has(HeaderMask::atomic_ack_eth)) {
    out.compare = header_at<wire::AtomicAckEth>(at).original.value();
    at += sizeof(wire::AtomicAckEth);
  }
  if (info.has(HeaderMask::immdt) || info.has(HeaderMask::ieth)) out.immediate = header_at<wire::be32>(at).value();
  const auto end = static_cast<std::size_t>(roce - frame) + info.header_bytes + parsed.payload_bytes;
  out.payload.set(end <= contiguous ? roce + info.header_bytes : nullptr, parsed.payload_bytes);
}

}  // namespace weft::nic
