// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: IPv4 headers of 60 bytes that ACKs have, each behind four bytes that say when it came and what it
// acknowledged. Reading the option of telemetry stays in bounds, what is read is written and read again, and HPCC keeps
// its window between its bounds, whatever it is told.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "nic/rnic/hpcc.h"
#include "switch/wire/telemetry.h"
#include "tests/fuzz/require.h"

namespace weft::nic {
namespace {

constexpr std::size_t kHeader = 60, kRecord = 4 + kHeader;
constexpr std::uint64_t kLine = 100'000'000'000;

/// What a switch and a receiver do with an option.
void write_again(std::uint8_t* option) {
  const wire::IntPath path = wire::read_int(option);
  std::array<std::uint8_t, wire::kIntOptionBytes> echo;
  wire::write_int(echo.data(), wire::IntKind::echo, path);
  require(wire::read_int(echo.data()) == path, "an echo says what it was given");
  constexpr wire::IntHop kHop{15, 0xffff, 0xffff, wire::kIntMaxQueue};
  for (unsigned hops = path.hops; hops < wire::kIntHops; ++hops) {
    require(wire::append_int(option, kHop, 0xff), "there is a place");
    require(wire::read_int(option).hops == hops + 1 && wire::read_int(option).hop[hops] == kHop, "what was written");
  }
  require(!wire::append_int(option, kHop, 0xff), "and then there is none");
  for (unsigned h = 0; h < path.hops; ++h) require(wire::read_int(option).hop[h] == path.hop[h], "the others stay");
}

void require_bounds(const Hpcc& unit, const HpccParameters& p) {
  const double rate = unit.rate_bps(0);
  require(rate <= static_cast<double>(kLine) && rate >= 0.99 * static_cast<double>(p.min_bps), "a rate in its bounds");
  require(unit.window_packets() >= 1, "a packet may always be under way");
  require(std::isfinite(unit.utilisation()) && unit.utilisation() >= 0, "a utilisation");
}

void run(const std::uint8_t* data, std::size_t size) {
  const HpccParameters parameters;
  Hpcc unit(parameters, kLine);
  unit.on_sent(0, 1100);
  Time now = 0;
  std::uint64_t acknowledged = 0;
  for (; size >= kRecord; data += kRecord, size -= kRecord) {
    now += Time{data[0]} << (data[1] & 15);
    if (data[2] != 0) unit.on_rtt(Time{data[2]} << (data[1] >> 4));
    acknowledged += data[3] & 15;
    const auto header = std::make_unique<std::uint8_t[]>(kHeader);
    std::copy_n(data + 4, kHeader, header.get());
    std::uint8_t* const option = wire::find_int_option(header.get());
    if (option == nullptr) continue;
    unit.on_telemetry(now, wire::read_int(option), acknowledged, acknowledged + (data[3] >> 4));
    require_bounds(unit, parameters);
    write_again(option);
  }
  // A header without options has no more than its 20 bytes.
  const auto plain = std::make_unique<std::uint8_t[]>(sizeof(wire::Ipv4Header));
  plain[0] = 0x45;
  require(wire::find_int_option(plain.get()) == nullptr, "no option");
}

}  // namespace
}  // namespace weft::nic

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargest = 4096;
  if (size <= kLargest) weft::nic::run(data, size);
  return 0;
}
