// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: what lldpcli or ip prints, with texts that come from other machines. Whatever it is, it is read as some
// neighbours, each with a port and identities of bounded length, or as none.
#include <cstdint>

#include "collectives/manager/lldp.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft::inc::manager;
  using weft::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A kind and a value, or one text.
  constexpr std::size_t kMost = 2 * 255 + 1;
  const auto bounded = [](const std::string& s) { return s.size() <= kMost; };
  for (const Neighbour& n : read_neighbours(text).value_or(std::vector<Neighbour>())) {
    require(!n.port.empty() && !n.chassis.empty() && !n.peer_port.empty(), "a neighbour has a port and identities");
    require(bounded(n.port) && bounded(n.chassis) && bounded(n.system) && bounded(n.peer_port) &&
                bounded(n.peer_description),
            "texts are bounded");
  }
  for (const Port& p : read_ports(text).value_or(std::vector<Port>())) {
    require(!p.name.empty() && bounded(p.name) && bounded(p.mac), "a port has a name");
  }
  if (const auto own = read_own_chassis(text)) require(!own->empty() && bounded(*own), "an identity is a text");
  return 0;
}
