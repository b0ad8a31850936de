// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Keeps the tables of a switch as the kernel's are.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "switch/base/time.h"
#include "switch/kernel/netlink_socket.h"
#include "switch/kernel/route_mirror.h"
#include "switch/kernel/tap.h"
#include "switch/stages/l3/shared.h"

namespace weft::kernel {

/// Gives the time as the workers know it.
using Clock = std::function<TimeNs()>;

/// Applies what the kernel says of a neighbour; messages about other interfaces than the ports' change nothing.
void apply_neighbour(const NeighbourMessage& message, const PortByIndex& ports, stages::L3Shared& l3, TimeNs now);

/// A thread that reads everything once, then listens. Routes are collected: a new table is built when the socket is
/// empty, and the next one not before three times as long as that took has passed, so that a flood of changes costs a
/// quarter of a core and no worker anything.
class KernelTables {
 public:
  KernelTables(PortByIndex ports, Clock clock) : clock_(std::move(clock)), ports_(std::move(ports)) {}
  ~KernelTables() { stop(); }
  KernelTables(const KernelTables&) = delete;
  KernelTables& operator=(const KernelTables&) = delete;

  /// In the namespace of the ports' interfaces. Empty, or what went wrong.
  [[nodiscard]] std::string open();
  /// Fills the tables of `l3`, before start(). Takes as long as reading everything.
  void fill(stages::L3Shared& l3);
  /// Begins to keep the tables of `l3`, which outlives this or the next stop(). They have been filled.
  void start(stages::L3Shared& l3);
  void stop();
  /// Routes are given to l3 again, though the kernel's are the same: the MTU of a port has changed. Any thread.
  void publish_again();

 private:
  void run(stages::L3Shared& l3);
  void wait(TimeNs now) const;
  void listen(stages::L3Shared& l3);
  void handle(const nlmsghdr* message, stages::L3Shared& l3);
  bool read_all(stages::L3Shared& l3);
  void note_weights(const RouteMessage& route);
  void note_link(const LinkMessage& message);
  void note_address(const AddressMessage& message);
  void publish_addresses(stages::L3Shared& l3);
  void publish_routes(stages::L3Shared& l3);

  Clock clock_;
  PortByIndex ports_;
  NetlinkSocket events_, questions_;
  Descriptor wake_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> again_{false};

  RouteMirror routes_;
  std::set<std::pair<pipeline::PortIndex, wire::IpPrefix>> addresses_;
  std::map<int, LinkMessage> links_;  ///< by interface
  bool read_all_ = true;              ///< what is known may be wrong
  bool routes_changed_ = false;
  bool addresses_changed_ = false;
  bool full_ = false;  ///< the last table did not fit into memory
  bool weights_told_ = false;
  TimeNs next_publish_ = 0;
  TimeNs next_read_ = 0;
};

}  // namespace weft::kernel
