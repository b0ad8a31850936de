// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Transfers as plain UDP, where hosts have no RNICs.
#include <algorithm>

#include "tools/sim/simulation.h"

namespace weft::sim {

void Simulation::make_datagram_hosts() {
  const Topology& t = experiment_.topology;
  for (std::uint32_t h = 0; h < t.hosts().size(); ++h) {
    datagram_hosts_.push_back(std::make_unique<DatagramHost>(
        HostWire::Parts{t.hosts()[h], host_device(h), pool_, *host_up_[h], home_of_host(h).events()}, *this));
    host_down_[h]->connect(*datagram_hosts_.back(), 0);
    ends_.push_back(datagram_hosts_.back().get());
  }
  const std::uint64_t datagram = experiment_.qp.path_mtu;
  for (const Transfer& transfer : experiment_.plan.transfers) {
    datagrams_left_.push_back((transfer.bytes + datagram - 1) / datagram);
  }
}

void Simulation::post_datagrams(TimeNs now, std::uint32_t index) {
  const Transfer& t = experiment_.plan.transfers[index];
  const HostPlan& own = experiment_.topology.hosts()[t.from];
  DatagramHost::Message message;
  message.number = index;
  message.bytes = t.bytes;
  message.datagram = experiment_.qp.path_mtu;
  message.to = experiment_.topology.hosts()[t.to].address;
  message.gateway = experiment_.topology.switches()[own.tor].ports[own.port].mac;
  datagram_hosts_[t.from]->send(now, message);
}

// With nobody to acknowledge it, a transfer has ended for its sender when it has for its receiver.
void Simulation::datagram_arrived(TimeNs now, std::uint32_t index) {
  const Transfer& t = experiment_.plan.transfers[index];
  PartitionCounters& counters = home_of_host(t.to).counters();
  ++counters.datagrams;
  if (--datagrams_left_[index] != 0) return;
  times_[index].received = times_[index].acked = now;
  ++counters.ended;
  release(now, t.after_received);
  release(now, t.after_sent);
}

// What was lost is never sent again: transfers that miss it do not end, and neither do those that wait for them.
bool Simulation::datagrams_stopped() const {
  if (!experiment_.datagrams) return false;
  const auto starts_later = [](const auto& starts) { return starts->next < starts->transfers.size(); };
  if (std::any_of(starts_.begin(), starts_.end(), starts_later)) return false;
  const bool at_hosts = std::any_of(ends_.begin(), ends_.end(), [](const HostWire* h) { return h->busy(); });
  const bool on_links = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->held() != 0; });
  const bool in_switches =
      std::any_of(switches_.begin(), switches_.end(), [](const auto& sw) { return sw->held() != 0; });
  return !at_hosts && !on_links && !in_switches;
}

}  // namespace weft::sim
