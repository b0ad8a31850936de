// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/builder.h"

#include <algorithm>
#include <cstdlib>

#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"

namespace weft::wire {
namespace {

using Bytes = FrameBuilder::Bytes;

void append_bytes(Bytes& out, FrameBuilder::View bytes) {
  const std::size_t at = out.size();
  out.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class Header>
void append(Bytes& out, const Header& header) {
  static_assert(alignof(Header) == 1);
  append_bytes(out, {reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
}

/// An address literal that the caller wrote wrong is a bug in the caller.
IpAddress literal(std::string_view text, bool v6) {
  const auto a = IpAddress::parse(text);
  if (!a || a->is_v6() != v6) std::abort();
  return *a;
}

}  // namespace

FrameBuilder& FrameBuilder::eth(MacAddress source, MacAddress destination) {
  source_mac_ = source;
  destination_mac_ = destination;
  return *this;
}

FrameBuilder& FrameBuilder::vlan(std::uint16_t vid, std::uint8_t pcp, bool dei) {
  VlanTag tag{};
  tag.set_vid(vid);
  tag.set_pcp(pcp);
  tag.set_dei(dei);
  tags_.push_back({EtherType::vlan, tag.tci.value()});
  return *this;
}

FrameBuilder& FrameBuilder::service_vlan(std::uint16_t vid, std::uint8_t pcp, bool dei) {
  vlan(vid, pcp, dei);
  tags_.back().type = EtherType::service_vlan;
  return *this;
}

FrameBuilder& FrameBuilder::ethertype(std::uint16_t type) {
  ethertype_ = type;
  return *this;
}

FrameBuilder& FrameBuilder::pad_to_minimum() {
  pad_to_minimum_ = true;
  return *this;
}

FrameBuilder& FrameBuilder::trailer(std::size_t bytes) {
  trailer_ = bytes;
  return *this;
}

FrameBuilder& FrameBuilder::set_raw(std::uint16_t type, View content) {
  l3_ = L3::raw;
  raw_type_ = type;
  raw_.assign(content.begin(), content.end());
  return *this;
}

FrameBuilder& FrameBuilder::arp(std::uint16_t operation, MacAddress sender_mac, IpAddress sender_ip,
                                MacAddress target_mac, IpAddress target_ip) {
  const ArpHeader arp{be16(ArpHeader::kEthernet),
                      be16(EtherType::ipv4),
                      sizeof(MacAddress),
                      sizeof(be32),
                      be16(operation),
                      sender_mac,
                      be32(sender_ip.v4_value()),
                      target_mac,
                      be32(target_ip.v4_value())};
  return set_raw(EtherType::arp, {reinterpret_cast<const std::uint8_t*>(&arp), sizeof arp});
}

FrameBuilder& FrameBuilder::pause(std::uint16_t quanta) {
  const PauseHeader pause{be16(MacControlOpcode::pause), be16(quanta)};
  destination_mac_ = kMacControlAddress;
  set_raw(EtherType::mac_control, {reinterpret_cast<const std::uint8_t*>(&pause), sizeof pause});
  return pad_to_minimum();
}

FrameBuilder& FrameBuilder::pfc(std::uint8_t class_enable, const std::array<std::uint16_t, 8>& quanta) {
  PfcHeader pfc{be16(MacControlOpcode::pfc), be16(class_enable), {}};
  for (std::size_t i = 0; i < quanta.size(); ++i) pfc.quanta[i].set(quanta[i]);
  destination_mac_ = kMacControlAddress;
  set_raw(EtherType::mac_control, {reinterpret_cast<const std::uint8_t*>(&pfc), sizeof pfc});
  return pad_to_minimum();
}

FrameBuilder& FrameBuilder::ip(const IpAddress& source, const IpAddress& destination) {
  if (source.is_v6() != destination.is_v6()) std::abort();
  l3_ = L3::ip;
  source_ = source;
  destination_ = destination;
  return *this;
}

FrameBuilder& FrameBuilder::ipv4(std::uint32_t source, std::uint32_t destination) {
  return ip(IpAddress::v4(source), IpAddress::v4(destination));
}

FrameBuilder& FrameBuilder::ipv4(std::string_view source, std::string_view destination) {
  return ip(literal(source, false), literal(destination, false));
}

FrameBuilder& FrameBuilder::ipv6(std::string_view source, std::string_view destination) {
  return ip(literal(source, true), literal(destination, true));
}

FrameBuilder& FrameBuilder::tos(std::uint8_t v) {
  tos_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::dscp(std::uint8_t v) {
  tos_ = make_tos(v, ecn_of(tos_));
  return *this;
}

FrameBuilder& FrameBuilder::ecn(Ecn v) {
  tos_ = make_tos(dscp_of(tos_), v);
  return *this;
}

FrameBuilder& FrameBuilder::ttl(std::uint8_t v) {
  ttl_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::flow_label(std::uint32_t v) {
  flow_label_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::identification(std::uint16_t v) {
  identification_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::dont_fragment(bool v) {
  dont_fragment_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::fragment(std::uint16_t offset, bool more) {
  fragment_ = static_cast<std::uint16_t>(offset << 1 | (more ? 1 : 0));
  dont_fragment_ = false;
  return *this;
}

FrameBuilder& FrameBuilder::ip_options(View options) {
  if (options.size() % 4 != 0 || options.size() > 40) std::abort();
  options_.assign(options.begin(), options.end());
  return *this;
}

FrameBuilder& FrameBuilder::extension(std::uint8_t type, std::uint8_t units) {
  extensions_.push_back({type, units});
  return *this;
}

FrameBuilder& FrameBuilder::protocol(std::uint8_t v) {
  protocol_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::set_l4(L4 l4) {
  if (l3_ == L3::none) l3_ = L3::ip;
  l4_ = l4;
  return *this;
}

FrameBuilder& FrameBuilder::udp(std::uint16_t source_port, std::uint16_t destination_port) {
  udp_.source_port.set(source_port);
  udp_.destination_port.set(destination_port);
  return set_l4(L4::udp);
}

FrameBuilder& FrameBuilder::tcp(std::uint16_t source_port, std::uint16_t destination_port, std::uint8_t flags,
                                std::uint32_t sequence) {
  tcp_.source_port.set(source_port);
  tcp_.destination_port.set(destination_port);
  tcp_.sequence.set(sequence);
  tcp_.flags = flags;
  tcp_.window.set(0xffff);
  tcp_.set_data_offset(sizeof(TcpHeader) / 4);
  return set_l4(L4::tcp);
}

FrameBuilder& FrameBuilder::icmp(std::uint8_t type, std::uint8_t code, std::uint32_t rest) {
  icmp_ = {type, code, be16(0), be32(rest)};
  return set_l4(L4::icmp);
}

FrameBuilder& FrameBuilder::with_udp_checksum() {
  with_udp_checksum_ = true;
  return *this;
}

FrameBuilder::Roce& FrameBuilder::roce() {
  if (!roce_) {
    roce_ = Roce{};
    roce_->bth.pkey.set(kDefaultPkey);
    roce_->bth.set_migrated(true);
  }
  if (l4_ == L4::none) set_l4(L4::udp);
  return *roce_;
}

FrameBuilder& FrameBuilder::bth(std::uint8_t raw_opcode, Qpn dest_qp, Psn psn) {
  auto& b = roce().bth;
  b.opcode = raw_opcode;
  b.dest_qp.set(dest_qp.value());
  b.psn.set(psn.value());
  return *this;
}

FrameBuilder& FrameBuilder::bth(Opcode opcode, Qpn dest_qp, Psn psn) {
  return bth(static_cast<std::uint8_t>(opcode), dest_qp, psn);
}

FrameBuilder& FrameBuilder::ack_req(bool v) {
  roce().bth.set_ack_req(v);
  return *this;
}

FrameBuilder& FrameBuilder::solicited(bool v) {
  roce().bth.set_solicited(v);
  return *this;
}

FrameBuilder& FrameBuilder::fecn(bool v) {
  roce().bth.set_fecn(v);
  return *this;
}

FrameBuilder& FrameBuilder::becn(bool v) {
  roce().bth.set_becn(v);
  return *this;
}

FrameBuilder& FrameBuilder::migrated(bool v) {
  roce().bth.set_migrated(v);
  return *this;
}

FrameBuilder& FrameBuilder::pkey(std::uint16_t v) {
  roce().bth.pkey.set(v);
  return *this;
}

FrameBuilder& FrameBuilder::transport_version(std::uint8_t v) {
  roce().bth.set_transport_version(v);
  return *this;
}

FrameBuilder& FrameBuilder::reth(std::uint64_t virtual_address, std::uint32_t rkey, std::uint32_t dma_length) {
  roce().reth = {be64(virtual_address), be32(rkey), be32(dma_length)};
  return *this;
}

FrameBuilder& FrameBuilder::aeth(Syndrome syndrome, std::uint32_t msn) {
  roce().aeth = {syndrome.raw(), be24(msn)};
  return *this;
}

FrameBuilder& FrameBuilder::atomic(std::uint64_t virtual_address, std::uint32_t rkey, std::uint64_t swap_add,
                                   std::uint64_t compare) {
  roce().atomic = {be64(virtual_address), be32(rkey), be64(swap_add), be64(compare)};
  return *this;
}

FrameBuilder& FrameBuilder::atomic_ack(std::uint64_t original) {
  roce().atomic_ack.original.set(original);
  return *this;
}

FrameBuilder& FrameBuilder::deth(std::uint32_t qkey, Qpn source_qp) {
  roce().deth = {be32(qkey), 0, be24(source_qp.value())};
  return *this;
}

FrameBuilder& FrameBuilder::immediate(std::uint32_t data) {
  roce().immdt.data.set(data);
  return *this;
}

FrameBuilder& FrameBuilder::invalidate(std::uint32_t rkey) {
  roce().ieth.rkey.set(rkey);
  return *this;
}

FrameBuilder& FrameBuilder::cnp(Qpn dest_qp) {
  return bth(Opcode::CNP, dest_qp, Psn(0)).becn().migrated(false);
}

FrameBuilder& FrameBuilder::mad(View mad, Psn psn) {
  return bth(Opcode::UD_SEND_ONLY, kGsiQpn, psn).deth(kGsiQkey, kGsiQpn).payload(mad);
}

FrameBuilder& FrameBuilder::payload(std::size_t bytes) {
  constexpr std::size_t kPrime = 251;
  payload_.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload_[i] = static_cast<std::uint8_t>(i % kPrime);
  return *this;
}

FrameBuilder& FrameBuilder::payload(View bytes) {
  payload_.assign(bytes.begin(), bytes.end());
  return *this;
}

FrameBuilder& FrameBuilder::ip_version(std::uint8_t v) {
  ip_version_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::ihl(std::uint8_t v) {
  ihl_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::ip_length(std::uint16_t v) {
  ip_length_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::ip_checksum(std::uint16_t v) {
  ip_checksum_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::udp_length(std::uint16_t v) {
  udp_length_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::udp_checksum(std::uint16_t v) {
  udp_checksum_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::pad_count(std::uint8_t v) {
  pad_count_ = v;
  return *this;
}

FrameBuilder& FrameBuilder::icrc(std::uint32_t v) {
  icrc_ = v;
  return *this;
}

void FrameBuilder::append_roce(Bytes& out) const {
  const Roce& r = *roce_;
  const OpcodeInfo& row = opcode_info(r.bth.opcode);
  const std::size_t pad = row.may_carry_payload() ? (4 - payload_.size() % 4) % 4 : 0;
  Bth bth = r.bth;
  bth.set_pad_count(pad_count_.value_or(static_cast<std::uint8_t>(pad)));
  append(out, bth);
  if (row.has(HeaderMask::deth)) append(out, r.deth);
  if (row.has(HeaderMask::reth)) append(out, r.reth);
  if (row.has(HeaderMask::atomic_eth)) append(out, r.atomic);
  if (row.has(HeaderMask::aeth)) append(out, r.aeth);
  if (row.has(HeaderMask::atomic_ack_eth)) append(out, r.atomic_ack);
  if (row.has(HeaderMask::immdt)) append(out, r.immdt);
  if (row.has(HeaderMask::ieth)) append(out, r.ieth);
  if (row.has(HeaderMask::cnp_reserved)) out.resize(out.size() + kCnpReservedBytes);
  append_bytes(out, payload_);
  out.resize(out.size() + pad + kIcrcBytes);
}

Bytes FrameBuilder::transport_layer() const {
  Bytes out;
  if (l4_ == L4::udp) append(out, udp_);
  if (l4_ == L4::tcp) append(out, tcp_);
  if (l4_ == L4::icmp) append(out, icmp_);
  if (roce_) {
    append_roce(out);
  } else {
    append_bytes(out, payload_);
  }
  return out;
}

std::uint8_t FrameBuilder::top_protocol() const {
  if (protocol_) return *protocol_;
  switch (l4_) {
    case L4::udp:
      return IpProtocol::udp;
    case L4::tcp:
      return IpProtocol::tcp;
    case L4::icmp:
      return source_.is_v6() ? IpProtocol::icmpv6 : IpProtocol::icmp;
    case L4::none:
      break;
  }
  return IpProtocol::no_next_header;
}

/// Lengths and checksums of the message behind the IP headers. A UDP checksum covers the ICRC, which is filled in
/// before: the ICRC does not cover the checksum.
template <class IpHeader>
void FrameBuilder::finish_transport(const IpHeader& header, std::span<std::uint8_t> message) const {
  if (l4_ == L4::udp) {
    auto& udp = header_at<UdpHeader>(message.data());
    const bool summed = with_udp_checksum_ || (source_.is_v6() && !roce_);
    if (summed) udp.checksum.set(l4_checksum(header, IpProtocol::udp, message));
    if (udp_checksum_) udp.checksum.set(*udp_checksum_);
  } else if (l4_ == L4::tcp) {
    header_at<TcpHeader>(message.data()).checksum.set(l4_checksum(header, IpProtocol::tcp, message));
  } else if (l4_ == L4::icmp) {
    header_at<IcmpHeader>(message.data())
        .checksum.set(source_.is_v6() ? l4_checksum(header, IpProtocol::icmpv6, message) : internet_checksum(message));
  }
}

/// The ICRC, by the length that the UDP header should have even if it was set to something else.
void FrameBuilder::finish_icrc(Bytes& packet, std::size_t ip_bytes) const {
  if (l4_ == L4::udp) {
    const auto length = static_cast<std::uint16_t>(packet.size() - ip_bytes);
    header_at<UdpHeader>(packet.data() + ip_bytes).length.set(udp_length_.value_or(length));
  }
  if (!roce_) return;
  const auto at = static_cast<std::uint32_t>(packet.size() - kIcrcBytes);
  const RoceLayout layout{0, static_cast<std::uint32_t>(ip_bytes), at, source_.is_v6()};
  store_icrc(packet.data() + at, icrc_.value_or(icrc_full(packet.data(), layout)));
}

Bytes FrameBuilder::ipv4_packet(Bytes message) const {
  const std::size_t ip_bytes = sizeof(Ipv4Header) + options_.size();
  Ipv4Header ip{};
  ip.set_version(ip_version_.value_or(4));
  ip.set_ihl(static_cast<std::uint8_t>(ip_bytes / 4));
  ip.tos = tos_;
  ip.total_length.set(ip_length_.value_or(static_cast<std::uint16_t>(ip_bytes + message.size())));
  ip.identification.set(identification_);
  ip.set_dont_fragment(dont_fragment_);
  if (fragment_) {
    ip.set_fragment_offset(static_cast<std::uint16_t>(*fragment_ >> 1));
    ip.set_more_fragments((*fragment_ & 1) != 0);
  }
  ip.ttl = ttl_;
  ip.protocol = top_protocol();
  ip.source.set(source_.v4_value());
  ip.destination.set(destination_.v4_value());

  Bytes packet;
  append(packet, ip);
  append_bytes(packet, options_);
  append_bytes(packet, message);
  auto& header = header_at<Ipv4Header>(packet.data());
  header.checksum.set(ip_checksum_.value_or(ipv4_checksum(header)));
  if (ihl_) {
    header.set_ihl(*ihl_);
    if (!ip_checksum_ && *ihl_ * 4u <= packet.size()) header.checksum.set(ipv4_checksum(header));
  }
  finish_icrc(packet, ip_bytes);
  finish_transport(header, std::span(packet).subspan(ip_bytes));
  return packet;
}

Bytes FrameBuilder::ipv6_packet(Bytes message) const {
  std::vector<Extension> chain = extensions_;
  if (fragment_) chain.push_back({IpProtocol::fragment, 0});
  Bytes headers;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::uint8_t next = i + 1 < chain.size() ? chain[i + 1].type : top_protocol();
    if (chain[i].type == IpProtocol::fragment) {
      Ipv6FragmentHeader f{next, 0, be16(0), be32(identification_)};
      f.set_fragment_offset(static_cast<std::uint16_t>(fragment_.value_or(0) >> 1));
      f.set_more_fragments((fragment_.value_or(0) & 1) != 0);
      append(headers, f);
    } else {
      const Ipv6ExtensionHeader e{next, chain[i].units};
      append(headers, e);
      headers.resize(headers.size() + e.header_bytes() - sizeof e);
    }
  }
  Ipv6Header ip{};
  ip.set_version(ip_version_.value_or(6));
  ip.set_traffic_class(tos_);
  ip.set_flow_label(flow_label_);
  ip.payload_length.set(ip_length_.value_or(static_cast<std::uint16_t>(headers.size() + message.size())));
  ip.next_header = chain.empty() ? top_protocol() : chain.front().type;
  ip.hop_limit = ttl_;
  ip.source = source_.bytes();
  ip.destination = destination_.bytes();

  Bytes packet;
  append(packet, ip);
  append_bytes(packet, headers);
  append_bytes(packet, message);
  const std::size_t ip_bytes = sizeof ip + headers.size();
  finish_icrc(packet, ip_bytes);
  finish_transport(ip, std::span(packet).subspan(ip_bytes));
  return packet;
}

Bytes FrameBuilder::network_layer() const {
  switch (l3_) {
    case L3::raw:
      return raw_;
    case L3::ip:
      return source_.is_v6() ? ipv6_packet(transport_layer()) : ipv4_packet(transport_layer());
    case L3::none:
      break;
  }
  return payload_;
}

Bytes FrameBuilder::build() const {
  std::uint16_t type = EtherType::first;
  if (l3_ == L3::raw) type = raw_type_;
  if (l3_ == L3::ip) type = source_.is_v6() ? EtherType::ipv6 : EtherType::ipv4;
  type = ethertype_.value_or(type);

  Bytes frame;
  append(frame, EthernetHeader{destination_mac_, source_mac_, be16(tags_.empty() ? type : tags_.front().type)});
  for (std::size_t i = 0; i < tags_.size(); ++i) {
    append(frame, VlanTag{be16(tags_[i].tci), be16(i + 1 < tags_.size() ? tags_[i + 1].type : type)});
  }
  append_bytes(frame, network_layer());
  frame.resize(frame.size() + trailer_, 0xee);
  if (pad_to_minimum_) frame.resize(std::max(frame.size(), kMinFrameBytes));
  return frame;
}

}  // namespace weft::wire
