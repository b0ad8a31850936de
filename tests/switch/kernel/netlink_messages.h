// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Netlink messages as the kernel writes them.
#pragma once

#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "switch/wire/addresses.h"

namespace weft::kernel {

struct MessageFree {
  void operator()(nl_msg* m) const { nlmsg_free(m); }
};

class Message {
 public:
  template <typename Header>
  Message(int type, int flags, const Header& header) : message_(nlmsg_alloc_simple(type, flags), MessageFree()) {
    nlmsg_append(message_.get(), const_cast<Header*>(&header), sizeof header, NLMSG_ALIGNTO);
  }
  Message& address(int type, const std::string& text) {
    const auto a = *wire::IpAddress::parse(text);
    const int bytes = a.is_v6() ? 16 : 4;
    nla_put(message_.get(), type, bytes, a.bytes().data() + 16 - bytes);
    return *this;
  }
  Message& number(int type, std::uint32_t value) {
    nla_put_u32(message_.get(), type, value);
    return *this;
  }
  Message& bytes(int type, const void* data, std::size_t size) {
    nla_put(message_.get(), type, static_cast<int>(size), data);
    return *this;
  }
  [[nodiscard]] nlmsghdr* get() const { return nlmsg_hdr(message_.get()); }

 private:
  std::shared_ptr<nl_msg> message_;
};

/// A route message's header.
inline rtmsg route_header(int family, unsigned char length, unsigned char type = RTN_UNICAST,
                          unsigned char table = RT_TABLE_MAIN) {
  rtmsg header{};
  header.rtm_family = static_cast<unsigned char>(family);
  header.rtm_dst_len = length;
  header.rtm_table = table;
  header.rtm_type = type;
  header.rtm_protocol = RTPROT_STATIC;
  return header;
}

}  // namespace weft::kernel
