// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/interface.h"

#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "switch/wire/headers.h"

namespace weft::nic {
namespace {

constexpr sock_filter kNothingFilter[] = {BPF_STMT(BPF_RET | BPF_K, 0)};

std::optional<wire::IpAddress> address_of(const sockaddr* a) {
  if (a == nullptr) return std::nullopt;
  if (a->sa_family == AF_INET) {
    return wire::IpAddress::v4(ntohl(reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr));
  }
  if (a->sa_family != AF_INET6) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, bytes.size());
  return wire::IpAddress::v6(bytes);
}

/// The list of getifaddrs().
struct Interfaces {
  Interfaces() {
    if (getifaddrs(&first) != 0) first = nullptr;
  }
  ~Interfaces() {
    if (first != nullptr) freeifaddrs(first);
  }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;
  ifaddrs* first = nullptr;
};

/// A UDP socket that has the port and takes nothing.
Descriptor mute_socket(int family) {
  Descriptor fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  const sock_fprog program{1, const_cast<sock_filter*>(kNothingFilter)};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(wire::kRoceUdpPort);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  const bool is_v6 = family == AF_INET6;
  const auto* address = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  const bool fine = fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
                    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                    (!is_v6 || setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0) &&
                    bind(fd.get(), address, is_v6 ? sizeof v6 : sizeof v4) == 0;
  return fine ? std::move(fd) : Descriptor();
}

}  // namespace

std::string error_text(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}
Descriptor& Descriptor::operator=(Descriptor&& o) noexcept {
  std::swap(fd_, o.fd_);
  return *this;
}

std::optional<InterfaceInfo> find_interface(const std::string& name) {
  InterfaceInfo info;
  info.index = if_nametoindex(name.c_str());
  const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (info.index == 0 || name.size() >= sizeof request.ifr_name) return std::nullopt;
  std::copy(name.begin(), name.end(), request.ifr_name);
  if (ioctl(fd.get(), SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return std::nullopt;
  std::memcpy(info.mac.bytes.data(), request.ifr_hwaddr.sa_data, info.mac.bytes.size());
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return std::nullopt;
  info.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  const Interfaces list;
  for (const ifaddrs* i = list.first; i != nullptr; i = i->ifa_next) {
    if (name != i->ifa_name) continue;
    if (const auto a = address_of(i->ifa_addr)) info.addresses.push_back(*a);
  }
  const auto rank = [](const wire::IpAddress& a) { return a.is_link_local() ? 2 : a.is_v6() ? 1 : 0; };
  std::stable_sort(info.addresses.begin(), info.addresses.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return info;
}

std::vector<std::string> usable_interfaces() {
  std::vector<std::string> names;
  const Interfaces list;
  for (const ifaddrs* i = list.first; i != nullptr; i = i->ifa_next) {
    const auto a = address_of(i->ifa_addr);
    const bool up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || !a || a->is_link_local() || !find_interface(i->ifa_name)) continue;
    if (std::find(names.begin(), names.end(), i->ifa_name) == names.end()) names.emplace_back(i->ifa_name);
  }
  return names;
}

std::string interface_with(const wire::IpAddress& address) {
  const Interfaces list;
  for (const ifaddrs* i = list.first; i != nullptr; i = i->ifa_next) {
    if (address_of(i->ifa_addr) == address) return i->ifa_name;
  }
  return "";
}

std::string RocePortClaim::take() {
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !Descriptor(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)).valid()) continue;  // no IPv6
    sockets_.push_back(mute_socket(family));
    if (!sockets_.back().valid()) return error_text("UDP port 4791 (does rdma_rxe have it?)");
  }
  return {};
}

}  // namespace weft::nic
