// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/validity.h"

#include <array>

namespace weft::wire {
namespace {

struct ValidityText {
  Validity value;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<ValidityText, kValidityCount> kValidityTexts{{
    {Validity::ok, "ok", "The frame breaks no rule."},
    {Validity::eth_truncated, "eth_truncated", "The frame ends inside its Ethernet header or 802.1Q tag."},
    {Validity::eth_source_multicast, "eth_source_multicast", "The source MAC address has the group bit set."},
    {Validity::vlan_nested, "vlan_nested", "The frame carries more than one VLAN tag."},
    {Validity::arp_truncated, "arp_truncated", "The frame ends inside its ARP message."},
    {Validity::arp_malformed, "arp_malformed", "The ARP message is not for IPv4 over Ethernet."},
    {Validity::ip_truncated, "ip_truncated", "The frame ends inside its IP header."},
    {Validity::ip_version, "ip_version", "The IP version contradicts the ethertype."},
    {Validity::ip_header_length, "ip_header_length",
     "The IPv4 header length is below 20 bytes or beyond the total length."},
    {Validity::ip_length, "ip_length", "The IP length is beyond the frame or below the header."},
    {Validity::ip_checksum, "ip_checksum", "The IPv4 header checksum is wrong."},
    {Validity::l4_truncated, "l4_truncated",
     "The IP payload ends inside an extension header or inside the UDP, TCP or ICMP header."},
    {Validity::udp_length, "udp_length", "The UDP length is below 8 or beyond the IP payload."},
    {Validity::roce_truncated, "roce_truncated", "The UDP payload is shorter than the RoCE headers and the ICRC."},
    {Validity::roce_transport_version, "roce_transport_version", "The transport version of the BTH is not 0."},
    {Validity::roce_opcode, "roce_opcode", "The BTH opcode is unknown."},
    {Validity::roce_pad, "roce_pad",
     "The pad count of the BTH is larger than the payload, or the opcode carries no payload."},
    {Validity::roce_payload, "roce_payload",
     "There is payload where the opcode carries none, or none where it needs one."},
    {Validity::roce_qp0, "roce_qp0", "The destination is QP0, which does not exist over RoCE."},
}};

constexpr std::array<std::string_view, kFrameKindCount> kKindNames{
    "other", "mac_control", "arp", "ipv4", "ipv6", "ipv4_fragment", "ipv6_fragment", "udp", "tcp", "icmp", "roce"};

constexpr bool indexed_by_value() {
  for (std::size_t i = 0; i < kValidityTexts.size(); ++i) {
    if (static_cast<std::size_t>(kValidityTexts[i].value) != i) return false;
  }
  return true;
}
static_assert(indexed_by_value());

}  // namespace

std::string_view name(Validity v) noexcept {
  return kValidityTexts[static_cast<std::size_t>(v)].name;
}
std::string_view description(Validity v) noexcept {
  return kValidityTexts[static_cast<std::size_t>(v)].sentence;
}
std::string_view name(FrameKind k) noexcept {
  return kKindNames[static_cast<std::size_t>(k)];
}

}  // namespace weft::wire
