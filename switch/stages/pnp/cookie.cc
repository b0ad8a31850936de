// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/cookie.h"

#include <algorithm>
#include <array>
#include <bit>

#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) noexcept {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

constexpr std::uint8_t kAnswerTtl = 64;

template <class Ip>
void finish_tcp(std::uint8_t* l4, const Ip& ip) noexcept {
  auto& tcp = wire::header_at<wire::TcpHeader>(l4);
  tcp.checksum.set(wire::l4_checksum(ip, wire::IpProtocol::tcp, {l4, sizeof tcp}));
}

}  // namespace

std::uint64_t siphash(std::uint64_t key0, std::uint64_t key1, std::span<const std::uint64_t> words) noexcept {
  SipState s{key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d, key0 ^ 0x6c7967656e657261,
             key1 ^ 0x7465646279746573};
  for (const std::uint64_t word : words) s.take(word);
  s.take(static_cast<std::uint64_t>(words.size() * sizeof(std::uint64_t)) << 56);
  s.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

std::uint32_t HandshakeCookies::cookie(std::int64_t slot, const TcpSegment& s, std::uint32_t first) const noexcept {
  const std::array<std::uint64_t, 3> words{
      s.pair, std::uint64_t{s.source_port} << 48 | std::uint64_t{s.destination_port} << 32 | first,
      static_cast<std::uint64_t>(slot) << 1 | (s.from_lower ? 1 : 0)};
  return static_cast<std::uint32_t>(siphash(key0_, key1_, words));
}

std::uint32_t HandshakeCookies::of_syn(TimeNs now, const TcpSegment& syn) const noexcept {
  return cookie(now / kLifetimeNs, syn, syn.sequence);
}

bool HandshakeCookies::answered_by(TimeNs now, const TcpSegment& ack) const noexcept {
  const std::uint32_t found = ack.acknowledgement - 1;
  const std::int64_t slot = now / kLifetimeNs;
  return found == cookie(slot, ack, ack.sequence - 1) || found == cookie(slot - 1, ack, ack.sequence - 1);
}

std::size_t write_tcp_answer(std::span<std::uint8_t> out, const std::uint8_t* frame, const wire::Parsed& parsed,
                             std::uint8_t flags, std::uint32_t sequence, std::uint32_t acknowledgement) noexcept {
  const bool v6 = parsed.has(wire::ParsedFlag::ipv6);
  constexpr std::size_t kL3 = sizeof(wire::EthernetHeader);
  const std::size_t l4 = kL3 + (v6 ? sizeof(wire::Ipv6Header) : sizeof(wire::Ipv4Header));
  const std::size_t bytes = std::max(l4 + sizeof(wire::TcpHeader), wire::kMinFrameBytes);
  if (out.size() < bytes) return 0;
  std::fill_n(out.begin(), bytes, std::uint8_t{0});
  const auto& eth = wire::header_at<wire::EthernetHeader>(frame);
  wire::header_at<wire::EthernetHeader>(out.data()) = {eth.source, eth.destination,
                                                       wire::be16(v6 ? wire::EtherType::ipv6 : wire::EtherType::ipv4)};
  auto& tcp = wire::header_at<wire::TcpHeader>(out.data() + l4);
  tcp.source_port.set(parsed.destination_port);
  tcp.destination_port.set(parsed.source_port);
  tcp.sequence.set(sequence);
  tcp.acknowledgement.set(acknowledgement);
  tcp.set_data_offset(sizeof tcp / 4);
  tcp.flags = flags;
  const auto dscp = static_cast<std::uint8_t>(parsed.tos & ~3);  // RFC 3168 6.1.1: Not-ECT
  if (v6) {
    const auto& from = wire::header_at<wire::Ipv6Header>(frame + parsed.l3_offset);
    auto& ip = wire::header_at<wire::Ipv6Header>(out.data() + kL3);
    ip.set_version(6);
    ip.set_traffic_class(dscp);
    ip.payload_length.set(sizeof tcp);
    ip.next_header = wire::IpProtocol::tcp;
    ip.hop_limit = kAnswerTtl;
    ip.source = from.destination;
    ip.destination = from.source;
    finish_tcp(out.data() + l4, ip);
  } else {
    const auto& from = wire::header_at<wire::Ipv4Header>(frame + parsed.l3_offset);
    auto& ip = wire::header_at<wire::Ipv4Header>(out.data() + kL3);
    ip.set_version(4);
    ip.set_ihl(sizeof ip / 4);
    ip.tos = dscp;
    ip.total_length.set(sizeof ip + sizeof tcp);
    ip.set_dont_fragment(true);
    ip.ttl = kAnswerTtl;
    ip.protocol = wire::IpProtocol::tcp;
    ip.source = from.destination;
    ip.destination = from.source;
    ip.checksum.set(wire::ipv4_checksum(ip));
    finish_tcp(out.data() + l4, ip);
  }
  return bytes;
}

}  // namespace weft::stages
