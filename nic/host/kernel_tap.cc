// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/kernel_tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "nic/host/rtnetlink.h"

namespace weft::nic {

std::string KernelTap::open(const std::string& name, const wire::MacAddress& mac, std::uint32_t mtu) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return "the name " + name + " is too long for an interface";
  Descriptor fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return error_text("/dev/net/tun");
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) return error_text("making the interface " + name);
  name_ = request.ifr_name;
  const Descriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::copy(mac.bytes.begin(), mac.bytes.end(), request.ifr_hwaddr.sa_data);
  if (ioctl(control.get(), SIOCSIFHWADDR, &request) != 0) return error_text("MAC address of " + name_);
  request.ifr_mtu = static_cast<int>(mtu);
  if (ioctl(control.get(), SIOCSIFMTU, &request) != 0) return error_text("MTU of " + name_);
  request.ifr_flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
  if (ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) return error_text("bringing up " + name_);
  fd_ = std::move(fd);
  return {};
}

std::string KernelTap::add_address(const wire::IpPrefix& address) const {
  ifaddrmsg body{};
  body.ifa_family = rtnetlink::family_of(address.address);
  body.ifa_prefixlen = address.length;
  body.ifa_flags = IFA_F_NODAD;  // it is needed at once
  body.ifa_index = if_nametoindex(name_.c_str());
  const int error = rtnetlink::ask(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, body, IFA_LOCAL,
                                   rtnetlink::bytes_of(address.address), [](const nlmsghdr*) {});
  return error == 0 ? "" : "address " + address.to_string() + " of " + name_ + ": " + std::strerror(error);
}

std::size_t KernelTap::take(std::span<std::uint8_t> out) const noexcept {
  const ssize_t count = read(fd_.get(), out.data(), out.size());
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void KernelTap::give(std::span<const std::uint8_t> frame) const noexcept {
  const ssize_t written = write(fd_.get(), frame.data(), frame.size());
  static_cast<void>(written);
}

}  // namespace weft::nic
