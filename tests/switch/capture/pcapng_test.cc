// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/pcapng.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace weft::capture {
namespace {

using testing::ElementsAre;

// The 32-bit words of a block.
std::vector<std::uint32_t> words(const std::string& bytes) {
  EXPECT_EQ(bytes.size() % 4, 0U);
  std::vector<std::uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(Pcapng, ASectionHeaderIsAsTheFormatSays) {
  std::string out;
  append_section(out, "weft");
  EXPECT_THAT(words(out), ElementsAre(0x0a0d0d0a, 40, 0x1a2b3c4d, 0x00000001, 0xffffffff, 0xffffffff, 0x00040004,
                                      0x74666577, 0, 40));
}

TEST(Pcapng, AnInterfaceHasItsNameAndNanoseconds) {
  std::string out;
  append_interface(out, "tor1/h1", "", 128);
  EXPECT_THAT(words(out), ElementsAre(1, 44, 1, 128, 0x00070002, 0x31726f74, 0x0031682f, 0x00010009, 9, 0, 44));
}

TEST(Pcapng, APacketHasItsTimeBothLengthsAndIsPadded) {
  std::string out;
  const std::uint8_t bytes[]{1, 2, 3, 4, 5};
  append_packet(out, {.interface = 3, .time = 0x0000000512345678, .length = 1500}, bytes);
  EXPECT_THAT(words(out), ElementsAre(6, 40, 3, 5, 0x12345678, 5, 1500, 0x04030201, 0x00000005, 40));
}

TEST(Pcapng, APacketCarriesItsCommentAndDirection) {
  std::string out;
  append_packet(out, {.direction = PcapngDirection::outbound, .comment = "hello"}, {});
  EXPECT_THAT(words(out), ElementsAre(6, 56, 0, 0, 0, 0, 0, 0x00050001, 0x6c6c6568, 0x0000006f, 0x00040002, 2, 0, 56));
}

TEST(Pcapng, StatisticsSayWhatWasLost) {
  std::string out;
  append_statistics(out, 1, 7, 5, 9);
  EXPECT_THAT(words(out), ElementsAre(5, 52, 1, 0, 7, 0x00080004, 5, 0, 0x00080005, 9, 0, 0, 52));
}

}  // namespace
}  // namespace weft::capture
