// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lldp/neighbours.h"

#include <algorithm>

namespace weft::stages {
namespace {

enum class Form : std::uint8_t { text, mac, address };

struct Kind {
  const char* name;
  Form form = Form::text;
};

/// By number (IEEE 802.1AB-2016 tables 8-2 and 8-3), under lldpd's names.
constexpr Kind kChassisKinds[] = {
    {"unhandled"},      {"component"},         {"ifalias"}, {"port"},
    {"mac", Form::mac}, {"ip", Form::address}, {"ifname"},  {"local"},
};
constexpr Kind kPortKinds[] = {
    {"unhandled"}, {"ifalias"}, {"port"}, {"mac", Form::mac}, {"ip", Form::address}, {"ifname"}, {"agent"}, {"local"},
};
constexpr std::uint8_t kIpv4 = 1, kIpv6 = 2;  // IANA's address families

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t b : bytes) out.append({kDigits[b >> 4], kDigits[b & 15]});
  return out;
}

bool is_printable(std::span<const std::uint8_t> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b >= 0x20 && b < 0x7f; });
}

std::string address_text(std::span<const std::uint8_t> id) {
  if (id.size() == 5 && id[0] == kIpv4) {
    return wire::IpAddress::v4(std::uint32_t{id[1]} << 24 | std::uint32_t{id[2]} << 16 | std::uint32_t{id[3]} << 8 |
                               id[4])
        .to_string();
  }
  if (id.size() != 17 || id[0] != kIpv6) return hexadecimal(id);
  std::array<std::uint8_t, 16> bytes{};
  std::copy(id.begin() + 1, id.end(), bytes.begin());
  return wire::IpAddress::v6(bytes).to_string();
}

std::string text_of(std::span<const Kind> kinds, std::uint8_t kind, std::span<const std::uint8_t> id) {
  const bool known = kind > 0 && kind < kinds.size();
  const Kind& k = kinds[known ? kind : 0];
  std::string out = std::string(k.name) + " ";
  if (!known) return out + hexadecimal(id);
  if (k.form == Form::mac && id.size() == 6) {
    wire::MacAddress mac;
    std::copy(id.begin(), id.end(), mac.bytes.begin());
    return out + mac.to_string();
  }
  if (k.form == Form::address) return out + address_text(id);
  return out + (k.form == Form::text && is_printable(id) ? std::string(id.begin(), id.end()) : hexadecimal(id));
}

bool same(const LldpText& a, std::span<const std::uint8_t> b) noexcept {
  return std::equal(a.view().begin(), a.view().end(), b.begin(), b.end());
}

}  // namespace

void LldpText::set(std::span<const std::uint8_t> from) noexcept {
  size = static_cast<std::uint8_t>(std::min(from.size(), bytes.size()));
  std::copy_n(from.begin(), size, bytes.begin());
}

std::string lldp_chassis_text(std::uint8_t kind, std::span<const std::uint8_t> id) {
  return text_of(kChassisKinds, kind, id);
}

std::string lldp_port_text(std::uint8_t kind, std::span<const std::uint8_t> id) {
  return text_of(kPortKinds, kind, id);
}

std::string lldp_plain_text(std::span<const std::uint8_t> bytes) {
  std::string out(bytes.begin(), bytes.end());
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

LldpNeighbours::Heard LldpNeighbours::on_unit(TimeNs now, std::size_t port, const wire::LldpUnit& unit) noexcept {
  auto& all = ports_[port];
  const auto at = std::find_if(all.begin(), all.end(), [&](const LldpNeighbour& n) {
    return n.until != 0 && n.chassis_kind == unit.chassis.kind && n.port_kind == unit.port.kind &&
           same(n.chassis, unit.chassis.bytes) && same(n.port, unit.port.bytes);
  });
  if (unit.ttl_s == 0) {
    if (at != all.end()) *at = {};
    return Heard::gone;
  }
  const bool known = at != all.end();
  const auto place =
      known ? at : std::find_if(all.begin(), all.end(), [](const LldpNeighbour& n) { return n.until == 0; });
  if (place == all.end()) return Heard::no_room;
  place->heard = now;
  place->until = now + TimeNs{unit.ttl_s} * 1'000'000'000;
  place->chassis_kind = unit.chassis.kind;
  place->port_kind = unit.port.kind;
  place->chassis.set(unit.chassis.bytes);
  place->port.set(unit.port.bytes);
  place->port_description.set(unit.port_description);
  place->system.set(unit.system_name);
  return known ? Heard::known : Heard::fresh;
}

void LldpNeighbours::on_timer(TimeNs now) noexcept {
  for (auto& all : ports_) {
    for (LldpNeighbour& n : all) {
      if (n.until != 0 && n.until <= now) n = {};
    }
  }
}

TimeNs LldpNeighbours::next_deadline() const noexcept {
  TimeNs next = kNever;
  for (const auto& all : ports_) {
    for (const LldpNeighbour& n : all) next = n.until == 0 ? next : std::min(next, n.until);
  }
  return next;
}

std::size_t LldpNeighbours::count() const noexcept {
  std::size_t n = 0;
  for (const auto& all : ports_) {
    n +=
        static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& one) { return one.until != 0; }));
  }
  return n;
}

}  // namespace weft::stages
