// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the tests' clients share: a queue pair with memory, connected to a server of weft-rnic.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "tools/weft-rnic/greeting.h"
#include "tools/weft-rnic/session.h"

namespace weft::rnic_tool {

struct Channel {
  nic::Device* device = nullptr;
  nic::Qp* qp = nullptr;
  nic::Cq* cq = nullptr;
  std::vector<std::uint8_t> memory;
  nic::Mr mr{};
  Welcome server{};

  [[nodiscard]] nic::Sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {mr.address + offset, length, mr.key};
  }
};

/// Makes and connects a channel with `bytes` of memory here and `options.size` bytes there; `number` chooses the RNIC.
std::optional<Failure> connect_channel(Session& session, const Options& options, std::uint64_t bytes, Channel& out,
                                       std::size_t number = 0);

/// The server's counters of the channel, read over RDMA; nullopt when that fails.
std::optional<Statistics> read_statistics(Session& session, const Options& options, Channel& c);

/// Prints why a command fails; returns its exit status.
int fail(const Failure& failure);

}  // namespace weft::rnic_tool
