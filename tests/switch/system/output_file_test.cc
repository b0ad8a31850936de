// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct OutputFileTest : ::testing::Test {
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
    return names;
  }

  api::TemporaryDirectory directory;
  const std::string folder = directory.file("folder");
  const std::string path = folder + "/results.json";
  void SetUp() override { ASSERT_TRUE(std::filesystem::create_directory(folder)); }
};

TEST_F(OutputFileTest, AppearsWhenItIsWrittenAndIsReplacedByTheNextOne) {
  const OutputFile file(path);
  EXPECT_EQ(file.probe(), "");
  EXPECT_THAT(names_in(folder), IsEmpty()) << "trying leaves nothing";
  EXPECT_EQ(file.write("first, and longer"), "");
  EXPECT_EQ(OutputFile(path).write("second"), "");
  EXPECT_EQ(text_of(path), "second");
  EXPECT_EQ(OutputFile(path).probe(), "");
  EXPECT_EQ(text_of(path), "second");
  EXPECT_THAT(names_in(folder), ElementsAre("results.json"));
}

TEST_F(OutputFileTest, WhatIsInTheWayIsSaidByBoth) {
  const auto both = [](const std::string& name) {
    const OutputFile file(name);
    const std::string error = file.probe();
    EXPECT_EQ(file.write("x"), error);
    return error;
  };
  EXPECT_EQ(both(folder + "/none/x"), "cannot write " + folder + "/none/x: No such file or directory");
  EXPECT_EQ(both(folder), "cannot write " + folder + ": Is a directory");
  EXPECT_EQ(both("/dev/full"), "cannot write /dev/full: No space left on device");
  ASSERT_EQ(OutputFile(path).write("x"), "");
  EXPECT_EQ(both(path + "/x"), "cannot write " + path + "/x: Not a directory");
}

TEST_F(OutputFileTest, AFolderWithoutLeaveToWriteIsSaidAndTheFileStays) {
  if (geteuid() == 0) {
    // Root may write everywhere; a process of the same machine may not.
    ASSERT_EQ(OutputFile(path).write("before"), "");
    ASSERT_EQ(chmod(directory.file("").c_str(), 0755), 0);
    ASSERT_EQ(seteuid(65534), 0);
  } else {
    ASSERT_EQ(OutputFile(path).write("before"), "");
    ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
  }
  const OutputFile file(path);
  const std::string probed = file.probe(), written = file.write("after");
  if (getuid() == 0) {
    ASSERT_EQ(seteuid(0), 0);
  } else {
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  }
  EXPECT_EQ(probed, "cannot write " + path + ": Permission denied");
  EXPECT_EQ(written, probed);
  EXPECT_EQ(text_of(path), "before");
}

// A disk of eight pages, of which the old file has one.
TEST_F(OutputFileTest, AFullDiskLeavesTheOldFileAsItWas) {
  if (mount("weft-test", folder.c_str(), "tmpfs", 0, "size=32k") != 0) GTEST_SKIP() << "mounting needs root";
  const OutputFile file(path);
  EXPECT_EQ(file.write("before"), "");
  const std::string too_much = file.write(std::string(64 * 1024, 'x'));
  const std::string after_too_much = text_of(path);
  const auto left = names_in(folder);
  std::ofstream(folder + "/filler") << std::string(64 * 1024, 'x');
  const std::string probed = file.probe(), written = file.write("after");
  const std::string after_full = text_of(path);
  const auto left_full = names_in(folder);
  EXPECT_EQ(umount2(folder.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(too_much, "cannot write " + path + ": No space left on device");
  EXPECT_EQ(after_too_much, "before");
  EXPECT_THAT(left, ElementsAre("results.json"));
  EXPECT_EQ(probed, too_much);
  EXPECT_EQ(written, too_much);
  EXPECT_EQ(after_full, "before");
  EXPECT_THAT(left_full, UnorderedElementsAre("results.json", "filler"));
}

TEST_F(OutputFileTest, ALinkStaysAndLeadsToTheNewText) {
  const std::string link = directory.file("link");
  ASSERT_EQ(OutputFile(path).write("before"), "");
  std::filesystem::create_symlink(path, link);
  EXPECT_EQ(OutputFile(link).write("after"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(text_of(path), "after");
}

// What a process with the same number has left is no obstacle; a link in its place is not followed.
TEST_F(OutputFileTest, WhatLiesInTheNameOfTheTextThatIsPutAsideIsReplaced) {
  const std::string staged = path + "." + std::to_string(getpid()), other = directory.file("other");
  ASSERT_EQ(OutputFile(other).write("of somebody else"), "");
  std::ofstream(staged) << "left by a crash, longer than the text";
  EXPECT_EQ(OutputFile(path).write("text"), "");
  EXPECT_EQ(text_of(path), "text");
  std::filesystem::create_symlink(other, staged);
  EXPECT_EQ(OutputFile(path).write("next"), "");
  EXPECT_EQ(text_of(path), "next");
  EXPECT_EQ(text_of(other), "of somebody else");
  EXPECT_THAT(names_in(folder), ElementsAre("results.json"));
}

TEST_F(OutputFileTest, APipeIsWrittenToAndStays) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const OutputFile file(path);
  EXPECT_EQ(file.probe(), "");
  EXPECT_EQ(file.write("text"), "");
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 4);
  ::close(reader);
  EXPECT_EQ(std::string(got.data()), "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

}  // namespace
}  // namespace weft
