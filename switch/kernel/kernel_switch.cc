// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/kernel_switch.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "switch/pipeline/find.h"
#include "switch/stages/kernel_punt/kernel_punt.h"

namespace weft::kernel {
namespace {

// `type` is RTM_NEWADDR or RTM_DELADDR.
void request_address(NetlinkSocket& socket, int type, const Tap& tap, const wire::IpPrefix& prefix) {
  const wire::IpAddress& address = prefix.address;
  const std::size_t bytes = address.is_v6() ? 16 : 4;
  const void* data = address.bytes().data() + 16 - bytes;
  ifaddrmsg header{};
  header.ifa_family = address.is_v6() ? AF_INET6 : AF_INET;
  header.ifa_prefixlen = prefix.length;
  header.ifa_index = static_cast<unsigned>(tap.index());
  const int flags = NLM_F_REQUEST | (type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0);
  socket.send(type, flags, &header, sizeof header, {{IFA_LOCAL, data, bytes}, {IFA_ADDRESS, data, bytes}});
}

stages::L3Shared* router_of(const pipeline::SwitchState& state) {
  return state.capability<stages::L3Shared>();
}

stages::L3Kernel& rings_of(const pipeline::SwitchState& state) {
  auto* rings = state.capability<stages::L3Kernel>();
  if (rings == nullptr) std::abort();  // the loader has checked it
  return *rings;
}

}  // namespace

std::string KernelSwitch::open_interfaces(const pipeline::SwitchInfo& info, const KernelSwitch* previous) {
  interfaces_.resize(info.ports.size());
  before_.resize(info.ports.size());
  for (const auto& [port, prefix, mark] : info.addresses) interfaces_[port].addresses.push_back(prefix);
  for (const auto& port : info.ports) {
    Interface& is = interfaces_[port.index];
    is.mac = port.mac;
    is.mtu_bytes = port.mtu_bytes;
    const std::string name = info.kernel->interface_prefix + port.name;
    if (previous != nullptr && previous->namespace_ == namespace_) {
      const auto& all = previous->interfaces_;
      const auto was = std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.tap->name() == name; });
      if (was != all.end()) before_[port.index] = *was;
    }
    if (before_[port.index]) {
      is.tap = before_[port.index]->tap;
      continue;
    }
    auto tap = std::make_shared<Tap>();
    if (auto error = tap->open(name, is.mac, is.mtu_bytes, pipeline::find_stage(info, "l3") != nullptr); !error.empty())
      return error;
    for (const wire::IpPrefix& prefix : is.addresses) request_address(requests_, RTM_NEWADDR, *tap, prefix);
    is.tap = std::move(tap);
  }
  return "";
}

std::unique_ptr<KernelSwitch> KernelSwitch::open(const pipeline::SwitchInfo& info, rte_mempool* pool,
                                                 const Clock& clock, const KernelSwitch* previous, std::string& error) {
  std::unique_ptr<KernelSwitch> made(new KernelSwitch());
  made->namespace_ = info.kernel->network_namespace;
  // The calling thread stays in its namespace.
  std::thread([&] {
    error = enter_network_namespace(made->namespace_);
    if (error.empty()) error = made->requests_.open({});
    if (error.empty()) error = made->open_interfaces(info, previous);
    if (!error.empty()) return;
    std::vector<std::shared_ptr<const Tap>> taps;
    PortByIndex by_index;
    for (const Interface& interface : made->interfaces_) {
      by_index[interface.tap->index()] = static_cast<pipeline::PortIndex>(taps.size());
      taps.push_back(interface.tap);
    }
    made->tables_ = std::make_unique<KernelTables>(by_index, clock);
    made->path_ = std::make_unique<KernelPath>(std::move(taps), std::move(by_index), pool, clock);
    error = made->tables_->open();
    if (error.empty()) error = made->path_->open();
  }).join();
  if (!error.empty()) made.reset();
  return made;
}

void KernelSwitch::prepare(pipeline::SwitchState& state) {
  if (auto* l3 = router_of(state)) tables_->fill(*l3);
}

void KernelSwitch::attach(pipeline::SwitchState& state) {
  for (std::size_t port = 0; port < before_.size(); ++port) {
    if (before_[port]) adjust(*before_[port], interfaces_[port]);
  }
  before_.clear();
  auto* l3 = router_of(state);
  if (l3 != nullptr) tables_->start(*l3);
  path_->start(state, rings_of(state), l3);
}

void KernelSwitch::adjust(const Interface& was, const Interface& is) {
  const auto has = [](const Interface& interface, const wire::IpPrefix& prefix) {
    return std::find(interface.addresses.begin(), interface.addresses.end(), prefix) != interface.addresses.end();
  };
  ifinfomsg header{};
  header.ifi_index = is.tap->index();
  if (was.mac != is.mac) {
    requests_.send(RTM_NEWLINK, NLM_F_REQUEST, &header, sizeof header,
                   {{IFLA_ADDRESS, is.mac.bytes.data(), is.mac.bytes.size()}});
  }
  if (was.mtu_bytes != is.mtu_bytes) {
    requests_.send(RTM_NEWLINK, NLM_F_REQUEST, &header, sizeof header,
                   {{IFLA_MTU, &is.mtu_bytes, sizeof is.mtu_bytes}});
  }
  // New ones first: routes that use one of several addresses as their source stay.
  for (const wire::IpPrefix& prefix : is.addresses) {
    if (!has(was, prefix)) request_address(requests_, RTM_NEWADDR, *is.tap, prefix);
  }
  for (const wire::IpPrefix& prefix : was.addresses) {
    if (!has(is, prefix)) request_address(requests_, RTM_DELADDR, *is.tap, prefix);
  }
}

std::optional<KernelSwitch::Wishes> KernelSwitch::wishes(pipeline::PortIndex port) {
  Interface& interface = interfaces_[port];
  const auto now = interface.tap->settings();
  if (!now) return std::nullopt;
  Wishes wishes{.up = now->up};
  if (now->mtu_bytes != interface.mtu_bytes) wishes.mtu_bytes = interface.mtu_bytes = now->mtu_bytes;
  return wishes;
}

void KernelSwitch::set_mtu(pipeline::PortIndex port, std::uint32_t mtu_bytes) {
  interfaces_[port].mtu_bytes = mtu_bytes;
  interfaces_[port].tap->set_mtu(mtu_bytes);
  tables_->publish_again();
}

void KernelSwitch::stop() {
  path_->stop();
  tables_->stop();
}

}  // namespace weft::kernel
