// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/link_events.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace weft::ports {

LinkEvents::LinkEvents() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (fd_ >= 0) static_cast<void>(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

LinkEvents::~LinkEvents() {
  if (fd_ >= 0) close(fd_);
}

// What a message says does not matter, so it may be cut short; and so says the error that some were lost.
bool LinkEvents::any() const noexcept {
  bool some = false;
  char message[64];
  while (fd_ >= 0) {
    if (recv(fd_, message, sizeof message, MSG_DONTWAIT) < 0 && errno != ENOBUFS) break;
    some = true;
  }
  return some;
}

}  // namespace weft::ports
