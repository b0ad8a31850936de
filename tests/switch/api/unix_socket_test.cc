// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/unix_socket.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include "tests/switch/api/raw_listener.h"

namespace weft::api {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kNow{0};

int connect_error(const std::string& path) {
  const Connection connection = connect_unix(path, kNow);
  if (connection.fd >= 0) close(connection.fd);
  return connection.error;
}

TEST(ConnectUnix, SaysWhyItFailed) {
  const TemporaryDirectory directory;
  EXPECT_EQ(connect_error(directory.file("absent")), ENOENT);
  EXPECT_EQ(connect_error(""), ENOENT);
  EXPECT_EQ(connect_error(directory.file(std::string(200, 'x'))), ENAMETOOLONG);
  leave_stale_socket(directory.file("stale"));
  EXPECT_EQ(connect_error(directory.file("stale")), ECONNREFUSED);
}

TEST(ConnectUnix, GivesUpOnAListenerWhoseBacklogIsFull) {
  const TemporaryDirectory directory;
  const int listener = listen_on(directory.file("s"), 0);
  const Connection first = connect_unix(directory.file("s"), kNow);
  EXPECT_GE(first.fd, 0);
  EXPECT_EQ(connect_error(directory.file("s")), EAGAIN);
  EXPECT_EQ(connect_unix(directory.file("s"), std::chrono::milliseconds{1}).error, EAGAIN);
  close(first.fd);
  close(listener);
}

TEST(SocketFile, AppearsUnderItsFinalNameOnlyWhenPublished) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("made/also/s");
  SocketFile file;
  ASSERT_EQ(file.prepare(path), std::nullopt);
  const int listener = listen_on(file.private_path());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_EQ(file.publish(), std::nullopt);
  EXPECT_EQ(connect_error(path), 0);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  file.remove();
  EXPECT_TRUE(std::filesystem::is_empty(directory.file("made/also"))) << "nothing stays behind";
  close(listener);
}

TEST(SocketFile, WasNotPublishedAndLeavesNothingBehind) {
  const TemporaryDirectory directory;
  int listener = -1;
  {
    SocketFile file;
    ASSERT_EQ(file.prepare(directory.file("s")), std::nullopt);
    listener = listen_on(file.private_path());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.file("")));
  close(listener);
}

TEST(SocketFile, RefusesAFileThatIsNoSocketAndKeepsIt) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("s")) << "precious";
  SocketFile file;
  EXPECT_THAT(file.prepare(directory.file("s")).value_or(""), HasSubstr("/s exists and is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(directory.file("s")), 8U);
}

TEST(SocketFile, RefusesASocketThatAnswersOrIsTooBusyTo) {
  const TemporaryDirectory directory;
  const int listener = listen_on(directory.file("s"), 0);
  SocketFile file;
  EXPECT_THAT(file.prepare(directory.file("s")).value_or(""),
              HasSubstr("another weft-switch answers on " + directory.file("s")));
  const Connection fills_the_backlog = connect_unix(directory.file("s"), kNow);
  EXPECT_EQ(connect_error(directory.file("s")), EAGAIN);
  EXPECT_THAT(file.prepare(directory.file("s")).value_or(""),
              HasSubstr("another weft-switch answers on " + directory.file("s")));
  close(fills_the_backlog.fd);
  close(listener);
}

TEST(SocketFile, RefusesPathsThatDoNotFitAnAddress) {
  const TemporaryDirectory directory;
  SocketFile file;
  EXPECT_THAT(file.prepare(directory.file(std::string(kMaxSocketPath, 'x'))).value_or(""), HasSubstr("longer than 90"));
  EXPECT_THAT(file.prepare("").value_or(""), HasSubstr("empty"));
}

TEST(SocketFile, NamesTheDirectoryThatCannotBeMade) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("plain")) << "x";
  SocketFile file;
  EXPECT_THAT(file.prepare(directory.file("plain/below/s")).value_or(""), HasSubstr("/plain/below: Not a directory"));
}

TEST(SocketFile, TakenAtTheLastMomentIsAnError) {
  const TemporaryDirectory directory;
  SocketFile file;
  ASSERT_EQ(file.prepare(directory.file("s")), std::nullopt);
  const int listener = listen_on(file.private_path());
  const int other = listen_on(directory.file("s"));
  EXPECT_THAT(file.publish().value_or(""), HasSubstr("/s: File exists"));
  file.remove();
  EXPECT_EQ(connect_error(directory.file("s")), 0) << "the other one still answers";
  close(listener);
  close(other);
}

TEST(SocketFile, DoesNotRemoveTheSocketOfItsSuccessor) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("s");
  SocketFile file;
  ASSERT_EQ(file.prepare(path), std::nullopt);
  const int listener = listen_on(file.private_path());
  ASSERT_EQ(file.publish(), std::nullopt);
  std::filesystem::remove(path);
  const int successor = listen_on(path);
  file.remove();
  EXPECT_EQ(connect_error(path), 0);
  close(listener);
  close(successor);
}

}  // namespace
}  // namespace weft::api
