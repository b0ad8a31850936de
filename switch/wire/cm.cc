// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Each message has one list of its fields, by byte, first bit counted from the most significant one, and width; a
// reader and a writer walk it.
#include "switch/wire/cm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"

namespace weft::wire {
namespace {

/// Bytes of CM data behind the MAD header.
constexpr std::size_t kCmBytes = kMadBytes - kMadHeaderBytes;

/// The 64 bits from `byte` on; beyond the end of the message zeros follow.
std::uint64_t load_window(const std::uint8_t* message, std::size_t byte) noexcept {
  be64 window(0);
  std::memcpy(&window, message + byte, std::min(sizeof window, kCmBytes - byte));
  return window.value();
}

class Reader {
 public:
  explicit Reader(const std::uint8_t* message) noexcept : message_(message) {}

  template <class T>
  void bits(std::size_t byte, unsigned first_bit, unsigned width, T& v) const noexcept {
    const std::uint64_t raw = load_window(message_, byte) << first_bit >> (64 - width);
    if constexpr (std::is_same_v<T, Qpn> || std::is_same_v<T, Psn>) {
      v = T(static_cast<std::uint32_t>(raw));
    } else {
      v = static_cast<T>(raw);
    }
  }
  template <std::size_t kBytes>
  void bytes(std::size_t byte, std::array<std::uint8_t, kBytes>& v) const noexcept {
    std::memcpy(v.data(), message_ + byte, kBytes);
  }

 private:
  const std::uint8_t* message_;
};

class Writer {
 public:
  explicit Writer(std::uint8_t* message) noexcept : message_(message) {}

  template <class T>
  void bits(std::size_t byte, unsigned first_bit, unsigned width, const T& v) noexcept {
    std::uint64_t raw = 0;
    if constexpr (std::is_same_v<T, Qpn> || std::is_same_v<T, Psn>) {
      raw = v.value();
    } else {
      raw = static_cast<std::uint64_t>(v);
    }
    const std::uint64_t window = load_window(message_, byte) | raw << (64 - width) >> first_bit;
    const be64 stored(window);
    std::memcpy(message_ + byte, &stored, std::min(sizeof stored, kCmBytes - byte));
  }
  template <std::size_t kBytes>
  void bytes(std::size_t byte, const std::array<std::uint8_t, kBytes>& v) noexcept {
    std::memcpy(message_ + byte, v.data(), kBytes);
  }

 private:
  std::uint8_t* message_;
};

/// `Path` is CmPath or const CmPath; so for the messages below. `at` is where the path begins.
template <class Io, class Path>
void path_fields(Io& io, std::size_t at, Path& p) {
  io.bits(at, 0, 16, p.local_lid);
  io.bits(at + 2, 0, 16, p.remote_lid);
  io.bytes(at + 4, p.local_gid);
  io.bytes(at + 20, p.remote_gid);
  io.bits(at + 36, 0, 20, p.flow_label);
  io.bits(at + 39, 2, 6, p.packet_rate);
  io.bits(at + 40, 0, 8, p.traffic_class);
  io.bits(at + 41, 0, 8, p.hop_limit);
  io.bits(at + 42, 0, 4, p.service_level);
  io.bits(at + 42, 4, 1, p.subnet_local);
  io.bits(at + 43, 0, 5, p.local_ack_timeout);
}

/// True for T = CmReq and const CmReq alike.
template <class T, class Message>
inline constexpr bool kIs = std::is_same_v<std::remove_const_t<T>, Message>;

template <class Io, class T>
requires kIs<T, CmReq>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(8, 0, 64, m.service_id);
  io.bits(16, 0, 64, m.local_ca_guid);
  io.bits(28, 0, 32, m.local_qkey);
  io.bits(32, 0, 24, m.local_qpn);
  io.bits(35, 0, 8, m.responder_resources);
  io.bits(36, 0, 24, m.local_eecn);
  io.bits(39, 0, 8, m.initiator_depth);
  io.bits(40, 0, 24, m.remote_eecn);
  io.bits(43, 0, 5, m.remote_cm_response_timeout);
  io.bits(43, 5, 2, m.transport);
  io.bits(43, 7, 1, m.end_to_end_flow_control);
  io.bits(44, 0, 24, m.starting_psn);
  io.bits(47, 0, 5, m.local_cm_response_timeout);
  io.bits(47, 5, 3, m.retry_count);
  io.bits(48, 0, 16, m.pkey);
  io.bits(50, 0, 4, m.path_mtu);
  io.bits(50, 4, 1, m.rdc_exists);
  io.bits(50, 5, 3, m.rnr_retry_count);
  io.bits(51, 0, 4, m.max_cm_retries);
  io.bits(51, 4, 1, m.srq);
  io.bits(51, 5, 3, m.extended_transport);
  path_fields(io, 52, m.primary);
  path_fields(io, 96, m.alternate);
  io.bits(139, 5, 1, m.sap_supported);
  io.bytes(140, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmMra>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(4, 0, 32, m.remote_comm_id);
  io.bits(8, 0, 2, m.answered);
  io.bits(9, 0, 5, m.service_timeout);
  io.bytes(10, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmRej>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(4, 0, 32, m.remote_comm_id);
  io.bits(8, 0, 2, m.rejected);
  io.bits(9, 0, 7, m.info_length);
  io.bits(10, 0, 16, m.reason);
  io.bytes(12, m.info);
  io.bytes(84, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmRep>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(4, 0, 32, m.remote_comm_id);
  io.bits(8, 0, 32, m.local_qkey);
  io.bits(12, 0, 24, m.local_qpn);
  io.bits(16, 0, 24, m.local_eecn);
  io.bits(20, 0, 24, m.starting_psn);
  io.bits(24, 0, 8, m.responder_resources);
  io.bits(25, 0, 8, m.initiator_depth);
  io.bits(26, 0, 5, m.target_ack_delay);
  io.bits(26, 5, 2, m.failover_accepted);
  io.bits(26, 7, 1, m.end_to_end_flow_control);
  io.bits(27, 0, 3, m.rnr_retry_count);
  io.bits(27, 3, 1, m.srq);
  io.bits(28, 0, 64, m.local_ca_guid);
  io.bytes(36, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmRtu> || kIs<T, CmDrep>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(4, 0, 32, m.remote_comm_id);
  io.bytes(8, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmDreq>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.local_comm_id);
  io.bits(4, 0, 32, m.remote_comm_id);
  io.bits(8, 0, 24, m.remote_qpn);
  io.bytes(12, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmSidrReq>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.request_id);
  io.bits(4, 0, 16, m.pkey);
  io.bits(8, 0, 64, m.service_id);
  io.bytes(16, m.private_data);
}

template <class Io, class T>
requires kIs<T, CmSidrRep>
void fields(Io& io, T& m) {
  io.bits(0, 0, 32, m.request_id);
  io.bits(4, 0, 8, m.status);
  io.bits(5, 0, 8, m.info_length);
  io.bits(8, 0, 24, m.qpn);
  io.bits(12, 0, 64, m.service_id);
  io.bits(20, 0, 32, m.qkey);
  io.bytes(24, m.info);
  io.bytes(96, m.private_data);
}

/// Fields end with the private data, which ends with the message.
template <class Message, std::size_t kPrivateAt>
constexpr bool kFillsMad = kPrivateAt + std::tuple_size_v<decltype(Message::private_data)> == kCmBytes;
static_assert(kFillsMad<CmReq, 140> && kFillsMad<CmMra, 10> && kFillsMad<CmRej, 84> && kFillsMad<CmRep, 36>);
static_assert(kFillsMad<CmRtu, 8> && kFillsMad<CmDreq, 12> && kFillsMad<CmDrep, 8>);
static_assert(kFillsMad<CmSidrReq, 16> && kFillsMad<CmSidrRep, 96>);

/// Attributes are numbered like the alternatives of the variant.
constexpr auto kFirstAttribute = static_cast<std::uint16_t>(CmAttribute::req);
using Body = decltype(CmMessage::body);
static_assert(std::is_same_v<std::variant_alternative_t<0, Body>, CmReq>);
static_assert(std::is_same_v<std::variant_alternative_t<3, Body>, CmRep>);
static_assert(std::is_same_v<std::variant_alternative_t<8, Body>, CmSidrRep>);

template <std::size_t... kIndex>
void emplace(Body& body, std::size_t index, std::index_sequence<kIndex...>) noexcept {
  ((kIndex == index ? static_cast<void>(body.emplace<kIndex>()) : static_cast<void>(0)), ...);
}

CmValidity check_header(const MadHeader& h) noexcept {
  if (h.base_version != MadHeader::kBaseVersion) return CmValidity::base_version;
  if (h.management_class != MadHeader::kCmClass) return CmValidity::management_class;
  if (h.class_version != MadHeader::kCmClassVersion) return CmValidity::class_version;
  if (h.method != MadHeader::kMethodSend) return CmValidity::method;
  const auto index = static_cast<std::uint32_t>(h.attribute.value()) - kFirstAttribute;
  if (index >= std::variant_size_v<Body>) return CmValidity::attribute;
  return CmValidity::ok;
}

struct CmText {
  std::string_view name;
  std::string_view sentence;
};
constexpr std::array<CmText, kCmValidityCount> kTexts{{
    {"ok", "The datagram breaks no rule."},
    {"truncated", "The datagram is shorter than 256 bytes."},
    {"oversized", "The datagram is longer than 256 bytes."},
    {"base_version", "The base version is not 1."},
    {"management_class", "The management class is not communication management."},
    {"class_version", "The class version is not 2."},
    {"method", "The method is not Send."},
    {"attribute", "The attribute is no message of communication management that weft reads."},
    {"rej_info_length", "The additional reject information is longer than 72 bytes."},
}};
constexpr std::array<std::string_view, std::variant_size_v<Body>> kAttributeNames{
    "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"};

constexpr Gid kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
constexpr std::size_t kMappedPrefixBytes = 12;

}  // namespace

std::string_view name(CmValidity v) noexcept {
  return kTexts[static_cast<std::size_t>(v)].name;
}
std::string_view description(CmValidity v) noexcept {
  return kTexts[static_cast<std::size_t>(v)].sentence;
}
std::string_view name(CmAttribute a) noexcept {
  return kAttributeNames[static_cast<std::size_t>(a) - kFirstAttribute];
}

CmAttribute CmMessage::attribute() const noexcept {
  return static_cast<CmAttribute>(kFirstAttribute + body.index());
}

IpAddress gid_address(const Gid& gid) noexcept {
  if (!std::equal(gid.begin(), gid.begin() + kMappedPrefixBytes, kMappedPrefix.begin())) return IpAddress::v6(gid);
  return IpAddress::v4(header_at<be32>(gid.data() + kMappedPrefixBytes).value());
}

CmValidity parse_cm(std::span<const std::uint8_t> mad, CmMessage& out) noexcept {
  if (mad.size() < kMadBytes) return CmValidity::truncated;
  if (mad.size() > kMadBytes) return CmValidity::oversized;
  const auto& header = header_at<MadHeader>(mad.data());
  const CmValidity validity = check_header(header);
  if (validity != CmValidity::ok) return validity;
  CmMessage m;
  m.transaction_id = header.transaction_id.value();
  const std::size_t index = header.attribute.value() - kFirstAttribute;
  emplace(m.body, index, std::make_index_sequence<std::variant_size_v<Body>>());
  Reader reader(mad.data() + kMadHeaderBytes);
  std::visit([&reader](auto& body) { fields(reader, body); }, m.body);
  if (const auto* rej = std::get_if<CmRej>(&m.body); rej != nullptr && rej->info_length > rej->info.size()) {
    return CmValidity::rej_info_length;
  }
  out = m;
  return CmValidity::ok;
}

std::array<std::uint8_t, kMadBytes> build_cm(const CmMessage& message) noexcept {
  std::array<std::uint8_t, kMadBytes> mad{};
  auto& header = header_at<MadHeader>(mad.data());
  header.base_version = MadHeader::kBaseVersion;
  header.management_class = MadHeader::kCmClass;
  header.class_version = MadHeader::kCmClassVersion;
  header.method = MadHeader::kMethodSend;
  header.transaction_id.set(message.transaction_id);
  header.attribute.set(static_cast<std::uint16_t>(message.attribute()));
  Writer writer(mad.data() + kMadHeaderBytes);
  std::visit([&writer](const auto& body) { fields(writer, body); }, message.body);
  return mad;
}

std::span<const std::uint8_t> mad_in_frame(const std::uint8_t* frame, std::uint32_t contiguous,
                                           const Parsed& parsed) noexcept {
  const auto opcode = static_cast<std::uint8_t>(Opcode::UD_SEND_ONLY);
  if (parsed.kind != FrameKind::roce || parsed.opcode != opcode || parsed.dest_qp != kGsiQpn) return {};
  const std::size_t at = parsed.l4_offset + sizeof(UdpHeader) + opcode_info(opcode).header_bytes;
  if (at + parsed.payload_bytes > contiguous) return {};
  return {frame + at, parsed.payload_bytes};
}

std::optional<CmaHeader> parse_cma(std::span<const std::uint8_t> private_data) noexcept {
  if (private_data.size() < CmaHeader::kBytes) return std::nullopt;
  const std::uint8_t* at = private_data.data();
  CmaHeader h;
  h.version = at[0];
  const unsigned ip_version = at[1] >> 4;
  if (h.version != 0 || (ip_version != 4 && ip_version != 6)) return std::nullopt;
  h.source_port = header_at<be16>(at + 2).value();
  Gid source, destination;
  std::memcpy(source.data(), at + 4, source.size());
  std::memcpy(destination.data(), at + 20, destination.size());
  if (ip_version == 4) {
    h.source = IpAddress::v4(header_at<be32>(source.data() + kMappedPrefixBytes).value());
    h.destination = IpAddress::v4(header_at<be32>(destination.data() + kMappedPrefixBytes).value());
  } else {
    h.source = IpAddress::v6(source);
    h.destination = IpAddress::v6(destination);
  }
  return h;
}

std::array<std::uint8_t, CmaHeader::kBytes> build_cma(const CmaHeader& header) noexcept {
  std::array<std::uint8_t, CmaHeader::kBytes> out{};
  out[0] = header.version;
  out[1] = static_cast<std::uint8_t>((header.source.is_v6() ? 6 : 4) << 4);
  header_at<be16>(out.data() + 2).set(header.source_port);
  // An IPv4 address fills the last four bytes; those before it are zero here, not the prefix of a mapped address.
  const std::size_t skip = header.source.is_v6() ? 0 : kMappedPrefixBytes;
  const auto put = [&](const IpAddress& a, std::size_t at) {
    std::copy(a.bytes().begin() + static_cast<std::ptrdiff_t>(skip), a.bytes().end(),
              out.begin() + static_cast<std::ptrdiff_t>(at + skip));
  };
  put(header.source, 4);
  put(header.destination, 20);
  return out;
}

}  // namespace weft::wire
