// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/source_cnp.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/emit.h"
#include "switch/wire/icrc.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/parse.h"

namespace weft::wire {
namespace {

constexpr std::size_t kIp = sizeof(EthernetHeader), kUdp = kIp + sizeof(Ipv4Header), kBth = kUdp + sizeof(UdpHeader);
constexpr std::size_t kIcrc = kSourceCnpBytes - kIcrcBytes;
constexpr std::uint8_t kCnpTtl = 64;

/// A CNP in which all is zero where one differs from another: MAC addresses, TOS, header checksum, IP addresses and
/// queue pair. The ICRC is that of the zeros.
struct Template {
  std::array<std::uint8_t, kSourceCnpBytes> frame{};
  std::uint32_t icrc = 0;
  Parsed parsed{};
};

Template make_template() noexcept {
  Template made;
  RoceAddressing to;
  to.source = to.destination = IpAddress::v4(0);
  to.ttl = kCnpTtl;
  to.source_port = 0;
  assert(emitted_bytes(to, Opcode::CNP) == kSourceCnpBytes);
  // No packet goes to queue pair 0, so the one that is parsed has another.
  write_cnp(made.frame, to, Qpn(1));
  parse_frame(made.frame.data(), kSourceCnpBytes, kSourceCnpBytes, made.parsed);
  assert(made.parsed.kind == FrameKind::roce);
  write_cnp(made.frame, to, Qpn(0));
  made.icrc = load_icrc(&made.frame[kIcrc]);
  return made;
}

/// The sum of the template's IPv4 header: addresses and TOS come to it.
constexpr std::uint32_t kSum =
    (4 << 12 | sizeof(Ipv4Header) / 4 << 8) + (kSourceCnpBytes - kIp) + 0x4000 + (kCnpTtl << 8 | IpProtocol::udp);

/// Covered bytes behind the word at this offset.
constexpr std::uint32_t covered_after(std::size_t offset) noexcept {
  return static_cast<std::uint32_t>(kIcrc - offset - sizeof(be32));
}

}  // namespace

std::size_t write_source_cnp(std::span<std::uint8_t> out, const std::uint8_t* frame, const Parsed& parsed,
                             std::uint8_t tos, Qpn dest_qp, Parsed& made) noexcept {
  if (out.size() < kSourceCnpBytes) return 0;
  static const Template plain = make_template();  // not before the tables of the ICRC, which other files initialise
  std::uint8_t* const to = out.data();
  std::memcpy(to, plain.frame.data(), kSourceCnpBytes);
  const auto& theirs = header_at<EthernetHeader>(frame);
  auto& eth = header_at<EthernetHeader>(to);
  eth.destination = theirs.source;
  eth.source = theirs.destination;

  const auto source = static_cast<std::uint32_t>(parsed.address_key);
  const auto destination = static_cast<std::uint32_t>(parsed.address_key >> 32);
  ChecksumSum sum;
  sum.add_word32(kSum);
  sum.add_word(tos);
  sum.add_word32(source);
  sum.add_word32(destination);
  auto& ip = header_at<Ipv4Header>(to + kIp);
  ip.tos = tos;
  ip.checksum.set(sum.checksum());
  ip.source.set(source);
  ip.destination.set(destination);
  header_at<Bth>(to + kBth).dest_qp.set(dest_qp.value());
  const std::array<FieldEdit, 3> edits{
      FieldEdit{byte_swap(source), covered_after(kIp + offsetof(Ipv4Header, source))},
      FieldEdit{byte_swap(destination), covered_after(kIp + offsetof(Ipv4Header, destination))},
      FieldEdit{byte_swap(dest_qp.value()), covered_after(kBth + offsetof(Bth, fecn_becn))},
  };
  store_icrc(to + kIcrc, icrc_update(plain.icrc, edits));

  made = plain.parsed;
  made.tos = tos;
  made.address_key = std::rotl(parsed.address_key, 32);
  made.dest_qp = dest_qp;
  return kSourceCnpBytes;
}

RoceAddressing source_cnp_addressing(const std::uint8_t* frame, const Parsed& parsed, std::uint8_t tos) noexcept {
  RoceAddressing to = reply_addressing(frame, parsed);
  to.tagged = false;
  to.tos = tos;
  to.source_port = 0;
  return to;
}

}  // namespace weft::wire
