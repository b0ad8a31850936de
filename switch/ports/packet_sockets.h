// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::ports {

/// The packet sockets (AF_PACKET) that this process has bound to a network interface, and what the kernel dropped
/// because their rings were full. A DPDK driver does not hand out its sockets, so they are looked for among the
/// process's file descriptors. What is done to a duplicate is done to the driver's socket: both are one open file.
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

  /// True while all of them are bound to the interface with this index. The kernel unbinds them when the interface is
  /// deleted or leaves the network namespace, and binds them to nothing else, not even to one of the same name.
  [[nodiscard]] bool bound_to(unsigned index) const noexcept;
  /// Has the interface receive frames for every address as long as the sockets are open and bound to it. Empty, or why
  /// not.
  [[nodiscard]] std::string receive_everything(unsigned index) const;
  /// Makes good what an interface that went down left behind: the kernel keeps the error for the next one who sends,
  /// and then sends nothing, so that the frame waits in the ring for the frame after it. Takes the error and sends what
  /// waits. Control thread; the driver may send meanwhile.
  void recover() const noexcept;

 private:
  std::vector<int> sockets_;  ///< duplicates, which are ours to close
  std::atomic<std::uint64_t> drops_{0};
};

}  // namespace weft::ports
