// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/lldp.h"

#include <algorithm>
#include <cstring>

#include "switch/wire/headers.h"

namespace weft::wire {
namespace {

/// Types of TLVs (table 8-1).
enum Type : std::uint8_t { kEnd = 0, kChassis = 1, kPort = 2, kTtl = 3, kPortDescription = 4, kSystemName = 5 };

struct Tlv {
  std::uint8_t type = kEnd;
  std::span<const std::uint8_t> value{};
};

/// Takes a TLV from the front; false: it is cut off.
bool take(std::span<const std::uint8_t>& rest, Tlv& out) noexcept {
  if (rest.size() < 2) return false;
  const std::size_t length = std::size_t{rest[0] & 1u} << 8 | rest[1];
  if (rest.size() < 2 + length) return false;
  out = {static_cast<std::uint8_t>(rest[0] >> 1), rest.subspan(2, length)};
  rest = rest.subspan(2 + length);
  return true;
}

bool is_lldp_address(MacAddress mac) noexcept {
  // Nearest bridge, nearest bridge that is no two-port one, nearest customer bridge (table 7-1).
  const std::uint64_t to = mac.to_u64();
  return to == kLldpNearestBridge || to == 0x0180c2000003 || to == 0x0180c2000000;
}

bool read_id(const Tlv& tlv, LldpId& out) noexcept {
  if (tlv.value.size() < 2 || tlv.value.size() > 1 + kLldpTextBytes) return false;
  out = {tlv.value[0], tlv.value.subspan(1)};
  return true;
}

class TlvWriter {
 public:
  explicit TlvWriter(std::span<std::uint8_t> out) noexcept : out_(out) {}
  void bytes(const void* data, std::size_t count) noexcept {
    if (count > 0) std::memcpy(out_.data() + size_, data, count);
    size_ += count;
  }
  void head(std::uint8_t type, std::size_t length) noexcept {
    const std::uint8_t head[2] = {static_cast<std::uint8_t>(type << 1 | length >> 8),
                                  static_cast<std::uint8_t>(length & 0xff)};
    bytes(head, sizeof head);
  }
  void mac(std::uint8_t type, std::uint8_t kind, MacAddress address) noexcept {
    head(type, 1 + sizeof address.bytes);
    bytes(&kind, 1);
    bytes(address.bytes.data(), sizeof address.bytes);
  }
  void text(std::uint8_t type, std::string_view words) noexcept {
    words = words.substr(0, kLldpTextBytes);
    if (words.empty()) return;
    head(type, words.size());
    bytes(words.data(), words.size());
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::span<std::uint8_t> out_;
  std::size_t size_ = 0;
};

}  // namespace

std::optional<LldpUnit> read_lldp(std::span<const std::uint8_t> frame) noexcept {
  if (frame.size() < sizeof(EthernetHeader)) return std::nullopt;
  const auto& eth = header_at<EthernetHeader>(frame.data());
  if (eth.ethertype.value() != EtherType::lldp || !is_lldp_address(eth.destination)) return std::nullopt;
  std::span<const std::uint8_t> rest = frame.subspan(sizeof(EthernetHeader));
  LldpUnit out;
  Tlv tlv;
  if (!take(rest, tlv) || tlv.type != kChassis || !read_id(tlv, out.chassis)) return std::nullopt;
  if (!take(rest, tlv) || tlv.type != kPort || !read_id(tlv, out.port)) return std::nullopt;
  if (!take(rest, tlv) || tlv.type != kTtl || tlv.value.size() < 2) return std::nullopt;
  out.ttl_s = static_cast<std::uint16_t>(tlv.value[0] << 8 | tlv.value[1]);
  // Without an End TLV the unit ends with the frame, but not within a TLV.
  while (!rest.empty()) {
    if (!take(rest, tlv)) return std::nullopt;
    if (tlv.type == kEnd) break;
    if (tlv.type <= kTtl) return std::nullopt;
    const bool fits = tlv.value.size() <= kLldpTextBytes;
    if (tlv.type == kPortDescription && fits && out.port_description.empty()) out.port_description = tlv.value;
    if (tlv.type == kSystemName && fits && out.system_name.empty()) out.system_name = tlv.value;
  }
  return out;
}

std::size_t write_lldp(std::span<std::uint8_t> out, const LldpSelf& self) noexcept {
  TlvWriter to(out);
  EthernetHeader eth{};
  eth.destination = MacAddress::from_u64(kLldpNearestBridge);
  eth.source = self.port;
  eth.ethertype.set(EtherType::lldp);
  to.bytes(&eth, sizeof eth);
  to.mac(kChassis, kLldpChassisMac, self.chassis);
  to.mac(kPort, kLldpPortMac, self.port);
  to.head(kTtl, 2);
  const std::uint8_t ttl[2] = {static_cast<std::uint8_t>(self.ttl_s >> 8), static_cast<std::uint8_t>(self.ttl_s)};
  to.bytes(ttl, sizeof ttl);
  to.text(kPortDescription, self.port_description);
  to.text(kSystemName, self.system_name);
  to.head(kEnd, 0);
  return to.size();
}

}  // namespace weft::wire
