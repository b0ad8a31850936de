// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Questions to the kernel's tables: one request with its attributes, and the messages of the answer.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nic/host/interface.h"
#include "switch/wire/addresses.h"

namespace weft::nic::rtnetlink {

/// The bytes of an address as attributes have them.
inline std::span<const std::uint8_t> bytes_of(const wire::IpAddress& a) {
  const std::span<const std::uint8_t> all(a.bytes());
  return a.is_v6() ? all : all.subspan(12);
}

inline std::uint8_t family_of(const wire::IpAddress& a) {
  return a.is_v6() ? AF_INET6 : AF_INET;
}

/// Sends a request with one attribute and gives every message of the answer to `each`. Returns 0, or the error number
/// that the kernel answers.
template <class Body, class Each>
int ask(std::uint16_t type, std::uint16_t flags, const Body& body, std::uint16_t attribute,
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
  if (!fd.valid() || send(fd.get(), request.data(), length, 0) < 0) return errno;
  std::vector<char> answer(1 << 16);
  while (true) {
    const ssize_t count = recv(fd.get(), answer.data(), answer.size(), 0);
    if (count <= 0) return errno;
    auto left = static_cast<unsigned>(count);
    for (auto* m = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type == NLMSG_DONE) return 0;
      if (m->nlmsg_type == NLMSG_ERROR) return -static_cast<const nlmsgerr*>(NLMSG_DATA(m))->error;
      each(m);
      if ((m->nlmsg_flags & NLM_F_MULTI) == 0) return 0;
    }
  }
}

/// Gives every attribute of a message to `each`.
template <class Body, class Each>
void for_each_attribute(const nlmsghdr* m, Each&& each) {
  const char* begin = static_cast<const char*>(NLMSG_DATA(m)) + NLMSG_ALIGN(sizeof(Body));
  int left = static_cast<int>(m->nlmsg_len) - static_cast<int>(NLMSG_ALIGN(NLMSG_LENGTH(sizeof(Body))));
  for (auto* a = reinterpret_cast<const rtattr*>(begin); RTA_OK(a, left); a = RTA_NEXT(a, left)) each(a);
}

}  // namespace weft::nic::rtnetlink
