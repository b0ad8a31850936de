// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/device_gids.h"

#include <algorithm>
#include <fstream>

#include "nic/agent/qp_list.h"

namespace weft::agent {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::optional<wire::IpAddress> gid_address(const std::string& sysfs, const std::string& device, unsigned port,
                                           unsigned index) {
  if (device.empty() || device[0] == '.' || device.find('/') != std::string::npos) return std::nullopt;
  const std::string folder = sysfs + "/" + device + "/ports/" + std::to_string(port);
  const std::string number = std::to_string(index);
  // Devices that know one kind only do not say which.
  const std::string kind = first_line(folder + "/gid_attrs/types/" + number);
  if (!kind.empty() && kind != "RoCE v2") return std::nullopt;
  const auto gid = wire::IpAddress::parse(first_line(folder + "/gids/" + number));
  if (!gid) return std::nullopt;
  std::uint8_t bytes[16];
  std::copy(gid->bytes().begin(), gid->bytes().end(), bytes);
  const wire::IpAddress address = address_of_gid(bytes);
  return address.is_unspecified() ? std::nullopt : std::optional(address);
}

std::optional<wire::IpAddress> GidReader::address(TimeNs now, const std::string& device, unsigned port,
                                                  unsigned index) {
  const auto found = entries_.find({device, port, index});
  if (found != entries_.end() && now - found->second.read_at < kAge) return found->second.address;
  if (found == entries_.end() && entries_.size() >= kMostEntries) entries_.clear();
  const auto address = gid_address(sysfs_, device, port, index);
  entries_[{device, port, index}] = {now, address};
  return address;
}

}  // namespace weft::agent
