// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/structures.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

namespace weft::inc::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// As the library knows it.
struct Options {
  std::size_t size;
  std::uint32_t old;
  std::uint32_t second;
  std::uint64_t recent;
};

/// A program's structure, in memory of just this size: who looks beyond it is found out by a sanitizer.
class Program {
 public:
  explicit Program(std::size_t size) : bytes_(std::max(size, sizeof size)) {
    std::memcpy(bytes_.data(), &size, sizeof size);
  }
  void set(std::size_t at, std::uint8_t value) { bytes_.at(at) = value; }
  [[nodiscard]] std::uint8_t at(std::size_t at) const { return bytes_.at(at); }
  Options& get() { return *reinterpret_cast<Options*>(bytes_.data()); }

 private:
  std::vector<std::uint8_t> bytes_;
};

TEST(Structures, AnOlderProgramHasFewerFields) {
  Program program(offsetof(Options, recent));
  program.set(offsetof(Options, old), 7);
  program.set(offsetof(Options, second), 8);
  Options ours{1, 2, 3, 4};
  EXPECT_EQ(take(program.get(), "options", ours), "");
  EXPECT_EQ(ours.old, 7u);
  EXPECT_EQ(ours.second, 8u);
  EXPECT_EQ(ours.recent, 0u);
  EXPECT_EQ(give(Options{sizeof(Options), 5, 6, 7}, "options", program.get()), "");
  EXPECT_EQ(program.at(offsetof(Options, second)), 6);
  EXPECT_EQ(program.get().size, offsetof(Options, recent)) << "it is still the program's";
}

TEST(Structures, ANewerProgramMayLeaveOutWhatIsNotKnown) {
  Program program(sizeof(Options) + 8);
  program.set(offsetof(Options, old), 7);
  Options ours{};
  EXPECT_EQ(take(program.get(), "options", ours), "");
  EXPECT_EQ(ours.old, 7u);
  program.set(sizeof(Options) + 5, 1);
  EXPECT_THAT(take(program.get(), "options", ours), HasSubstr("sets a field of options that libweftinc"));
  EXPECT_EQ(give(ours, "options", program.get()), "");
  EXPECT_EQ(program.at(sizeof(Options) + 5), 0) << "nothing is known of it";
}

TEST(Structures, ASizeThatIsNoneIsRefused) {
  Options ours{};
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, kMostStructBytes + 1, SIZE_MAX}) {
    Options theirs{size, 1, 2, 3};
    const auto refused = AllOf(HasSubstr("options.size is " + std::to_string(size)), HasSubstr("sizeof(options)"));
    EXPECT_THAT(take(theirs, "options", ours), refused);
    EXPECT_THAT(give(ours, "options", theirs), refused);
    EXPECT_EQ(theirs.recent, 3u);
  }
}

}  // namespace
}  // namespace weft::inc::comm
