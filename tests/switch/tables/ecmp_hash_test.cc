// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/ecmp_hash.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "switch/base/rng.h"

namespace weft::tables {
namespace {

// CRC-32C bit by bit, as the header defines it.
std::uint32_t crc32c(const std::vector<std::uint64_t>& words) {
  std::uint32_t state = 0;
  for (const std::uint64_t word : words) {
    for (unsigned byte = 0; byte < 8; ++byte) {
      state ^= static_cast<std::uint32_t>(word >> 8 * byte & 0xff);
      for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
    }
  }
  return state;
}

// M * c with columns drawn as the header says; the rank is found by trying to express columns by each other.
std::vector<std::uint32_t> columns_of(std::uint64_t seed) {
  Rng rng(seed);
  while (true) {
    std::vector<std::uint32_t> columns(32);
    for (auto& c : columns) c = static_cast<std::uint32_t>(rng.next() >> 32);
    std::vector<std::uint32_t> basis(32, 0);
    unsigned rank = 0;
    for (std::uint32_t v : columns) {
      for (int bit = 31; bit >= 0 && v != 0; --bit) {
        if ((v >> bit & 1) == 0) continue;
        if (basis[static_cast<std::size_t>(bit)] == 0) {
          basis[static_cast<std::size_t>(bit)] = v;
          ++rank;
          v = 0;
        } else {
          v ^= basis[static_cast<std::size_t>(bit)];
        }
      }
    }
    if (rank == 32) return columns;
  }
}

std::uint32_t times(const std::vector<std::uint32_t>& columns, std::uint32_t c) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    if ((c >> bit & 1) != 0) sum ^= columns[bit];
  }
  return sum;
}

TEST(EcmpHash, EqualsItsDefinitionForIpv4) {
  Rng rng(42);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const EcmpHash hash(seed);
    const auto columns = columns_of(seed);
    const std::uint64_t addresses = rng.next();
    const std::uint64_t ports = EcmpHash::ports_word(static_cast<std::uint16_t>(rng.next()), 4791, 17);
    EXPECT_EQ(hash.v4(addresses, ports), times(columns, crc32c({addresses, ports}))) << "seed " << seed;
  }
}

TEST(EcmpHash, EqualsItsDefinitionForIpv6) {
  const EcmpHash hash(3);
  std::uint8_t addresses[32];
  for (std::size_t i = 0; i < sizeof addresses; ++i) addresses[i] = static_cast<std::uint8_t>(17 * i + 1);
  std::vector<std::uint64_t> words(4);
  for (std::size_t i = 0; i < sizeof addresses; ++i) words[i / 8] = words[i / 8] << 8 | addresses[i];
  words.push_back(EcmpHash::ports_word(50000, 4791, 17));
  EXPECT_EQ(hash.v6(addresses, words.back()), times(columns_of(3), crc32c(words)));
}

// Computed by another program from the definition in the header. They must never change: paths depend on them.
TEST(EcmpHash, HasTheValuesThatOfflineToolsExpect) {
  const std::uint64_t addresses = 0x0a0000010a000102;  // 10.0.0.1 to 10.0.1.2
  const std::uint64_t ports = EcmpHash::ports_word(49152, 4791, 17);
  EXPECT_EQ(EcmpHash(1).v4(addresses, ports), 0x0a85e781u);
  EXPECT_EQ(EcmpHash(2).v4(addresses, ports), 0xd7ec5660u);
  const std::uint8_t v6[32] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,   // 2001:db8::1
                               0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};  // 2001:db8:1::2
  EXPECT_EQ(EcmpHash(1).v6(v6, ports), 0x257ac43bu);
}

TEST(EcmpHash, IsLinearInTheSourcePortForEveryFlowOfBothFamilies) {
  Rng rng(7);
  const EcmpHash hash(99);
  for (int i = 0; i < 1000; ++i) {
    const auto port = static_cast<std::uint16_t>(rng.next());
    const auto change = static_cast<std::uint16_t>(rng.next());
    const auto changed = static_cast<std::uint16_t>(port ^ change);
    const std::uint64_t addresses = rng.next();
    EXPECT_EQ(hash.v4(addresses, EcmpHash::ports_word(changed, 4791, 17)),
              hash.v4(addresses, EcmpHash::ports_word(port, 4791, 17)) ^ hash.port_delta(change));
    std::uint8_t v6[32];
    for (auto& b : v6) b = static_cast<std::uint8_t>(rng.next());
    EXPECT_EQ(hash.v6(v6, EcmpHash::ports_word(changed, 4791, 17)),
              hash.v6(v6, EcmpHash::ports_word(port, 4791, 17)) ^ hash.port_delta(change));
  }
}

TEST(EcmpHash, SpreadsConsecutiveSourcePortsEvenlyOverAnyNumberOfMembers) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const EcmpHash hash(seed);
    for (const std::uint32_t members : {2u, 3u, 5u, 8u, 12u, 16u}) {
      constexpr std::uint32_t kFlows = 16384;
      std::vector<std::uint32_t> count(members);
      for (std::uint32_t port = 0; port < kFlows; ++port) {
        const auto ports = EcmpHash::ports_word(static_cast<std::uint16_t>(49152 + port), 4791, 17);
        ++count[EcmpHash::member(hash.v4(0x0a0000010a000102, ports), members)];
      }
      for (const std::uint32_t c : count) {
        EXPECT_NEAR(c, kFlows / members, kFlows / members * 0.1) << "seed " << seed << " members " << members;
      }
    }
  }
}

TEST(EcmpHash, FlowsOfOneMemberAreSpreadEvenlyByTheNextSwitch) {
  int uneven = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const EcmpHash first(seed);
    const EcmpHash next(seed + 1);
    std::vector<std::uint32_t> count(8);
    std::uint32_t flows = 0;
    for (std::uint32_t port = 0; port < 16384; ++port) {
      const auto ports = EcmpHash::ports_word(static_cast<std::uint16_t>(49152 + port), 4791, 17);
      if (EcmpHash::member(first.v4(0x0a0000010a000102, ports), 8) != 3) continue;
      ++flows;
      ++count[EcmpHash::member(next.v4(0x0a0000010a000102, ports), 8)];
    }
    for (const std::uint32_t c : count) {
      if (c < flows / 16 || c > flows / 4) {
        ++uneven;
        break;
      }
    }
  }
  // Two random linear maps agree in one of the three leading bits now and then: by chance, not by construction.
  EXPECT_LE(uneven, 4);
}

TEST(EcmpHash, TheSecondChoiceIsEvenAmongTheFlowsOfOneMember) {
  Rng rng(5);
  for (const std::uint32_t members : {3u, 8u}) {
    std::vector<std::uint32_t> count(7);
    std::uint32_t flows = 0;
    for (int i = 0; i < 200'000; ++i) {
      const auto hash = static_cast<std::uint32_t>(rng.next());
      if (EcmpHash::member(hash, members) != 1) continue;
      ++flows;
      ++count[EcmpHash::member(EcmpHash::second_choice(hash, members), 7)];
    }
    for (const std::uint32_t c : count) EXPECT_NEAR(c, flows / 7.0, flows / 7.0 * 0.1);
  }
}

}  // namespace
}  // namespace weft::tables
