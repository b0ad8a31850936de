// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/rule.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

using wire::FrameKind;
using wire::ParsedFlag;

bool contains(const std::vector<std::uint16_t>& ports, std::uint16_t port) noexcept {
  return std::find(ports.begin(), ports.end(), port) != ports.end();
}

wire::IpAddress source_of(const ImpairFields& f) noexcept {
  if (!f.parsed.has(ParsedFlag::ipv6)) {
    return wire::IpAddress::v4(static_cast<std::uint32_t>(f.parsed.address_key >> 32));
  }
  return wire::IpAddress::v6(wire::header_at<wire::Ipv6Header>(f.frame + f.parsed.l3_offset).source);
}

wire::IpAddress destination_of(const ImpairFields& f) noexcept {
  if (!f.parsed.has(ParsedFlag::ipv6)) {
    return wire::IpAddress::v4(static_cast<std::uint32_t>(f.parsed.address_key));
  }
  return wire::IpAddress::v6(wire::header_at<wire::Ipv6Header>(f.frame + f.parsed.l3_offset).destination);
}

bool is_acknowledge(std::uint8_t opcode) noexcept {
  return opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE) ||
         opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ATOMIC_ACKNOWLEDGE);
}

}  // namespace

ImpairMatch& ImpairMatch::in_ports(std::vector<std::uint16_t> ports) {
  conditions_ |= kInPorts;
  in_ports_ = std::move(ports);
  return *this;
}

ImpairMatch& ImpairMatch::out_ports(std::vector<std::uint16_t> ports) {
  conditions_ |= kOutPorts;
  out_ports_ = std::move(ports);
  return *this;
}

ImpairMatch& ImpairMatch::kind(FrameKind kind) {
  if (kinds_ == 0xffff) kinds_ = 0;
  kinds_ = static_cast<std::uint16_t>(kinds_ | 1u << static_cast<unsigned>(kind));
  return *this;
}

ImpairMatch& ImpairMatch::source(const wire::IpPrefix& prefix) {
  conditions_ |= kSource;
  source_ = prefix.network();
  return *this;
}

ImpairMatch& ImpairMatch::destination(const wire::IpPrefix& prefix) {
  conditions_ |= kDestination;
  destination_ = prefix.network();
  return *this;
}

ImpairMatch& ImpairMatch::dest_qp(wire::Qpn qp) {
  conditions_ |= kDestQp;
  dest_qp_ = qp;
  return *this;
}

ImpairMatch& ImpairMatch::opcode(std::uint8_t raw) {
  conditions_ |= kOpcode;
  opcodes_.set(raw);
  return *this;
}

ImpairMatch& ImpairMatch::psn(wire::Psn first, wire::Psn last) {
  conditions_ |= kPsn;
  psn_first_ = first;
  psn_count_ = ((last.value() - first.value()) & wire::Psn::kMask) + 1;
  return *this;
}

ImpairMatch& ImpairMatch::ecn(std::uint8_t v) {
  conditions_ |= kEcn;
  ecns_ = static_cast<std::uint8_t>(ecns_ | 1u << (v & 3));
  return *this;
}

ImpairMatch& ImpairMatch::dscp(std::uint8_t v) {
  conditions_ |= kDscp;
  dscps_ |= std::uint64_t{1} << (v & 63);
  return *this;
}

ImpairMatch& ImpairMatch::vlan(std::uint16_t vid) {
  conditions_ |= kVlan;
  vid_ = vid;
  return *this;
}

ImpairMatch& ImpairMatch::ack(bool v) {
  conditions_ |= kAck;
  ack_ = v;
  return *this;
}

ImpairMatch& ImpairMatch::aeth(wire::AethKind kind) {
  conditions_ |= kAeth;
  aeths_ = static_cast<std::uint8_t>(aeths_ | 1u << static_cast<unsigned>(kind));
  return *this;
}

bool ImpairMatch::conditions_hold(const ImpairFields& f) const noexcept {
  const wire::Parsed& p = f.parsed;
  if (has(kRoceConditions) && (p.kind != FrameKind::roce || !roce_holds(p))) return false;
  if (has(kInPorts) && !contains(in_ports_, f.in_port)) return false;
  if (has(kOutPorts) && !contains(out_ports_, f.out_port)) return false;
  if (has(kVlan) && (!p.has(ParsedFlag::vlan_tagged) || (p.vlan_tci & 0xfff) != vid_)) return false;
  // The offset of what follows is only set behind a valid IP header.
  return !has(kIpConditions) || (p.l4_offset != 0 && ip_holds(f));
}

bool ImpairMatch::roce_holds(const wire::Parsed& p) const noexcept {
  if (has(kPsn) && !p.psn.in_window(psn_first_, psn_count_)) return false;
  if (has(kOpcode) && !opcodes_[p.opcode]) return false;
  if (has(kAck) && is_acknowledge(p.opcode) != ack_) return false;
  if (!has(kAeth)) return true;
  const auto kind = static_cast<unsigned>(wire::Syndrome(p.syndrome).kind());
  return wire::opcode_info(p.opcode).has(wire::HeaderMask::aeth) && (aeths_ >> kind & 1) != 0;
}

bool ImpairMatch::ip_holds(const ImpairFields& f) const noexcept {
  if (has(kEcn) && (ecns_ >> (f.parsed.tos & 3) & 1) == 0) return false;
  if (has(kDscp) && (dscps_ >> (f.parsed.tos >> 2) & 1) == 0) return false;
  if (has(kSource) && !source_.contains(source_of(f))) return false;
  return !has(kDestination) || destination_.contains(destination_of(f));
}

}  // namespace weft::stages
