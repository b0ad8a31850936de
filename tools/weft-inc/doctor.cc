// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `weft-inc doctor`: can programs of this host use the switches, and if not, what is missing.
#include "tools/weft-inc/doctor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "collectives/comm/context.h"
#include "collectives/comm/daemon_link.h"
#include "collectives/manager/inc.pb.h"
#include "nic/host/host.h"
#include "nic/host/neighbours.h"
#include "tools/weft-inc/commands.h"
#include "tools/weft-inc/findings.h"
#include "tools/weft-inc/probe.h"

namespace weft::inc_tool {
namespace {

constexpr nic::Time kNeighbourTime = 2000 * nic::kMs, kLook = 20 * nic::kMs;
/// Other hosts with which a group is tried.
constexpr std::size_t kMostOthers = 4;

class Doctor {
 public:
  Doctor(const Options& manager, const DoctorOptions& own) : manager_(manager), own_(own) {}

  int run() {
    if (look_at_rnic()) look_at_mtu();
    look_at_daemon();
    look_at_manager();
    bool fine = true;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Finding& f : findings_) {
      fine = fine && f.fine.value_or(true);
      nlohmann::json as_json = f.fine ? nlohmann::json(*f.fine) : nlohmann::json(nullptr);
      all.push_back({{"check", f.name}, {"fine", as_json}, {"detail", f.detail}});
      const char* verdict = !f.fine ? "?" : *f.fine ? "ok" : "NO";
      if (!manager_.json) std::printf("%-8s %-4s %s\n", f.name.c_str(), verdict, f.detail.c_str());
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
    inc::comm::ContextSettings settings;
    settings.interface = own_.interface;
    settings.device = own_.device;
    if (!own_.address.empty()) {
      settings.address = wire::IpAddress::parse(own_.address);
      if (!settings.address) return find("rnic", false, "'" + own_.address + "' is no IP address");
    }
    std::string why;
    auto opened = inc::comm::open_transport(settings, why);
    if (!why.empty()) return find("rnic", false, why);
    try {
      static_cast<void>(opened->create_qp({}));
    } catch (const inc::comm::TransportError& error) {
      return find("rnic", false, error.what());
    }
    transport_ = std::move(opened);
    return find("rnic", true,
                (own_.device.empty() ? "a software RNIC on " + transport_->name() : own_.device) + " has " +
                    transport_->gid().address.to_string());
  }

  void look_at_mtu() {
    const std::uint32_t largest = transport_->largest_mtu();
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
    if (!find("manager", !error, error.value_or("it answers")) || transport_ == nullptr) return;
    look_at_gid(topology);
    for (const auto& link : topology.links()) {
      if (is_ours(link)) return look_at_switch(client, topology, link);
    }
    find("host", false, "the manager knows no host with the address " + transport_->gid().address.to_string());
  }

  [[nodiscard]] bool is_ours(const inc::v1::ShowTopologyReply::Link& link) const {
    return wire::IpAddress::parse(link.lower_address()) == transport_->gid().address;
  }

  void look_at_gid(const inc::v1::ShowTopologyReply& topology) {
    std::vector<KnownHost> known;
    for (const auto& link : topology.links()) {
      const auto address = wire::IpAddress::parse(link.lower_address());
      if (address && is_host(topology, link.lower())) known.push_back({link.lower(), *address});
    }
    findings_.push_back(gid_finding(transport_->name(), transport_->gid(), transport_->gids(), known));
  }

  static bool is_host(const inc::v1::ShowTopologyReply& topology, const std::string& name) {
    return std::any_of(topology.nodes().begin(), topology.nodes().end(),
                       [&](const auto& node) { return node.name() == name && node.tier() == 0; });
  }

  void look_at_switch(inc::manager::Client& client, const inc::v1::ShowTopologyReply& topology,
                      const inc::v1::ShowTopologyReply::Link& link) {
    find("host", true, "the manager knows it as " + link.lower());
    bool up = false;
    for (const auto& node : topology.nodes()) up = up || (node.name() == link.upper() && node.up());
    find("switch", up, link.upper() + (up ? " answers the manager" : " does not answer the manager"));
    const auto to = wire::IpAddress::parse(link.upper_address());
    const bool reached = to && reach(*to);
    find("path", reached, link.upper_address() + (reached ? " is a neighbour" : " does not answer ARP or ND"));
    if (up && reached) look_at_icrc(client, topology, link);
  }

  void look_at_icrc(inc::manager::Client& client, const inc::v1::ShowTopologyReply& topology,
                    const inc::v1::ShowTopologyReply::Link& ours) {
    ProbePlan plan{ours.upper(), {}};
    // Of hosts at the same switch first: the others need further switches.
    for (const bool same : {true, false}) {
      for (const auto& link : topology.links()) {
        if (plan.others.size() == kMostOthers) break;
        const bool other = is_host(topology, link.lower()) && link.lower() != ours.lower();
        if (other && (link.upper() == ours.upper()) == same) plan.others.push_back(link.lower_address());
      }
    }
    const auto came = probe_icrc(*transport_, client, plan);
    if (const auto* facts = std::get_if<IcrcFacts>(&came)) {
      findings_.push_back(icrc_finding(*facts));
    } else {
      findings_.push_back({"icrc", std::nullopt, std::get<std::string>(came)});
    }
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
  std::unique_ptr<inc::comm::RunningTransport> transport_;  ///< null: there is none
  std::vector<Finding> findings_;
};

}  // namespace

int run_doctor(const Options& manager, const DoctorOptions& own) {
  return Doctor(manager, own).run();
}

}  // namespace weft::inc_tool
