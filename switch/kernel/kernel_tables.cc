// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/kernel_tables.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "switch/base/time.h"

namespace weft::kernel {
using stages::L3Shared;

namespace {

// The kernel sends changes in bursts: one table for all that come within this time.
constexpr TimeNs kShortestPause = 10 * kMs;
// Reading everything again is for changes that the kernel does not tell of; they come in bursts too.
constexpr TimeNs kShortestReadPause = 100 * kMs;
constexpr int kReadsAtOnce = 64;
// Tables that change while they are read are read again; at some time the thread goes on with that.
constexpr int kFirstReads = 3;
constexpr std::uint16_t kUsable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;

}  // namespace

void apply_neighbour(const NeighbourMessage& message, const PortByIndex& ports, L3Shared& l3, TimeNs now) {
  const auto port = ports.find(message.index);
  if (port == ports.end()) return;
  if (message.removed) {
    l3.lose(port->second, message.address, L3Shared::Loss::forgotten, now);
  } else if ((message.state & NUD_FAILED) != 0) {
    l3.lose(port->second, message.address, L3Shared::Loss::unreachable, now);
  } else if ((message.state & kUsable) != 0 && message.mac) {
    const bool confirmed = (message.state & (NUD_REACHABLE | NUD_PERMANENT)) != 0;
    l3.learn(port->second, message.address, {.mac = message.mac, .confirmed = confirmed},
             (message.state & NUD_PERMANENT) != 0, now);
  }
}

std::string KernelTables::open() {
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (auto error = questions_.open({}); !error.empty()) return error;
  return events_.open({RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
                       RTNLGRP_NEIGH, RTNLGRP_NEXTHOP});
}

// Changes meanwhile wait in the socket, which was opened before.
void KernelTables::fill(L3Shared& l3) {
  for (int i = 0; i < kFirstReads && read_all_; ++i) read_all_ = !read_all(l3);
  publish_addresses(l3);
  publish_routes(l3);
}

void KernelTables::start(L3Shared& l3) {
  stop_ = false;
  thread_ = std::thread([this, &l3] { run(l3); });
}

void KernelTables::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));
  thread_.join();
  std::uint64_t count = 0;
  static_cast<void>(read(wake_.get(), &count, sizeof count));
}

void KernelTables::publish_again() {
  again_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));
}

void KernelTables::run(L3Shared& l3) {
  pthread_setname_np(pthread_self(), "weft-netlink");
  while (!stop_) {
    if (again_.exchange(false)) {
      std::uint64_t count = 0;
      static_cast<void>(read(wake_.get(), &count, sizeof count));
      routes_changed_ = true;
    }
    listen(l3);
    if (read_all_ && clock_() >= next_read_) {
      const TimeNs before = clock_();
      read_all_ = !read_all(l3);
      const TimeNs after = clock_();
      next_read_ = after + std::max(kShortestReadPause, 3 * (after - before));
    }
    if (addresses_changed_) publish_addresses(l3);
    if (routes_changed_ && clock_() >= next_publish_) publish_routes(l3);
    wait(clock_());
  }
}

// Until there is something to read, or to do.
void KernelTables::wait(TimeNs now) const {
  int timeout_ms = -1;
  const auto until = [&](TimeNs at) {
    const int ms = at <= now ? 0 : static_cast<int>((at - now) / kMs) + 1;
    timeout_ms = timeout_ms < 0 ? ms : std::min(timeout_ms, ms);
  };
  if (read_all_) until(next_read_);
  if (routes_changed_) until(next_publish_);
  pollfd ready[2] = {{events_.descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  poll(ready, 2, timeout_ms);
}

void KernelTables::listen(L3Shared& l3) {
  for (int i = 0; i < kReadsAtOnce; ++i) {
    switch (events_.receive([&](const nlmsghdr* message) { handle(message, l3); })) {
      case NetlinkSocket::Received::some:
        break;
      case NetlinkSocket::Received::nothing:
        return;
      case NetlinkSocket::Received::lost:
        read_all_ = true;
        break;
    }
  }
}

void KernelTables::handle(const nlmsghdr* message, L3Shared& l3) {
  if (const auto route = parse_route(message)) {
    note_weights(*route);
    const auto effect = routes_.apply(*route);
    routes_changed_ |= effect != RouteMirror::Effect::none;
    read_all_ |= effect == RouteMirror::Effect::unclear;
  } else if (const auto neighbour = parse_neighbour(message)) {
    apply_neighbour(*neighbour, ports_, l3, clock_());
  } else if (const auto link = parse_link(message)) {
    note_link(*link);
  } else if (const auto address = parse_address(message)) {
    note_address(*address);
  } else if (message->nlmsg_type == RTM_DELNEXTHOP ||
             (message->nlmsg_type == RTM_NEWNEXTHOP && (message->nlmsg_flags & NLM_F_REPLACE) != 0)) {
    // Groups lose members without a word about the routes that use them.
    read_all_ = true;
  }
}

// Said once: a network that uses weights mostly uses them for many routes.
void KernelTables::note_weights(const RouteMessage& route) {
  if (weights_told_ || route.removed || !has_weights(route)) return;
  weights_told_ = true;
  spdlog::warn("the kernel's route to {} weighs its next hops; weft takes them as equal, of this and of all routes",
               route.prefix.to_string());
}

// Routes through an interface that goes down vanish without messages of their own, and those through one without a
// carrier are dead until it comes back.
void KernelTables::note_link(const LinkMessage& message) {
  const auto [at, inserted] = links_.try_emplace(message.index, message);
  const LinkMessage before = std::exchange(at->second, message);
  if (message.removed || before.up != message.up || before.carrier != message.carrier) read_all_ = true;
  if (message.removed) links_.erase(at);
}

void KernelTables::note_address(const AddressMessage& message) {
  // Routes that prefer a removed address as their source vanish in silence, wherever it was.
  if (message.removed) read_all_ = true;
  const auto port = ports_.find(message.index);
  if (port == ports_.end()) return;
  const std::pair entry(port->second, message.prefix);
  addresses_changed_ |= message.removed ? addresses_.erase(entry) != 0 : addresses_.insert(entry).second;
}

bool KernelTables::read_all(L3Shared& l3) {
  routes_.clear();
  addresses_.clear();
  links_.clear();
  addresses_changed_ = routes_changed_ = true;
  const auto take = [&](const nlmsghdr* message) {
    if (const auto route = parse_route(message)) {
      note_weights(*route);
      routes_.apply(*route);
    } else if (const auto neighbour = parse_neighbour(message)) {
      apply_neighbour(*neighbour, ports_, l3, clock_());
    } else if (const auto link = parse_link(message)) {
      links_[link->index] = *link;
    } else if (const auto address = parse_address(message)) {
      note_address(*address);
    }
  };
  bool complete = questions_.dump(RTM_GETLINK, AF_UNSPEC, take);
  complete &= questions_.dump(RTM_GETADDR, AF_UNSPEC, take);
  for (const int family : {AF_INET, AF_INET6}) {
    complete &= questions_.dump(RTM_GETROUTE, family, take);
    complete &= questions_.dump(RTM_GETNEIGH, family, take);
  }
  return complete;
}

void KernelTables::publish_addresses(L3Shared& l3) {
  std::vector<pipeline::InterfaceAddress> list;
  for (const auto& [port, prefix] : addresses_) list.push_back({port, prefix, {}});
  l3.set_addresses(list);
  addresses_changed_ = false;
}

void KernelTables::publish_routes(L3Shared& l3) {
  const TimeNs before = clock_();
  const bool fits = l3.set_routes(routes_.specs(ports_));
  const TimeNs after = clock_();
  next_publish_ = after + std::max(kShortestPause, 3 * (after - before));
  routes_changed_ = false;
  if (!fits && !full_) {
    spdlog::error("{} routes of the kernel do not fit into memory: the ones before stay (eal.memory_mb)",
                  routes_.size());
  }
  full_ = !fits;
}

}  // namespace weft::kernel
