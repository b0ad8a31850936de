// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/corrupt.h"

#include <array>

#include "switch/wire/icrc.h"

namespace weft::stages {
namespace {

using wire::ParsedFlag;

// Bytes [first, first + size), out of which those at `skipped` (ascending) were taken.
struct Region {
  std::uint32_t first = 0;
  std::uint32_t size = 0;
  std::array<std::uint32_t, 8> skipped{};
  std::uint32_t skips = 0;

  [[nodiscard]] std::uint32_t candidates() const noexcept { return size - skips; }
  [[nodiscard]] std::uint32_t at(std::uint32_t index) const noexcept {
    std::uint32_t offset = first + index;
    for (std::uint32_t i = 0; i < skips; ++i) offset += static_cast<std::uint32_t>(offset >= skipped[i]);
    return offset;
  }
};

Region between(std::uint32_t first, std::uint32_t end) noexcept {
  return {first, end > first ? end - first : 0};
}

// Takes out the bytes with fields that the ICRC reads as ones. Of the first word of an IPv6 header only the version
// is covered, so that all of it goes.
void skip_variant_fields(Region& region, const wire::Parsed& p) noexcept {
  const auto skip = [&](std::uint32_t at) { region.skipped[region.skips++] = at; };
  if (p.has(ParsedFlag::ipv6)) {
    for (std::uint32_t i = 0; i < 4; ++i) skip(p.l3_offset + i);
    skip(p.l3_offset + 7u);
  } else {
    skip(p.l3_offset + 1u);
    skip(p.l3_offset + 8u);
    skip(p.l3_offset + 10u);
    skip(p.l3_offset + 11u);
  }
  skip(p.l4_offset + 6u);
  skip(p.l4_offset + 7u);
  skip(p.l4_offset + 12u);
}

Region roce_region(CorruptWhere where, const ImpairFields& f) noexcept {
  const wire::Parsed& p = f.parsed;
  const auto body =
      static_cast<std::uint32_t>(p.l4_offset + sizeof(wire::UdpHeader) + wire::opcode_info(p.opcode).header_bytes);
  const std::uint32_t icrc = wire::roce_layout(f.frame, p).icrc;
  constexpr auto kIcrc = static_cast<std::uint32_t>(wire::kIcrcBytes);
  switch (where) {
    case CorruptWhere::payload:
      return between(body, body + p.payload_bytes);
    case CorruptWhere::icrc:
      return between(icrc, icrc + kIcrc);
    case CorruptWhere::any:
    case CorruptWhere::header:
      break;
  }
  Region region = between(p.l3_offset, where == CorruptWhere::any ? icrc + kIcrc : body);
  skip_variant_fields(region, p);
  return region;
}

Region other_region(CorruptWhere where, const ImpairFields& f) noexcept {
  const std::uint32_t l3 =
      f.parsed.l3_offset != 0 ? f.parsed.l3_offset : static_cast<std::uint32_t>(sizeof(wire::EthernetHeader));
  const std::uint32_t l4 = f.parsed.l4_offset != 0 ? f.parsed.l4_offset : l3;
  switch (where) {
    case CorruptWhere::any:
      return between(l3, f.frame_bytes);
    case CorruptWhere::header:
      return between(l3, l4);
    case CorruptWhere::payload:
      return between(l4, f.frame_bytes);
    case CorruptWhere::icrc:
      break;
  }
  return {};
}

}  // namespace

std::optional<std::uint32_t> pick_corrupt_bit(CorruptWhere where, const ImpairFields& f, Rng& rng) noexcept {
  const bool roce = f.parsed.kind == wire::FrameKind::roce;
  const Region region = roce ? roce_region(where, f) : other_region(where, f);
  if (region.candidates() == 0) return std::nullopt;
  const auto choice = static_cast<std::uint32_t>(rng.below(std::uint64_t{region.candidates()} * 8));
  return region.at(choice / 8) * 8 + choice % 8;
}

}  // namespace weft::stages
