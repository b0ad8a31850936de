// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft::kernel {
namespace {

std::string failed(const std::string& what, const std::string& name) {
  return "cannot " + what + " the interface " + name + ": " + std::strerror(errno);
}

}  // namespace

std::string enter_network_namespace(const std::string& name) {
  if (name.empty()) return "";
  const Descriptor file(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return "no network namespace '" + name + "' (ip netns add " + name + ")";
  if (setns(file.get(), CLONE_NEWNET) == 0) return "";
  return "cannot enter the network namespace '" + name + "': " + std::strerror(errno);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

std::string Tap::open(const std::string& name, const wire::MacAddress& mac, std::uint32_t mtu_bytes, bool ipv6) {
  name_ = name;
  ifreq request{};
  if (name.empty() || name.size() >= IFNAMSIZ) return "'" + name + "' is no name for an interface";
  std::memcpy(request.ifr_name, name.c_str(), name.size() + 1);
  file_ = Descriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file_.get() < 0) return std::string("cannot open /dev/net/tun: ") + std::strerror(errno);
  // The kernel would take an interface of another process for this one's.
  if (if_nametoindex(name.c_str()) != 0) return "the interface " + name + " exists already";
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL);
  if (ioctl(file_.get(), TUNSETIFF, &request) != 0) return failed("create", name);
  // The kernel computes checksums and segments itself: the switch forwards packets as they are.
  if (ioctl(file_.get(), TUNSETOFFLOAD, 0) != 0) return failed("switch off the offloads of", name);
  set_carrier(false);

  control_ = Descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.bytes.data(), mac.bytes.size());
  if (ioctl(control_.get(), SIOCSIFHWADDR, &request) != 0) return failed("set the MAC address of", name);
  request.ifr_mtu = static_cast<int>(mtu_bytes);
  if (ioctl(control_.get(), SIOCSIFMTU, &request) != 0) return failed("set the MTU of", name);
  // Routes through a port without a link are of no use to anybody, whoever made them. A kernel without IPv6 has no
  // such file.
  for (const char* family : {"ipv4", "ipv6"}) {
    std::ofstream(std::string("/proc/sys/net/") + family + "/conf/" + name + "/ignore_routes_with_linkdown") << 1;
  }
  if (!ipv6) std::ofstream("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6") << 1;
  if (ioctl(control_.get(), SIOCGIFFLAGS, &request) != 0) return failed("read the flags of", name);
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (ioctl(control_.get(), SIOCSIFFLAGS, &request) != 0) return failed("set the flag UP of", name);
  index_ = static_cast<int>(if_nametoindex(name.c_str()));
  return "";
}

std::size_t Tap::read(std::span<std::uint8_t> frame) const noexcept {
  const ssize_t bytes = ::read(file_.get(), frame.data(), frame.size());
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool Tap::write(std::span<const std::uint8_t> frame) const noexcept {
  return ::write(file_.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

std::optional<Tap::Settings> Tap::settings() const noexcept {
  ifreq request{};
  request.ifr_ifindex = index_;
  Settings now;
  if (ioctl(control_.get(), SIOCGIFNAME, &request) != 0) return std::nullopt;
  if (ioctl(control_.get(), SIOCGIFFLAGS, &request) != 0) return std::nullopt;
  now.up = (request.ifr_flags & IFF_UP) != 0;
  if (ioctl(control_.get(), SIOCGIFMTU, &request) != 0) return std::nullopt;
  now.mtu_bytes = static_cast<std::uint32_t>(request.ifr_mtu);
  return now;
}

void Tap::set_mtu(std::uint32_t mtu_bytes) const noexcept {
  ifreq request{};
  request.ifr_ifindex = index_;
  if (ioctl(control_.get(), SIOCGIFNAME, &request) != 0) return;
  request.ifr_mtu = static_cast<int>(mtu_bytes);
  static_cast<void>(ioctl(control_.get(), SIOCSIFMTU, &request));
}

void Tap::set_carrier(bool on) const noexcept {
  int carrier = on ? 1 : 0;
  static_cast<void>(ioctl(file_.get(), TUNSETCARRIER, &carrier));
}

}  // namespace weft::kernel
