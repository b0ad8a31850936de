// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <thread>

#include "switch/wire/addresses.h"

namespace weft::inc_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxBytes = 1 << 20;

struct Place {
  sockaddr_storage address{};
  socklen_t length = 0;
};

std::string parse(const std::string& where, Place& out) {
  const std::size_t colon = where.rfind(':');
  if (colon == std::string::npos) return "'" + where + "' is not ADDRESS:PORT";
  std::string host = where.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto address = wire::IpAddress::parse(host);
  const std::string digits = where.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == digits.npos;
  const unsigned long port = number ? std::stoul(digits) : 0;
  if (!address || port == 0 || port > 65535) return "'" + where + "' is not ADDRESS:PORT";
  if (address->is_v6()) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(out.address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&v6.sin6_addr, address->bytes().data(), 16);
    out.length = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(out.address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    v4.sin_addr.s_addr = htonl(address->v4_value());
    out.length = sizeof v4;
  }
  return "";
}

bool send_all(int fd, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes) {
  auto* p = static_cast<std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(fd, p, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

std::string in_words(const std::string& what) {
  return what + ": " + std::generic_category().message(errno);
}

/// So that a call on the socket notices within `limit` that the other end is gone, whose host may have been cut off
/// before it could say so; and a short message is sent at once.
void watch(int fd, std::chrono::seconds limit) {
  const int on = 1, every_s = 1, times = std::max(2, static_cast<int>(limit.count()));
  const unsigned unacknowledged_ms = static_cast<unsigned>(times) * 1000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof every_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

/// For connect(), which the kernel would let wait for minutes; zero: all calls wait as long as they must.
void limit_sending(int fd, std::time_t seconds) {
  const timeval limit{seconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

std::string Rendezvous::meet(const std::string& where, std::uint32_t rank, std::uint32_t ranks,
                             std::chrono::seconds limit) {
  rank_ = rank;
  ranks_ = ranks;
  Place place;
  if (auto why = parse(where, place); !why.empty()) return why;
  const auto end = Clock::now() + limit;
  const auto* address = reinterpret_cast<const sockaddr*>(&place.address);
  if (rank != 0) {
    const std::uint32_t ours = htonl(rank);
    for (;;) {
      nic::Descriptor fd(socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      watch(fd.get(), limit);
      limit_sending(fd.get(), 1);
      if (connect(fd.get(), address, place.length) == 0 && send_all(fd.get(), &ours, sizeof ours)) {
        limit_sending(fd.get(), 0);
        peers_.push_back(std::move(fd));
        return "";
      }
      if (Clock::now() > end) return in_words("rank 0 is not at " + where);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  nic::Descriptor listener(socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), address, place.length) != 0 || listen(listener.get(), 1024) != 0) {
    return in_words("cannot listen at " + where);
  }
  peers_.resize(ranks);
  for (std::uint32_t missing = ranks - 1; missing > 0;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{listener.get(), POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0)
      return std::to_string(missing) + " ranks did not come";
    nic::Descriptor fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::uint32_t who = 0;
    if (!fd.valid()) continue;
    watch(fd.get(), limit);
    if (!receive_all(fd.get(), &who, sizeof who)) continue;
    who = ntohl(who);
    if (who == 0 || who >= ranks || peers_[who].valid()) return "rank " + std::to_string(who) + " came, and must not";
    peers_[who] = std::move(fd);
    --missing;
  }
  return "";
}

std::vector<Rendezvous::Bytes> Rendezvous::allgather(const Bytes& ours) {
  std::vector<Bytes> all(ranks_, Bytes(ours.size()));
  if (ours.size() > kMaxBytes) return {};
  all[rank_] = ours;
  if (rank_ != 0) {
    if (!send_all(peers_[0].get(), ours.data(), ours.size())) return {};
    for (Bytes& one : all) {
      if (!receive_all(peers_[0].get(), one.data(), one.size())) return {};
    }
    return all;
  }
  for (std::uint32_t r = 1; r < ranks_; ++r) {
    if (!receive_all(peers_[r].get(), all[r].data(), all[r].size())) return {};
  }
  for (std::uint32_t r = 1; r < ranks_; ++r) {
    for (const Bytes& one : all) {
      if (!send_all(peers_[r].get(), one.data(), one.size())) return {};
    }
  }
  return all;
}

}  // namespace weft::inc_tool
