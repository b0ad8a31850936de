// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <optional>
#include <string>

#include "switch/wire/addresses.h"

namespace weft::agent {

/// The address that a port of an RDMA device has at an index of its GID table, where that is one of RoCEv2.
/// @param sysfs  /sys/class/infiniband, or what has the same form
/// @param device  a name from outside: one that is no file name is no device
[[nodiscard]] std::optional<wire::IpAddress> gid_address(const std::string& sysfs, const std::string& device,
                                                         unsigned port, unsigned index);

}  // namespace weft::agent
