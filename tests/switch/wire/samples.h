// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Frames of every kind that the parser tells apart, and helpers of the wire tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/emit.h"
#include "switch/wire/parse.h"

namespace weft::wire {

struct Sample {
  std::string name;
  std::vector<std::uint8_t> frame;
};

/// Every known opcode, over IPv4 and IPv6, with and without a tag, with payload sizes around the multiples of four.
inline std::vector<Sample> roce_samples() {
  std::vector<Sample> samples;
  std::uint32_t n = 0;
  for (unsigned raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& row = opcode_info(static_cast<std::uint8_t>(raw));
    if (!row.known()) continue;
    for (const bool v6 : {false, true}) {
      for (const bool tagged : {false, true}) {
        ++n;
        FrameBuilder b;
        if (tagged) b.vlan(static_cast<std::uint16_t>(n % 4096), n % 8, n % 2 != 0);
        if (v6) {
          b.ipv6("2001:db8::1:2", "2001:db8:ffff::3:4").flow_label(n * 77777);
        } else {
          b.ipv4("10.1.2.3", "192.168.250.251").identification(static_cast<std::uint16_t>(n * 31));
        }
        b.tos(static_cast<std::uint8_t>(n * 37)).ttl(static_cast<std::uint8_t>(n * 11));
        b.udp(static_cast<std::uint16_t>(49152 + n));
        b.bth(static_cast<std::uint8_t>(raw), Qpn(n * 0x10203), Psn(n * 0x30201));
        b.ack_req(n % 3 == 0).solicited(n % 5 == 0).fecn(n % 7 == 0).becn(n % 11 == 0);
        b.aeth(Syndrome(static_cast<std::uint8_t>(n)), n).reth(n, n + 1, n + 2).deth(n, Qpn(n)).immediate(n);
        if (row.may_carry_payload()) b.payload(1 + n % 41);
        samples.push_back({std::string(opcode_name(static_cast<std::uint8_t>(raw))) + (v6 ? " v6" : " v4") +
                               (tagged ? " tagged" : ""),
                           b.build()});
      }
    }
  }
  return samples;
}

/// Every field that a frame of the switch can have, with a value of its own.
inline RoceAddressing roce_addressing(bool v6, bool tagged) {
  RoceAddressing to;
  to.source_mac = MacAddress::from_u64(0x020000000011);
  to.destination_mac = MacAddress::from_u64(0x020000000022);
  to.tagged = tagged;
  to.vlan_tci = 3 << 13 | 1 << 12 | 100;
  to.source = v6 ? *IpAddress::parse("2001:db8::1") : IpAddress::v4(0x0a000001);
  to.destination = v6 ? *IpAddress::parse("2001:db8::2") : IpAddress::v4(0x0a000002);
  to.flow_label = 0x12345;
  to.tos = 0xc2;
  to.ttl = 33;
  to.source_port = 50123;
  return to;
}

/// Frames that are not RoCE.
inline std::vector<Sample> other_samples() {
  const auto mac = MacAddress::from_u64(0x020000000001);
  const auto a = IpAddress::v4(0x0a000001), b = IpAddress::v4(0x0a000002);
  const auto options = std::vector<std::uint8_t>{0x94, 4, 0, 0};
  std::vector<Sample> samples;
  const auto add = [&](std::string name, const FrameBuilder& f) { samples.push_back({std::move(name), f.build()}); };
  add("bare", FrameBuilder().ethertype(0x88b5).payload(46));
  add("llc", FrameBuilder().ethertype(46).payload(46));
  add("pause", FrameBuilder().pause(0xffff));
  add("pfc", FrameBuilder().pfc(0x08, {0, 0, 0, 0xffff, 0, 0, 0, 0}));
  add("tagged mac control", FrameBuilder().vlan(0, 7).pause(1));
  add("arp", FrameBuilder().arp(ArpOperation::request, mac, a, MacAddress{}, b));
  add("tagged arp", FrameBuilder().vlan(5).arp(ArpOperation::reply, mac, b, mac, a).pad_to_minimum());
  add("nested", FrameBuilder().service_vlan(7).vlan(5).udp(1, 2));
  add("service tag", FrameBuilder().service_vlan(7).bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(8));
  add("udp", FrameBuilder().udp(53, 5353).payload(5));
  add("udp short of ip", FrameBuilder().udp(53, 5353).payload(5).udp_length(9));
  add("udp v6", FrameBuilder().ipv6("::1", "::2").udp(53, 5353).payload(5));
  add("tcp", FrameBuilder().tcp(40000, 22));
  add("tcp v6", FrameBuilder().ipv6("::1", "::2").tcp(40000, 22).payload(3));
  add("icmp", FrameBuilder().icmp(IcmpType::echo_request, 0, 77).payload(9));
  add("icmp v6", FrameBuilder().ipv6("::1", "::2").icmp(Icmpv6Type::echo_request, 0).payload(9));
  add("protocol 89", FrameBuilder().ip(a, b).protocol(89).payload(20));
  add("fragment first", FrameBuilder().udp(1).payload(64).fragment(0, true));
  add("fragment last", FrameBuilder().ip(a, b).protocol(17).payload(64).fragment(100, false));
  add("fragment v6", FrameBuilder().ipv6("::1", "::2").udp(1).payload(64).fragment(3, true));
  add("options", FrameBuilder().ip_options(options).bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(8));
  add("options udp", FrameBuilder().ip_options(options).udp(1, 2).payload(8));
  add("extensions", FrameBuilder()
                        .ipv6("::1", "::2")
                        .extension(IpProtocol::hop_by_hop)
                        .extension(IpProtocol::routing, 2)
                        .extension(IpProtocol::destination_options, 1)
                        .bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6))
                        .payload(8));
  add("long extension", FrameBuilder().ipv6("::1", "::2").extension(IpProtocol::hop_by_hop, 30).udp(1, 2));
  add("roce with trailer", FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).trailer(2));
  add("roce short of ip", FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(64).udp_length(28 + 16));
  add("bad tver", FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).transport_version(1).payload(8));
  add("qp0", FrameBuilder().bth(Opcode::UD_SEND_ONLY, Qpn(0), Psn(6)).payload(8));
  add("ack with payload", FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(5), Psn(6)).payload(8));
  add("middle without payload", FrameBuilder().bth(Opcode::RC_SEND_MIDDLE, Qpn(5), Psn(6)));
  add("unknown opcode", FrameBuilder().bth(std::uint8_t{0x15}, Qpn(5), Psn(6)).payload(8));
  return samples;
}

inline std::vector<Sample> all_samples() {
  auto samples = roce_samples();
  for (auto& s : other_samples()) samples.push_back(std::move(s));
  return samples;
}

/// A copy in memory of exactly its size, so that the address sanitizer sees any read behind it.
inline std::unique_ptr<std::uint8_t[]> exact_copy(const std::uint8_t* data, std::size_t bytes) {
  auto copy = std::make_unique<std::uint8_t[]>(bytes);
  if (bytes != 0) std::memcpy(copy.get(), data, bytes);
  return copy;
}

inline Parsed parse(const std::vector<std::uint8_t>& frame) {
  Parsed p;
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  parse_frame(frame.data(), bytes, bytes, p);
  return p;
}

inline bool same(const Parsed& a, const Parsed& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Random numbers from a seed that a failing test shows; WEFT_TEST_SEED repeats a run.
class TestRandom {
 public:
  TestRandom() : seed_(choose_seed()), engine_(seed_) { std::printf("seed %u\n", seed_); }
  std::uint32_t operator()(std::uint32_t below) { return static_cast<std::uint32_t>(engine_() % below); }
  std::uint32_t word() { return static_cast<std::uint32_t>(engine_()); }
  [[nodiscard]] std::uint32_t seed() const { return seed_; }

 private:
  static std::uint32_t choose_seed() {
    const char* given = std::getenv("WEFT_TEST_SEED");
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0)) : std::random_device{}();
  }
  std::uint32_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace weft::wire
