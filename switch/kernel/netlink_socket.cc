// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/netlink_socket.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace weft::kernel {
namespace {

// The kernel fills the reader's buffer in a dump, up to 32 KiB.
constexpr std::size_t kBufferBytes = 256 * 1024;
// What the kernel may say before it is read: tens of thousands of routes.
constexpr int kReceiveBytes = 32 * 1024 * 1024;
constexpr int kAnswerTimeoutMs = 5000;

}  // namespace

void NetlinkSocket::Free::operator()(nl_sock* s) const {
  nl_socket_free(s);
}

NetlinkSocket::NetlinkSocket() : socket_(nl_socket_alloc()), buffer_(kBufferBytes) {}
NetlinkSocket::~NetlinkSocket() = default;

std::string NetlinkSocket::open(std::initializer_list<int> groups) {
  if (!socket_) return "no memory for a netlink socket";
  if (const int error = nl_connect(socket_.get(), NETLINK_ROUTE); error != 0) {
    return std::string("cannot open a netlink socket: ") + nl_geterror(error);
  }
  // Beyond the limit of the system with CAP_NET_ADMIN, up to it without.
  if (setsockopt(descriptor(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes) != 0) {
    setsockopt(descriptor(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
  }
  for (const int group : groups) {
    if (const int error = nl_socket_add_membership(socket_.get(), group); error != 0) {
      return std::string("cannot listen to netlink: ") + nl_geterror(error);
    }
  }
  return "";
}

int NetlinkSocket::descriptor() const noexcept {
  return nl_socket_get_fd(socket_.get());
}

long NetlinkSocket::read_datagram(bool wait) {
  pollfd ready{descriptor(), POLLIN, 0};
  if (wait && poll(&ready, 1, kAnswerTimeoutMs) != 1) return -ETIMEDOUT;
  const ssize_t bytes = recv(descriptor(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (bytes >= 0) return bytes;
  return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

NetlinkSocket::Received NetlinkSocket::receive(const Handler& handler) {
  const long bytes = read_datagram(false);
  if (bytes == 0) return Received::nothing;
  if (bytes < 0) return Received::lost;
  int left = static_cast<int>(bytes);
  for (auto* m = reinterpret_cast<nlmsghdr*>(buffer_.data()); nlmsg_ok(m, left) != 0; m = nlmsg_next(m, &left)) {
    handler(m);
  }
  return Received::some;
}

bool NetlinkSocket::dump(int type, int family, const Handler& handler) {
  // Answers to earlier questions may still be there.
  while (read_datagram(false) > 0) {
  }
  rtgenmsg header{};
  header.rtgen_family = static_cast<unsigned char>(family);
  if (nl_send_simple(socket_.get(), type, NLM_F_REQUEST | NLM_F_DUMP, &header, sizeof header) < 0) return false;
  bool complete = true;
  while (true) {
    const long bytes = read_datagram(true);
    if (bytes < 0) return false;
    int left = static_cast<int>(bytes);
    for (auto* m = reinterpret_cast<nlmsghdr*>(buffer_.data()); nlmsg_ok(m, left) != 0; m = nlmsg_next(m, &left)) {
      if ((m->nlmsg_flags & NLM_F_DUMP_INTR) != 0) complete = false;
      if (m->nlmsg_type == NLMSG_DONE) return complete;
      if (m->nlmsg_type == NLMSG_ERROR) return false;
      handler(m);
    }
  }
}

void NetlinkSocket::send(int type, int flags, const void* header, std::size_t bytes,
                         std::initializer_list<Attribute> attributes) {
  nl_msg* message = nlmsg_alloc_simple(type, flags);
  if (message == nullptr) return;
  nlmsg_append(message, const_cast<void*>(header), bytes, NLMSG_ALIGNTO);
  for (const Attribute& a : attributes) nla_put(message, a.type, static_cast<int>(a.bytes), a.data);
  nl_send_auto(socket_.get(), message);
  nlmsg_free(message);
}

}  // namespace weft::kernel
