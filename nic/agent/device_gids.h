// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "switch/base/time.h"
#include "switch/wire/addresses.h"

namespace weft::agent {

/// The address that a port of an RDMA device has at an index of its GID table, where that is one of RoCEv2.
/// @param sysfs  /sys/class/infiniband, or what has the same form
/// @param device  a name from outside: one that is no file name is no device
[[nodiscard]] std::optional<wire::IpAddress> gid_address(const std::string& sysfs, const std::string& device,
                                                         unsigned port, unsigned index);

/// The same for who asks for every connection of a program that makes many. What was read is believed for kAge: a
/// connection that uses an address so soon after it has changed is told with the one before.
class GidReader {
 public:
  static constexpr TimeNs kAge = 50'000'000;

  explicit GidReader(std::string sysfs) : sysfs_(std::move(sysfs)) {}
  [[nodiscard]] std::optional<wire::IpAddress> address(TimeNs now, const std::string& device, unsigned port,
                                                       unsigned index);

 private:
  struct Entry {
    TimeNs read_at = 0;
    std::optional<wire::IpAddress> address{};
  };
  static constexpr std::size_t kMostEntries = 1024;  // names come from programs: those that are no devices are kept too

  std::string sysfs_;
  std::map<std::tuple<std::string, unsigned, unsigned>, Entry> entries_;
};

}  // namespace weft::agent
