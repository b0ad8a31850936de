// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/device_gids.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weft::testing {
namespace {

namespace fs = std::filesystem;

class DeviceGids : public ::testing::Test {
 protected:
  DeviceGids() : sysfs_(fs::temp_directory_path() / ("weft-gids-" + std::to_string(getpid()))) {}
  ~DeviceGids() override { fs::remove_all(sysfs_); }
  void gid(unsigned index, const std::string& text, const std::string& kind) {
    const fs::path port = sysfs_ / "rxe0/ports/1";
    fs::create_directories(port / "gids");
    fs::create_directories(port / "gid_attrs/types");
    std::ofstream(port / "gids" / std::to_string(index)) << text << "\n";
    if (!kind.empty()) std::ofstream(port / "gid_attrs/types" / std::to_string(index)) << kind << "\n";
  }
  std::string address(unsigned index, const std::string& device = "rxe0", unsigned port = 1) {
    const auto found = agent::gid_address(sysfs_, device, port, index);
    return found ? found->to_string() : "none";
  }
  fs::path sysfs_;
};

TEST_F(DeviceGids, AreAddressesWhereTheyAreOfRoceV2) {
  gid(0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "IB/RoCE v1");
  gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0102", "RoCE v2");
  gid(2, "fd00:0000:0000:0000:0000:0000:0000:0001", "");
  gid(3, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2");
  gid(4, "nonsense", "RoCE v2");
  EXPECT_EQ(address(0), "none");
  EXPECT_EQ(address(1), "10.0.1.2");
  EXPECT_EQ(address(2), "fd00::1");
  EXPECT_EQ(address(3), "none");
  EXPECT_EQ(address(4), "none");
  EXPECT_EQ(address(5), "none");
  EXPECT_EQ(address(1, "rxe0", 2), "none");
}

TEST_F(DeviceGids, AreReadAgainWhenTheyMayHaveChanged) {
  gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0102", "RoCE v2");
  agent::GidReader reader(sysfs_);
  const auto at = [&](TimeNs now, unsigned index) {
    const auto found = reader.address(now, "rxe0", 1, index);
    return found ? found->to_string() : "none";
  };
  constexpr TimeNs kStart = 1'000'000'000;
  EXPECT_EQ(at(kStart, 1), "10.0.1.2");
  EXPECT_EQ(at(kStart, 2), "none");
  gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0103", "RoCE v2");
  gid(2, "0000:0000:0000:0000:0000:ffff:0a00:0104", "RoCE v2");
  EXPECT_EQ(at(kStart + agent::GidReader::kAge - 1, 1), "10.0.1.2");
  EXPECT_EQ(at(kStart + agent::GidReader::kAge, 1), "10.0.1.3");
  EXPECT_EQ(at(kStart + agent::GidReader::kAge, 2), "10.0.1.4");
}

TEST_F(DeviceGids, ADeviceIsNoPath) {
  gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0102", "RoCE v2");
  for (const char* name : {"", ".", "..", "./rxe0",
                           "../"
                           "x/rxe0",
                           "rxe1"})
    EXPECT_EQ(address(1, name), "none") << name;
}

}  // namespace
}  // namespace weft::testing
