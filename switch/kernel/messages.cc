// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/messages.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::kernel {
namespace {

using wire::IpAddress;
using wire::IpPrefix;
using wire::MacAddress;

// The attributes of a message behind a header of type Header; false when the message is broken.
template <typename Header, std::size_t Count>
bool parse(const nlmsghdr* message, std::array<nlattr*, Count>& attributes) {
  auto* m = const_cast<nlmsghdr*>(message);
  return nlmsg_valid_hdr(m, sizeof(Header)) != 0 &&
         nlmsg_parse(m, sizeof(Header), attributes.data(), static_cast<int>(Count - 1), nullptr) == 0;
}

template <typename Header>
const Header& header_of(const nlmsghdr* message) {
  return *static_cast<const Header*>(nlmsg_data(message));
}

std::optional<IpAddress> to_address(int family, const void* data, int bytes) {
  if (family == AF_INET && bytes == 4) {
    std::array<std::uint8_t, 4> b;
    std::memcpy(b.data(), data, b.size());
    return IpAddress::v4(std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3]);
  }
  if (family == AF_INET6 && bytes == 16) {
    std::array<std::uint8_t, 16> b;
    std::memcpy(b.data(), data, b.size());
    return IpAddress::v6(b);
  }
  return std::nullopt;
}

std::optional<IpAddress> to_address(int family, const nlattr* attribute) {
  if (attribute == nullptr) return std::nullopt;
  return to_address(family, nla_data(attribute), nla_len(attribute));
}

std::optional<std::uint32_t> to_u32(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof(std::uint32_t))) return std::nullopt;
  return nla_get_u32(attribute);
}

// RTA_VIA: a gateway of another address family than the route's.
std::optional<IpAddress> to_via(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof(rtvia))) return std::nullopt;
  const auto* via = static_cast<const rtvia*>(nla_data(attribute));
  return to_address(via->rtvia_family, via->rtvia_addr, nla_len(attribute) - static_cast<int>(sizeof(rtvia)));
}

std::optional<IpAddress> gateway_of(int family, const nlattr* gateway, const nlattr* via) {
  return gateway != nullptr ? to_address(family, gateway) : to_via(via);
}

void read_multipath(int family, const nlattr* attribute, std::vector<RouteMessage::Hop>& hops) {
  const auto* at = static_cast<const rtnexthop*>(nla_data(attribute));
  int left = nla_len(attribute);
  while (left >= static_cast<int>(sizeof(rtnexthop)) && at->rtnh_len >= sizeof(rtnexthop) && at->rtnh_len <= left) {
    std::array<nlattr*, RTA_MAX + 1> inner{};
    auto* first = reinterpret_cast<nlattr*>(RTNH_DATA(const_cast<rtnexthop*>(at)));
    const int bytes = at->rtnh_len - static_cast<int>(sizeof(rtnexthop));
    if (nla_parse(inner.data(), RTA_MAX, first, bytes, nullptr) == 0) {
      hops.push_back({at->rtnh_ifindex, gateway_of(family, inner[RTA_GATEWAY], inner[RTA_VIA]),
                      (at->rtnh_flags & RTNH_F_DEAD) != 0, static_cast<std::uint16_t>(at->rtnh_hops + 1)});
    }
    const int step = static_cast<int>(RTNH_ALIGN(at->rtnh_len));
    left -= step;
    at = reinterpret_cast<const rtnexthop*>(reinterpret_cast<const char*>(at) + step);
  }
}

}  // namespace

std::optional<LinkMessage> parse_link(const nlmsghdr* message) {
  std::array<nlattr*, IFLA_MAX + 1> attributes{};
  if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) return std::nullopt;
  if (!parse<ifinfomsg>(message, attributes)) return std::nullopt;
  const auto& link = header_of<ifinfomsg>(message);
  // The kernel's routes go by either of these two flags.
  const bool carrier = (link.ifi_flags & (IFF_RUNNING | IFF_LOWER_UP)) != 0;
  return LinkMessage{message->nlmsg_type == RTM_DELLINK, link.ifi_index, (link.ifi_flags & IFF_UP) != 0, carrier};
}

std::optional<AddressMessage> parse_address(const nlmsghdr* message) {
  std::array<nlattr*, IFA_MAX + 1> attributes{};
  if (message->nlmsg_type != RTM_NEWADDR && message->nlmsg_type != RTM_DELADDR) return std::nullopt;
  if (!parse<ifaddrmsg>(message, attributes)) return std::nullopt;
  const auto& info = header_of<ifaddrmsg>(message);
  // On links between two hosts IFA_ADDRESS is the other end.
  const nlattr* own = attributes[IFA_LOCAL] != nullptr ? attributes[IFA_LOCAL] : attributes[IFA_ADDRESS];
  const auto address = to_address(info.ifa_family, own);
  if (!address || info.ifa_prefixlen > (address->is_v6() ? 128 : 32)) return std::nullopt;
  return AddressMessage{message->nlmsg_type == RTM_DELADDR, static_cast<int>(info.ifa_index),
                        IpPrefix{*address, info.ifa_prefixlen}};
}

std::optional<RouteMessage> parse_route(const nlmsghdr* message) {
  std::array<nlattr*, RTA_MAX + 1> attributes{};
  if (message->nlmsg_type != RTM_NEWROUTE && message->nlmsg_type != RTM_DELROUTE) return std::nullopt;
  if (!parse<rtmsg>(message, attributes)) return std::nullopt;
  const auto& info = header_of<rtmsg>(message);
  const bool v6 = info.rtm_family == AF_INET6;
  if ((!v6 && info.rtm_family != AF_INET) || (info.rtm_flags & RTM_F_CLONED) != 0) return std::nullopt;
  if (info.rtm_tos != 0 || info.rtm_src_len != 0 || info.rtm_dst_len > (v6 ? 128 : 32)) return std::nullopt;
  const std::uint32_t table = to_u32(attributes[RTA_TABLE]).value_or(info.rtm_table);
  if (table != RT_TABLE_MAIN && table != RT_TABLE_LOCAL) return std::nullopt;

  RouteMessage route;
  route.removed = message->nlmsg_type == RTM_DELROUTE;
  route.append = (message->nlmsg_flags & NLM_F_APPEND) != 0;
  route.replace = (message->nlmsg_flags & NLM_F_REPLACE) != 0;
  route.local_table = table == RT_TABLE_LOCAL;
  route.type = info.rtm_type;
  route.protocol = info.rtm_protocol;
  route.priority = to_u32(attributes[RTA_PRIORITY]).value_or(0);
  const auto destination = to_address(info.rtm_family, attributes[RTA_DST]);
  if (!destination && info.rtm_dst_len != 0) return std::nullopt;
  route.prefix = IpPrefix{destination.value_or(v6 ? IpAddress::v6({}) : IpAddress::v4(0)), info.rtm_dst_len};
  if (attributes[RTA_MULTIPATH] != nullptr) {
    read_multipath(info.rtm_family, attributes[RTA_MULTIPATH], route.hops);
  } else if (const auto index = to_u32(attributes[RTA_OIF])) {
    route.hops.push_back({static_cast<int>(*index),
                          gateway_of(info.rtm_family, attributes[RTA_GATEWAY], attributes[RTA_VIA]),
                          (info.rtm_flags & RTNH_F_DEAD) != 0});
  }
  return route;
}

std::optional<NeighbourMessage> parse_neighbour(const nlmsghdr* message) {
  std::array<nlattr*, NDA_MAX + 1> attributes{};
  if (message->nlmsg_type != RTM_NEWNEIGH && message->nlmsg_type != RTM_DELNEIGH) return std::nullopt;
  if (!parse<ndmsg>(message, attributes)) return std::nullopt;
  const auto& info = header_of<ndmsg>(message);
  const auto address = to_address(info.ndm_family, attributes[NDA_DST]);
  if (!address || address->is_multicast() || (info.ndm_flags & NTF_PROXY) != 0) return std::nullopt;
  NeighbourMessage neighbour{message->nlmsg_type == RTM_DELNEIGH, info.ndm_ifindex, *address, std::nullopt,
                             info.ndm_state};
  const nlattr* link_layer = attributes[NDA_LLADDR];
  if (link_layer != nullptr && nla_len(link_layer) == static_cast<int>(sizeof(MacAddress))) {
    MacAddress mac;
    std::memcpy(mac.bytes.data(), nla_data(link_layer), mac.bytes.size());
    neighbour.mac = mac;
  }
  return neighbour;
}

}  // namespace weft::kernel
