// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace weft {
namespace {

TEST(FileIo, APipeThatTakesLittleAtATimeGetsAll) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const std::string text(1 << 20, 'x');
  std::string got;
  std::thread reader([&] {
    std::array<char, 1000> part;
    for (ssize_t n = 0; (n = ::read(pipe[0], part.data(), part.size())) > 0;) {
      got.append(part.data(), static_cast<std::size_t>(n));
    }
  });
  EXPECT_TRUE(write_all(pipe[1], text));
  EXPECT_TRUE(close_after(pipe[1], true));
  reader.join();
  ::close(pipe[0]);
  EXPECT_EQ(got, text);
}

TEST(FileIo, AFullDiskIsNoticedAndItsErrorOutlivesTheClosing) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_FALSE(close_after(full, write_all(full, "x")));
  EXPECT_EQ(errno, ENOSPC);
}

TEST(FileIo, AFileThatCannotBeClosedIsNotFine) {
  EXPECT_FALSE(close_after(-1, true));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace weft
