// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::ports {

/// The packet sockets (AF_PACKET) that this process has bound to a network interface, and what the kernel dropped
/// because their rings were full. A DPDK driver does not hand out its sockets, so they are looked for among the
/// process's file descriptors.
class PacketSockets {
 public:
  /// Finds those that exist now.
  explicit PacketSockets(const std::string& interface);
  ~PacketSockets();
  PacketSockets(const PacketSockets&) = delete;
  PacketSockets& operator=(const PacketSockets&) = delete;

  [[nodiscard]] std::size_t count() const noexcept { return sockets_.size(); }
  /// Packets dropped since the object was made. Any thread. The kernel forgets what it has told: if the driver asks as
  /// well, each drop is in the count of the one that asked first, and their sum is right.
  [[nodiscard]] std::uint64_t drops() noexcept;

 private:
  std::vector<int> sockets_;  ///< duplicates, which are ours to close
  std::atomic<std::uint64_t> drops_{0};
};

}  // namespace weft::ports
