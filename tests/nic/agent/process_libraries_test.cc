// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/process_libraries.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace weft::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kProgram = "55d0c0000000-55d0c0001000 r-xp 00000000 08:01 17  /usr/bin/program\n";

class ProcessLibrariesTest : public ::testing::Test {
 protected:
  void process(const std::string& number, const std::string& pages, const std::string& library = "") {
    fs::create_directories(proc_ / number);
    std::ofstream(proc_ / number / "statm") << pages << " 5 4 1 0 9 0\n";
    std::ofstream maps(proc_ / number / "maps");
    maps << kProgram;
    if (!library.empty()) maps << "7f0000000000-7f0000001000 r-xp 00000000 08:01 99  " << library << "\n";
  }
  std::string root(const std::string& number) const { return (proc_ / number / "root").string(); }

  const api::TemporaryDirectory directory_;
  const fs::path proc_ = directory_.file("proc");
  ProcessLibraries libraries_{proc_.string(), "libibverbs.so"};
};

TEST_F(ProcessLibrariesTest, FindsEachProcesssCopy) {
  process("10", "100", "/usr/lib/libibverbs.so.1.14.44.0");
  process("11", "100", "/opt/conda/lib/libibverbs.so.1");
  process("12", "100", "/usr/lib/libmlx5.so.1");
  process("2", "0", "/usr/lib/libibverbs.so.1");
  process("self", "100", "/usr/lib/libibverbs.so.1");
  fs::create_directories(proc_ / "13");  // it has just ended
  EXPECT_THAT(libraries_.look(), ElementsAre(root("10") + "/usr/lib/libibverbs.so.1.14.44.0",
                                             root("11") + "/opt/conda/lib/libibverbs.so.1"));
}

TEST_F(ProcessLibrariesTest, OneThatOpensItLaterIsFoundBecauseItGrows) {
  process("10", "100");
  EXPECT_THAT(libraries_.look(), IsEmpty());
  process("10", "140", "/usr/lib/libibverbs.so.1");
  EXPECT_THAT(libraries_.look(), ElementsAre(root("10") + "/usr/lib/libibverbs.so.1"));
}

TEST_F(ProcessLibrariesTest, MapsOfAProcessOfTheSameSizeAreReadAtEachTenthLook) {
  process("10", "100");
  EXPECT_THAT(libraries_.look(), IsEmpty());
  process("10", "100", "/usr/lib/libibverbs.so.1");
  for (unsigned i = 1; i < ProcessLibraries::kWholeLook; ++i) EXPECT_THAT(libraries_.look(), IsEmpty()) << i;
  EXPECT_THAT(libraries_.look(), ElementsAre(root("10") + "/usr/lib/libibverbs.so.1"));
}

TEST_F(ProcessLibrariesTest, WithoutProcThereIsNothing) {
  EXPECT_THAT(ProcessLibraries((proc_ / "missing").string(), "libibverbs.so").look(), IsEmpty());
}

}  // namespace
}  // namespace weft::agent
