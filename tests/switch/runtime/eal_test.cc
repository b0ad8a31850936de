// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/eal.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_malloc.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_directory.h"

namespace weft {
namespace {

// The directory of a process, with the socket of its telemetry. Returns the socket.
int make_directory(const std::filesystem::path& directory, std::chrono::seconds age) {
  std::filesystem::create_directories(directory);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory / "dpdk_telemetry.v2";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd, 1), 0);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
  return fd;
}

// DPDK's interrupt thread runs on, and looks at what it keeps in such memory.
TEST(Eal, ItsFilesAndThoseOfTheDeadGoAndItsMemoryStaysUntilTheProcessEnds) {
  const api::TemporaryDirectory run;
  setenv("RUNTIME_DIRECTORY", run.file("run").c_str(), 1);
  const std::filesystem::path others = run.file("run/dpdk");
  constexpr std::chrono::seconds kOld{60}, kNew{0};
  const int alive = make_directory(others / "weft1", kOld);
  for (const char* name : {"weft2", "weft10", "weft", "weft-rnic3", "pktgen4"})
    close(make_directory(others / name, kOld));
  close(make_directory(others / "weft5", kNew));
  std::filesystem::create_directories(others / "weft6");

  config::Config config;
  config.eal.hugepages = config::Hugepages::off;
  config.eal.mbufs = 1024;
  const Eal eal = start_eal(config, {});
  ASSERT_EQ(eal.error, "");
  const std::string directory = rte_eal_get_runtime_dir();
  EXPECT_TRUE(std::filesystem::exists(directory));
  for (const char* name : {"weft2", "weft10"}) {
    EXPECT_FALSE(std::filesystem::exists(others / name)) << name << ": killed, and nobody listens";
  }
  for (const char* name : {"weft1", "weft", "weft-rnic3", "pktgen4", "weft5", "weft6"}) {
    EXPECT_TRUE(std::filesystem::exists(others / name)) << name << ": alive, another's, or only begun";
  }
  close(alive);
  auto* word = static_cast<volatile std::uint64_t*>(rte_malloc("test", sizeof(std::uint64_t), 0));
  ASSERT_NE(word, nullptr);
  *word = 42;
  stop_eal();
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_EQ(*word, 42u);
}

}  // namespace
}  // namespace weft
