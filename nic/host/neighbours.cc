// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/neighbours.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "nic/host/netdev_port.h"

namespace weft::nic {
namespace {

using Buffer = std::vector<char>;

constexpr std::chrono::milliseconds kPause{10};

std::span<const std::uint8_t> bytes_of(const wire::IpAddress& a) {
  const std::span<const std::uint8_t> all(a.bytes());
  return a.is_v6() ? all : all.subspan(12);
}

std::optional<wire::IpAddress> address_from(const rtattr* attribute, int family) {
  const auto* at = static_cast<const std::uint8_t*>(RTA_DATA(attribute));
  if (family == AF_INET && RTA_PAYLOAD(attribute) == 4) {
    return wire::IpAddress::v4(std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
                               at[3]);
  }
  if (family != AF_INET6 || RTA_PAYLOAD(attribute) != 16) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), at, bytes.size());
  return wire::IpAddress::v6(bytes);
}

/// Sends a request with one attribute and gives every message of the answer to `each`.
template <class Body, class Each>
void ask(std::uint16_t type, std::uint16_t flags, const Body& body, std::uint16_t attribute,
         std::span<const std::uint8_t> value, Each&& each) {
  const Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  alignas(NLMSG_ALIGNTO) std::array<char, 256> request{};
  auto* header = reinterpret_cast<nlmsghdr*>(request.data());
  header->nlmsg_type = type;
  header->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  std::memcpy(NLMSG_DATA(header), &body, sizeof body);
  std::size_t length = NLMSG_ALIGN(NLMSG_LENGTH(sizeof body));
  if (!value.empty()) {
    auto* a = reinterpret_cast<rtattr*>(request.data() + length);
    a->rta_type = attribute;
    a->rta_len = static_cast<unsigned short>(RTA_LENGTH(value.size()));
    std::memcpy(RTA_DATA(a), value.data(), value.size());
    length += RTA_ALIGN(a->rta_len);
  }
  header->nlmsg_len = static_cast<std::uint32_t>(length);
  if (!fd.valid() || send(fd.get(), request.data(), length, 0) < 0) return;
  Buffer answer(1 << 16);
  while (true) {
    const ssize_t count = recv(fd.get(), answer.data(), answer.size(), 0);
    if (count <= 0) return;
    auto left = static_cast<unsigned>(count);
    for (auto* m = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) return;
      each(m);
      if ((m->nlmsg_flags & NLM_F_MULTI) == 0) return;
    }
  }
}

template <class Body, class Each>
void for_each_attribute(const nlmsghdr* m, Each&& each) {
  const char* begin = static_cast<const char*>(NLMSG_DATA(m)) + NLMSG_ALIGN(sizeof(Body));
  int left = static_cast<int>(m->nlmsg_len) - static_cast<int>(NLMSG_ALIGN(NLMSG_LENGTH(sizeof(Body))));
  for (auto* a = reinterpret_cast<const rtattr*>(begin); RTA_OK(a, left); a = RTA_NEXT(a, left)) each(a);
}

/// Makes the kernel look for a neighbour as if it had a packet for it. Needs CAP_NET_ADMIN.
void provoke(unsigned interface, const wire::IpAddress& address) {
  ndmsg body{};
  body.ndm_family = address.is_v6() ? AF_INET6 : AF_INET;
  body.ndm_ifindex = static_cast<int>(interface);
  body.ndm_flags = NTF_USE;
  ask(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, body, NDA_DST, bytes_of(address), [](const nlmsghdr*) {});
}

}  // namespace

std::optional<NextHop> find_route(const wire::IpAddress& to) {
  rtmsg body{};
  body.rtm_family = to.is_v6() ? AF_INET6 : AF_INET;
  body.rtm_dst_len = to.is_v6() ? 128 : 32;
  std::optional<NextHop> found;
  ask(RTM_GETROUTE, 0, body, RTA_DST, bytes_of(to), [&](const nlmsghdr* m) {
    const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(m));
    if (m->nlmsg_type != RTM_NEWROUTE || route->rtm_type != RTN_UNICAST) return;
    NextHop hop;
    hop.gateway = to;
    for_each_attribute<rtmsg>(m, [&](const rtattr* a) {
      if (a->rta_type == RTA_OIF) std::memcpy(&hop.interface, RTA_DATA(a), sizeof(std::uint32_t));
      const auto address = address_from(a, route->rtm_family);
      if (!address) return;
      if (a->rta_type == RTA_GATEWAY) hop.gateway = *address;
      if (a->rta_type == RTA_PREFSRC) hop.source = *address;
    });
    found = hop;
  });
  return found;
}

std::optional<wire::MacAddress> find_neighbour(unsigned interface, const wire::IpAddress& address) {
  constexpr std::uint16_t kUsable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;
  ndmsg body{};
  body.ndm_family = address.is_v6() ? AF_INET6 : AF_INET;
  std::optional<wire::MacAddress> found;
  ask(RTM_GETNEIGH, NLM_F_DUMP, body, 0, {}, [&](const nlmsghdr* m) {
    const auto* entry = static_cast<const ndmsg*>(NLMSG_DATA(m));
    if (m->nlmsg_type != RTM_NEWNEIGH || static_cast<unsigned>(entry->ndm_ifindex) != interface) return;
    if ((entry->ndm_state & kUsable) == 0) return;
    bool same = false;
    wire::MacAddress mac{};
    for_each_attribute<ndmsg>(m, [&](const rtattr* a) {
      if (a->rta_type == NDA_DST) same = address_from(a, entry->ndm_family) == address;
      if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == mac.bytes.size()) {
        std::memcpy(mac.bytes.data(), RTA_DATA(a), mac.bytes.size());
      }
    });
    if (same && !mac.is_zero()) found = mac;
  });
  return found;
}

std::optional<wire::MacAddress> resolve_neighbour(unsigned interface, const wire::IpAddress& address,
                                                  std::chrono::milliseconds limit) {
  for (std::chrono::milliseconds waited{0}; waited <= limit; waited += kPause) {
    if (const auto mac = find_neighbour(interface, address)) return mac;
    if (waited.count() % 500 == 0) provoke(interface, address);
    std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

}  // namespace weft::nic
