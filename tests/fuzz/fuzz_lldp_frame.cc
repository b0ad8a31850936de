// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: LLDP frames as they come in at the ports of a switch, each behind three bytes: its port, the seconds since the
// last one, and its length. Reading stays in bounds, neighbours are as many as there is room for and hold for as long
// as they say, and what is shown of them is text.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "switch/stages/lldp/neighbours.h"
#include "tests/fuzz/require.h"

namespace weft::stages {
namespace {

constexpr std::size_t kPorts = 3, kHead = 3;

void require_text(const std::string& text) {
  require(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }), "printable");
  require(text.size() <= 2 * wire::kLldpTextBytes + 16, "not longer than what came");
}

void look(const LldpNeighbours& all, TimeNs now) {
  std::size_t count = 0;
  for (std::size_t port = 0; port < kPorts; ++port) {
    for (const LldpNeighbour& n : all.of(port)) {
      if (n.until == 0) continue;
      ++count;
      require(n.until > now && n.heard <= now, "it holds");
      require_text(lldp_chassis_text(n.chassis_kind, n.chassis.view()));
      require_text(lldp_port_text(n.port_kind, n.port.view()));
      require_text(lldp_plain_text(n.system.view()));
      require_text(lldp_plain_text(n.port_description.view()));
    }
  }
  require(count == all.count(), "each is counted once");
  require((all.next_deadline() == kNever) == (count == 0), "whoever holds ends at some time");
}

void run(const std::uint8_t* data, std::size_t size) {
  LldpNeighbours all(kPorts);
  TimeNs now = 1;
  while (size > kHead) {
    const std::size_t port = data[0] % kPorts, bytes = std::min<std::size_t>(data[2] * 4, size - kHead);
    now += TimeNs{data[1]} * 1'000'000'000;
    all.on_timer(now);
    // A buffer of its own, so that a byte behind the end is seen.
    const auto frame = std::make_unique<std::uint8_t[]>(bytes);
    std::copy_n(data + kHead, bytes, frame.get());
    if (const auto unit = wire::read_lldp({frame.get(), bytes})) all.on_unit(now, port, *unit);
    look(all, now);
    data += kHead + bytes;
    size -= kHead + bytes;
  }
}

}  // namespace
}  // namespace weft::stages

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargest = 8192;
  if (size <= kLargest) weft::stages::run(data, size);
  return 0;
}
