// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/packet_sockets.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

namespace weft::ports {
namespace {

bool is_bound_to(int fd, unsigned interface) {
  int domain = 0;
  socklen_t length = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_PACKET) return false;
  sockaddr_ll address{};
  length = sizeof address;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         static_cast<unsigned>(address.sll_ifindex) == interface;
}

// The kernel's count since it was last asked.
std::uint64_t new_drops(int fd) {
  tpacket_stats stats{};
  socklen_t length = sizeof stats;
  return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0 ? stats.tp_drops : 0;
}

}  // namespace

PacketSockets::PacketSockets(const std::string& interface) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0) return;
  std::error_code error;
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (is_bound_to(fd, index)) found.push_back(fd);
  }
  for (const int fd : found) {
    if (const int ours = fcntl(fd, F_DUPFD_CLOEXEC, 0); ours >= 0) sockets_.push_back(ours);
  }
  for (const int fd : sockets_) static_cast<void>(new_drops(fd));
}

PacketSockets::~PacketSockets() {
  for (const int fd : sockets_) close(fd);
}

std::uint64_t PacketSockets::drops() noexcept {
  std::uint64_t fresh = 0;
  for (const int fd : sockets_) fresh += new_drops(fd);
  return drops_.fetch_add(fresh, std::memory_order_relaxed) + fresh;
}

}  // namespace weft::ports
