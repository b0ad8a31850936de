// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `weft-inc doctor`: can programs of this host use the switches, and if not, what is missing.
#include "tools/weft-inc/doctor.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "collectives/comm/daemon_link.h"
#include "collectives/comm/weft_inc.h"
#include "collectives/manager/inc.pb.h"
#include "nic/host/host.h"
#include "nic/host/neighbours.h"
#include "tools/weft-inc/commands.h"

namespace weft::inc_tool {
namespace {

constexpr nic::Time kNeighbourTime = 2000 * nic::kMs, kLook = 20 * nic::kMs;

struct Finding {
  std::string name;
  bool fine = false;
  std::string detail;
};

class Doctor {
 public:
  Doctor(const Options& manager, const DoctorOptions& own) : manager_(manager), own_(own) {}

  int run() {
    if (look_at_rnic()) look_at_mtu();
    look_at_daemon();
    look_at_manager();
    weft_inc_close(context_);
    bool fine = true;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Finding& f : findings_) {
      fine = fine && f.fine;
      all.push_back({{"check", f.name}, {"fine", f.fine}, {"detail", f.detail}});
      if (!manager_.json) std::printf("%-8s %-4s %s\n", f.name.c_str(), f.fine ? "ok" : "NO", f.detail.c_str());
    }
    if (manager_.json) std::printf("%s\n", all.dump(2).c_str());
    return fine ? kExitFine : kExitFailed;
  }

 private:
  bool find(const char* name, bool fine, const std::string& detail) {
    findings_.push_back({name, fine, detail});
    return fine;
  }

  bool look_at_rnic() {
    const weft_inc_options options{given(own_.address), given(own_.interface), "", given(own_.device), 0, 0};
    if (weft_inc_open(&options, &context_) != WEFT_INC_OK) return find("rnic", false, weft_inc_last_error());
    weft_inc_group_options smallest{};
    smallest.mtu = 256;
    weft_inc_handle handle;
    weft_inc_group* group = nullptr;
    weft_inc_member member{};
    if (weft_inc_group_create(context_, &smallest, 0, 1, &handle, &group) == WEFT_INC_OK &&
        weft_inc_group_member(group, &member) == WEFT_INC_OK) {
      address_ = member.address;
    }
    weft_inc_group_destroy(group);
    if (address_.empty()) return find("rnic", false, weft_inc_last_error());
    return find("rnic", true, (own_.device.empty() ? "a software RNIC" : own_.device) + " has " + address_);
  }

  void look_at_mtu() {
    weft_inc_group_options wanted{};
    std::uint32_t largest = 0;
    for (wanted.mtu = 256; wanted.mtu <= 4096; wanted.mtu *= 2) {
      weft_inc_handle handle;
      weft_inc_group* group = nullptr;
      if (weft_inc_group_create(context_, &wanted, 0, 1, &handle, &group) == WEFT_INC_OK) largest = wanted.mtu;
      weft_inc_group_destroy(group);
    }
    find("mtu", largest >= 1024, "packets of " + std::to_string(largest) + " bytes fit; groups have 1024 by default");
  }

  void look_at_daemon() {
    const char* named = std::getenv("WEFT_INC_SOCKET");
    const std::string path = !own_.daemon.empty() ? own_.daemon
                             : named != nullptr   ? named
                                                  : std::string(inc::comm::kDaemonSocket);
    inc::comm::DaemonLink link(path);
    link.connect();
    find("daemon", link.connected(),
         link.connected() ? "weft-incd answers at " + path : "nobody answers at " + path + ": start weft-incd");
  }

  void look_at_manager() {
    inc::manager::Client client;
    constexpr std::chrono::milliseconds kTime{5000};
    inc::v1::ShowTopologyReply topology;
    auto error = inc_tool::reach(manager_, client, kTime);
    if (!error) error = client.topology(topology);
    if (!find("manager", !error, error.value_or("it answers")) || address_.empty()) return;
    for (const auto& link : topology.links()) {
      if (link.lower_address() == address_) return look_at_switch(topology, link);
    }
    find("host", false, "the manager knows no host with the address " + address_);
  }

  void look_at_switch(const inc::v1::ShowTopologyReply& topology, const inc::v1::ShowTopologyReply::Link& link) {
    find("host", true, "the manager knows it as " + link.lower());
    bool up = false;
    for (const auto& node : topology.nodes()) up = up || (node.name() == link.upper() && node.up());
    find("switch", up, link.upper() + (up ? " answers the manager" : " does not answer the manager"));
    const auto to = wire::IpAddress::parse(link.upper_address());
    const bool reached = to && reach(*to);
    find("path", reached, link.upper_address() + (reached ? " is a neighbour" : " does not answer ARP or ND"));
  }

  /// The kernel finds the neighbour's address, as it must for the RNIC.
  static bool reach(const wire::IpAddress& to) {
    const auto route = nic::find_route(to);
    if (!route) return false;
    nic::ask_for_neighbour(route->interface, route->gateway);
    const nic::Time end = nic::monotonic_now() + kNeighbourTime;
    while (!nic::find_neighbour(route->interface, route->gateway)) {
      if (nic::monotonic_now() > end) return false;
      const timespec pause{0, kLook};
      nanosleep(&pause, nullptr);
    }
    return true;
  }

  const Options& manager_;
  const DoctorOptions& own_;
  weft_inc_context* context_ = nullptr;
  std::string address_;
  std::vector<Finding> findings_;
};

}  // namespace

int run_doctor(const Options& manager, const DoctorOptions& own) {
  return Doctor(manager, own).run();
}

}  // namespace weft::inc_tool
