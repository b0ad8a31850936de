// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/neighbours.h"

#include <linux/neighbour.h>

#include <array>
#include <cstring>

#include "nic/host/rtnetlink.h"

namespace weft::nic {
namespace {

using rtnetlink::ask;
using rtnetlink::bytes_of;
using rtnetlink::family_of;
using rtnetlink::for_each_attribute;

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

/// Gives the route that the kernel takes to an address to `use`, if there is one.
template <class Use>
void look_up_route(const wire::IpAddress& to, Use&& use) {
  rtmsg body{};
  body.rtm_family = family_of(to);
  body.rtm_dst_len = to.is_v6() ? 128 : 32;
  ask(RTM_GETROUTE, 0, body, RTA_DST, bytes_of(to), [&](const nlmsghdr* m) {
    if (m->nlmsg_type == RTM_NEWROUTE) use(m, static_cast<const rtmsg*>(NLMSG_DATA(m)));
  });
}

}  // namespace

std::optional<NextHop> find_route(const wire::IpAddress& to) {
  std::optional<NextHop> found;
  look_up_route(to, [&](const nlmsghdr* m, const rtmsg* route) {
    if (route->rtm_type != RTN_UNICAST) return;
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

bool is_own_address(const wire::IpAddress& address) {
  bool own = false;
  look_up_route(address, [&](const nlmsghdr*, const rtmsg* route) { own = route->rtm_type == RTN_LOCAL; });
  return own;
}

std::optional<wire::MacAddress> find_neighbour(unsigned interface, const wire::IpAddress& address) {
  constexpr std::uint16_t kUsable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;
  ndmsg body{};
  body.ndm_family = family_of(address);
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

void ask_for_neighbour(unsigned interface, const wire::IpAddress& address) {
  ndmsg body{};
  body.ndm_family = family_of(address);
  body.ndm_ifindex = static_cast<int>(interface);
  body.ndm_flags = NTF_USE;
  ask(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, body, NDA_DST, bytes_of(address), [](const nlmsghdr*) {});
}

}  // namespace weft::nic
