// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/packet_sockets.h"

#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

namespace weft::ports {
namespace {

// The index of the interface that a packet socket is bound to; nothing for other files.
std::optional<int> bound_index(int fd) {
  int domain = 0;
  socklen_t length = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_PACKET) return std::nullopt;
  sockaddr_ll address{};
  length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return address.sll_ifindex;
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
    if (bound_index(fd) == static_cast<int>(index)) found.push_back(fd);
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

bool PacketSockets::bound_to(unsigned index) const noexcept {
  return !sockets_.empty() && std::all_of(sockets_.begin(), sockets_.end(),
                                          [&](int fd) { return bound_index(fd) == static_cast<int>(index); });
}

std::string PacketSockets::receive_everything(unsigned index) const {
  packet_mreq request{};
  request.mr_ifindex = static_cast<int>(index);
  request.mr_type = PACKET_MR_PROMISC;
  if (sockets_.empty()) return "it has no packet socket";
  if (setsockopt(sockets_.front(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) == 0) return "";
  return std::string("cannot have it receive frames for every address: ") + std::strerror(errno);
}

void PacketSockets::recover() const noexcept {
  for (const int fd : sockets_) {
    int error = 0;
    socklen_t length = sizeof error;
    static_cast<void>(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    static_cast<void>(sendto(fd, nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0));
  }
}

}  // namespace weft::ports
