// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/icmp.h"

#include <algorithm>
#include <cstring>

#include "switch/base/time.h"
#include "switch/stages/l3/messages.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using pipeline::DropReason;
using wire::header_at;
using wire::IpAddress;
using wire::IpProtocol;
using wire::ParsedFlag;

IcmpMessage message_of(IcmpError error, bool v6, std::uint32_t mtu_bytes) noexcept {
  using wire::IcmpType;
  using wire::Icmpv6Type;
  using V4Code = wire::IcmpUnreachableCode;
  using V6Code = wire::Icmpv6UnreachableCode;
  switch (error) {
    case IcmpError::time_exceeded:
      return {v6 ? Icmpv6Type::time_exceeded : IcmpType::time_exceeded, 0, 0};
    case IcmpError::no_route:
      return v6 ? IcmpMessage{Icmpv6Type::destination_unreachable, V6Code::no_route, 0}
                : IcmpMessage{IcmpType::destination_unreachable, V4Code::network, 0};
    case IcmpError::prohibited:
      return v6 ? IcmpMessage{Icmpv6Type::destination_unreachable, V6Code::prohibited, 0}
                : IcmpMessage{IcmpType::destination_unreachable, V4Code::prohibited, 0};
    case IcmpError::host_unreachable:
      return v6 ? IcmpMessage{Icmpv6Type::destination_unreachable, V6Code::address, 0}
                : IcmpMessage{IcmpType::destination_unreachable, V4Code::host, 0};
    case IcmpError::too_big:
      break;
  }
  return v6 ? IcmpMessage{Icmpv6Type::packet_too_big, 0, mtu_bytes}
            : IcmpMessage{IcmpType::destination_unreachable, V4Code::fragmentation_needed, mtu_bytes};
}

// True for ICMP messages that are errors themselves, and for what cannot be read: better one error too few.
bool is_icmp_error(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const bool v6 = parsed.has(ParsedFlag::ipv6);
  if (parsed.protocol != (v6 ? IpProtocol::icmpv6 : IpProtocol::icmp)) return false;
  if (m->data_len < parsed.l4_offset + 1u) return true;
  const std::uint8_t type = pipeline::frame(m)[parsed.l4_offset];
  if (v6) return type < 128 || type == wire::Icmpv6Type::redirect;
  // Echo, router discovery, timestamp, information and address mask messages are questions and answers (RFC
  // 1122 3.2.2).
  return type != 0 && type != 8 && type != 9 && type != 10 && (type < 13 || type > 18);
}

bool is_later_fragment(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (parsed.kind == wire::FrameKind::ipv4_fragment) {
    return header_at<wire::Ipv4Header>(pipeline::frame(m) + parsed.l3_offset).fragment_offset() != 0;
  }
  if (parsed.kind != wire::FrameKind::ipv6_fragment) return false;
  // l4_offset is the end of the fragment header.
  const std::uint8_t* header = pipeline::frame(m) + parsed.l4_offset - sizeof(wire::Ipv6FragmentHeader);
  return header_at<wire::Ipv6FragmentHeader>(header).fragment_offset() != 0;
}

// Copies up to `limit` bytes of the packet from `offset` on; returns how many there were.
std::size_t copy_from(const rte_mbuf* m, std::size_t offset, std::uint8_t* to, std::size_t limit) noexcept {
  std::size_t copied = 0;
  for (; m != nullptr && copied < limit; m = m->next) {
    const std::size_t skip = std::min<std::size_t>(offset, m->data_len);
    const std::size_t bytes = std::min<std::size_t>(m->data_len - skip, limit - copied);
    std::memcpy(to + copied, rte_pktmbuf_mtod(m, const std::uint8_t*) + skip, bytes);
    copied += bytes;
    offset -= skip;
  }
  return copied;
}

}  // namespace

IpEnds ip_ends(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const std::uint8_t* at = pipeline::frame(m) + parsed.l3_offset;
  if (parsed.has(ParsedFlag::ipv6)) {
    const auto& ip = header_at<wire::Ipv6Header>(at);
    return {IpAddress::v6(ip.source), IpAddress::v6(ip.destination)};
  }
  const auto& ip = header_at<wire::Ipv4Header>(at);
  return {IpAddress::v4(ip.source.value()), IpAddress::v4(ip.destination.value())};
}

L3Icmp::L3Icmp(const tables::Interfaces& interfaces, L3Counters& counters, std::uint64_t errors_per_s)
    : interfaces_(interfaces),
      counters_(counters),
      per_second_(errors_per_s),
      tokens_(std::max<std::uint64_t>(errors_per_s / 20, 1) * kSecond) {}

bool L3Icmp::allowed(TimeNs now) noexcept {
  if (per_second_ == 0) return false;
  const std::uint64_t most = std::max<std::uint64_t>(per_second_ / 20, 1) * kSecond;
  tokens_ = std::min(most, tokens_ + std::min<TimeNs>(now - updated_, kSecond) * per_second_);
  updated_ = now;
  if (tokens_ < kSecond) return false;
  tokens_ -= kSecond;
  return true;
}

bool L3Icmp::may_report(const rte_mbuf* about) const noexcept {
  const pipeline::PacketMeta& pm = pipeline::meta(about);
  if (pm.in_port >= interfaces_.size()) return false;
  if (header_at<wire::EthernetHeader>(pipeline::frame(about)).destination.is_multicast()) return false;
  if (is_icmp_error(about) || is_later_fragment(about)) return false;
  const IpEnds ends = ip_ends(about);
  if (ends.destination.is_multicast() || ends.source.is_multicast() || ends.source.is_unspecified()) return false;
  return !interfaces_.is_local(pm.in_port, ends.source) && !interfaces_.is_broadcast(pm.in_port, ends.source);
}

void L3Icmp::send(Context& context, const rte_mbuf* about, IcmpError error, std::uint32_t mtu_bytes) noexcept {
  if (!may_report(about)) return;
  const pipeline::PacketMeta& pm = pipeline::meta(about);
  const IpAddress to = ip_ends(about).source;
  const auto from = interfaces_.answer_from(pm.in_port, to);
  if (!from) return;
  if (!allowed(context.now)) return counters_.add(L3Counter::icmp_rate_limited);

  rte_mbuf* m = context.generate();
  if (m == nullptr) return counters_.add(L3Counter::out_of_mbufs);
  const std::size_t quote_at = icmp_quote_offset(to.is_v6());
  const std::size_t room = rte_pktmbuf_tailroom(m);
  // RFC 792 and RFC 4443 want at least the IP header and eight more bytes in the quote.
  if (room < quote_at + sizeof(wire::Ipv6Header) + 8) {
    counters_.add(L3Counter::out_of_mbufs);
    return context.drop(m, DropReason::out_of_mbufs);
  }
  const std::size_t limit = std::min({icmp_quote_limit(to.is_v6()), room - quote_at, std::size_t{pm.parsed.l3_length}});
  const std::size_t quoted = copy_from(about, pm.parsed.l3_offset, pipeline::frame(m) + quote_at, limit);
  rte_pktmbuf_append(m, static_cast<std::uint16_t>(quote_at + quoted));
  const wire::MacAddress back = header_at<wire::EthernetHeader>(pipeline::frame(about)).source;
  write_icmp_error({pipeline::frame(m), m->data_len}, {interfaces_[pm.in_port].mac, back}, *from, to,
                   message_of(error, to.is_v6(), mtu_bytes));
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
  context.send(m, pm.in_port);
  counters_.add(L3Counter::icmp_errors_sent);
}

}  // namespace weft::stages
