// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/crc_fold.h"

#include <gtest/gtest.h>
#include <isa-l/crc.h>

#include <string>
#include <vector>

#include "tests/switch/wire/samples.h"

#if defined(__x86_64__)

namespace weft::wire::crc {
namespace {

constexpr std::uint32_t kBlock = 16;

struct Width {
  const char* name;
  FoldRun run;
};

class CrcFold : public testing::TestWithParam<Width> {
 protected:
  void SetUp() override {
    if (GetParam().run == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  }
  /// The CRC of a block and of what is behind it, which the run folds.
  __attribute__((target(WEFT_CLMUL))) static std::uint32_t crc(std::uint32_t before, const std::uint8_t* at,
                                                               std::uint32_t bytes) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i state = _mm_xor_si128(first, _mm_cvtsi32_si128(static_cast<int>(~before)));
    return ~finish(GetParam().run(state, at + kBlock, at + bytes));
  }
};

TEST_P(CrcFold, AgreesWithIsalAtEveryLengthAndAlignment) {
  TestRandom random;
  constexpr std::uint32_t kMost = 4 * kFoldStep + 2 * 64;
  std::vector<std::uint8_t> bytes(kBlock + kMost + 64);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.word());
  for (std::uint32_t n = kBlock + kFoldStep; n <= kBlock + kMost; n += kBlock) {
    for (std::uint32_t offset = 0; offset < 64; ++offset) {
      const auto before = static_cast<std::uint32_t>(random.word());
      ASSERT_EQ(crc(before, bytes.data() + offset, n), crc32_gzip_refl(before, bytes.data() + offset, n))
          << n << " bytes at " << offset << " seed " << random.seed();
    }
  }
}

TEST_P(CrcFold, AgreesWithIsalForEveryBitOfALongPacket) {
  // The CRC is linear: a wrong constant for any place shows at the bits of that place.
  constexpr std::uint32_t kBytes = kBlock + 16 * kFoldStep + 3 * 64 + 2 * kBlock;
  std::vector<std::uint8_t> bytes(kBytes, 0);
  for (std::uint32_t bit = 0; bit < 8 * kBytes; ++bit) {
    bytes[bit / 8] = static_cast<std::uint8_t>(1 << bit % 8);
    ASSERT_EQ(crc(0, bytes.data(), kBytes), crc32_gzip_refl(0, bytes.data(), kBytes)) << "bit " << bit;
    bytes[bit / 8] = 0;
  }
}

TEST_P(CrcFold, ReadsWhatItFoldsAndNothingElse) {
  for (std::uint32_t n = kBlock + kFoldStep; n <= kBlock + 3 * kFoldStep; n += kBlock) {
    const std::vector<std::uint8_t> bytes(n, 0xa5);
    const auto exact = exact_copy(bytes.data(), n);  // AddressSanitizer looks at both ends
    ASSERT_EQ(crc(7, exact.get(), n), crc32_gzip_refl(7, bytes.data(), n)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, CrcFold,
                         testing::Values(Width{"Bits256", fold_run_256()}, Width{"Bits512", fold_run_512()}),
                         [](const auto& width) { return std::string(width.param.name); });

}  // namespace
}  // namespace weft::wire::crc

#endif
