// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/kernel_switch.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>

namespace weft::kernel {
namespace {

// The addresses of the configuration, on interfaces that are new.
std::string add_addresses(const pipeline::SwitchInfo& info, const std::vector<Tap>& taps) {
  NetlinkSocket socket;
  if (auto error = socket.open({}); !error.empty()) return error;
  for (const auto& [port, prefix, mark] : info.addresses) {
    const wire::IpAddress& address = prefix.address;
    const std::size_t bytes = address.is_v6() ? 16 : 4;
    const void* data = address.bytes().data() + 16 - bytes;
    ifaddrmsg header{};
    header.ifa_family = address.is_v6() ? AF_INET6 : AF_INET;
    header.ifa_prefixlen = prefix.length;
    header.ifa_index = static_cast<unsigned>(taps[port].index());
    socket.send(RTM_NEWADDR, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof header,
                {{IFA_LOCAL, data, bytes}, {IFA_ADDRESS, data, bytes}});
  }
  return "";
}

}  // namespace

std::unique_ptr<KernelSwitch> KernelSwitch::open(const pipeline::SwitchInfo& info, rte_mempool* pool,
                                                 const Clock& clock, std::string& error) {
  std::unique_ptr<KernelSwitch> made(new KernelSwitch());
  // The calling thread stays in its namespace.
  std::thread([&] {
    error = enter_network_namespace(info.kernel->network_namespace);
    std::vector<Tap> taps(info.ports.size());
    PortByIndex by_index;
    for (const auto& port : info.ports) {
      if (!error.empty()) return;
      error = taps[port.index].open(info.kernel->interface_prefix + port.name, port.mac, port.mtu_bytes);
      by_index[taps[port.index].index()] = port.index;
    }
    if (error.empty()) error = add_addresses(info, taps);
    made->tables_ = std::make_unique<KernelTables>(by_index, clock);
    made->path_ = std::make_unique<KernelPath>(std::move(taps), std::move(by_index), pool, clock);
    if (error.empty()) error = made->tables_->open();
    if (error.empty()) error = made->path_->open();
  }).join();
  if (!error.empty()) made.reset();
  return made;
}

void KernelSwitch::attach(pipeline::SwitchState& state) {
  stop();
  auto* l3 = dynamic_cast<stages::L3Shared*>(state.shared("l3"));
  if (l3 == nullptr || l3->kernel() == nullptr) std::abort();  // the loader has checked it
  tables_->start(*l3);
  path_->start(state, *l3);
}

void KernelSwitch::stop() {
  path_->stop();
  tables_->stop();
}

}  // namespace weft::kernel
