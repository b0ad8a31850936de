// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-rnic/session.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "nic/dpdk/dpdk_port.h"
#include "nic/dpdk/eal.h"
#include "nic/host/neighbours.h"
#include "switch/system/entropy.h"
#include "switch/wire/telemetry.h"

namespace weft::rnic_tool {
namespace {

volatile std::sig_atomic_t signal_came = 0;

constexpr nic::Time kNeighbourLook = 10 * nic::kMs, kNeighbourQuestion = 500 * nic::kMs;

Failure usage(const std::string& message) {
  return {kExitUsage, message};
}

// A loopback interface has no neighbours and sends no Ethernet frames to anybody.
bool is_loopback(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return false;
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool loopback = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_LOOPBACK) != 0;
  close(fd);
  return loopback;
}

/// @param over  " over " and an interface, or nothing
Failure no_way(const wire::IpAddress& to, const std::string& over) {
  const std::string address = to.to_string();
  if (!nic::is_own_address(to)) return {kExitUnreachable, "no route to " + address + over};
  return {kExitUnreachable, address + " is an address of this network namespace, to which the kernel sends nothing" +
                                over + ": start the two ends in two namespaces, with ip netns exec"};
}

}  // namespace

bool interrupted() noexcept {
  return signal_came != 0;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { signal_came = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

/// By name, by the way to the server, by our address, or because there is no other.
std::optional<Failure> Session::choose_interface(Options& options) {
  if (!options.interface.empty()) return std::nullopt;
  const auto names = nic::usable_interfaces();
  if (!options.server.empty()) {
    const auto to = wire::IpAddress::parse(options.server);
    if (!to) return usage("'" + options.server + "' is no IP address");
    const auto route = nic::find_route(*to);
    for (const auto& name : names) {
      if (route && nic::find_interface(name)->index == route->interface) options.interface = name;
    }
    if (options.interface.empty()) return no_way(*to, "");
    if (options.addresses.empty() && !route->source.is_unspecified()) options.addresses = {route->source.to_string()};
    return std::nullopt;
  }
  if (!options.addresses.empty()) {
    for (const auto& name : names) {
      const auto info = nic::find_interface(name);
      for (const auto& a : info->addresses) {
        if (a.to_string() == options.addresses[0]) options.interface = name;
      }
    }
    if (!options.interface.empty()) return std::nullopt;
    return usage("no interface has the address " + options.addresses[0]);
  }
  if (names.size() == 1) {
    options.interface = names[0];
    return std::nullopt;
  }
  return usage(names.empty() ? "no interface is up and has an address"
                             : "there are several interfaces: choose one by --interface");
}

Session::~Session() {
  unmap_guard_.reset();
  host_.close();
  if (dpdk_) nic::stop_eal();
}

/// A DPDK device, with a tap interface for the kernel beside it.
std::optional<Failure> Session::open_device(Options& options) {
  std::vector<wire::IpPrefix> prefixes;
  for (const std::string& text : options.addresses) {
    const auto prefix = wire::IpPrefix::parse(text);
    if (!prefix) return usage("'" + text + "' is no address with the length of its prefix, as 10.0.0.2/24 is");
    prefixes.push_back(*prefix);
  }
  if (prefixes.empty()) return usage("a device needs --address, as 10.0.0.2/24");
  if (const auto problem = nic::start_eal("weft-rnic", options.device); !problem.empty())
    return Failure{kExitFailed, problem};
  dpdk_ = true;
  auto port = std::make_unique<nic::DpdkPort>();
  std::string problem = port->open({options.device, options.device_mtu});
  if (problem.empty()) {
    problem = port->add_kernel_tap(options.interface.empty() ? "rnic%d" : options.interface, prefixes);
  }
  if (!problem.empty()) return Failure{kExitFailed, problem};
  options.interface = port->name();
  options.addresses.clear();
  for (const auto& prefix : prefixes) options.addresses.push_back(prefix.address.to_string());
  unmap_guard_.emplace([device = port.get()] { device->await_burst(); });
  host_.open(std::move(port));
  const bool connected =
      run_until([&] { return host_.port().link_up(); }, options.server.empty() ? 1 : options.timeout_s);
  if (connected) return std::nullopt;
  if (!options.server.empty()) return Failure{kExitUnreachable, "nobody is at the other end of " + options.device};
  std::fprintf(stderr, "weft-rnic: waiting for the other end of %s\n", options.device.c_str());
  return std::nullopt;
}

/// The addresses asked for, which the interface must have, or its first that can reach the server.
std::optional<Failure> Session::our_addresses(const Options& options, std::vector<wire::IpAddress>& all) const {
  const auto& info = host_.port().info();
  if (info.addresses.empty()) return usage(options.interface + " has no IP address");
  for (const std::string& text : options.addresses) {
    // A prefix length says nothing new where the kernel has the address.
    const auto address = wire::IpAddress::parse(text.substr(0, text.find('/')));
    if (!address || std::find(info.addresses.begin(), info.addresses.end(), *address) == info.addresses.end()) {
      return usage(options.interface + " has no address " + text);
    }
    if (std::find(all.begin(), all.end(), *address) != all.end()) return usage(text + " is there twice");
    all.push_back(*address);
  }
  if (!all.empty()) return std::nullopt;
  const auto server = wire::IpAddress::parse(options.server);
  const auto fits = [&](const wire::IpAddress& a) { return !server || a.is_v6() == server->is_v6(); };
  const auto found = std::find_if(info.addresses.begin(), info.addresses.end(), fits);
  if (found == info.addresses.end()) return usage(options.interface + " has no such address");
  all.push_back(*found);
  return std::nullopt;
}

std::optional<Failure> Session::choose_mtu(Options& options, bool ipv6) const {
  const std::uint32_t mtu = host_.port().info().mtu;
  const bool telemetry = options.qp.congestion_control == nic::CongestionControl::hpcc && !ipv6;
  const std::uint32_t most = nic::path_mtu_for(mtu, ipv6, telemetry ? std::uint32_t{wire::kIntOptionBytes} : 0);
  if (most == 0) return usage("the MTU of " + options.interface + " is too small for RoCE");
  if (options.qp.path_mtu == 0) options.qp.path_mtu = most;
  if (options.qp.path_mtu <= most) return std::nullopt;
  return usage("an MTU of " + std::to_string(mtu) + " allows a path MTU of " + std::to_string(most) + " at most");
}

std::optional<Failure> Session::open(Options& options) {
  if (!options.device.empty()) {
    if (auto failure = open_device(options)) return failure;
  } else {
    if (auto failure = choose_interface(options)) return failure;
    if (is_loopback(options.interface)) {
      return usage(options.interface +
                   " is a loopback interface, which has no wire: use two namespaces and a veth pair");
    }
    if (const auto problem = host_.open(options.interface); !problem.empty()) return Failure{kExitFailed, problem};
  }
  std::vector<wire::IpAddress> addresses;
  if (auto failure = our_addresses(options, addresses)) return failure;
  if (auto failure = choose_mtu(options, addresses[0].is_v6())) return failure;
  for (const auto& address : addresses) pd_ = host_.add_device(address, fresh_seed()).alloc_pd();
  return std::nullopt;
}

bool Session::run_until(const std::function<bool()>& condition, double seconds) {
  const auto limit = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  bool reached = false;
  host_.run_until([&] { return (reached = condition()) || interrupted(); }, limit);
  return reached;
}

std::optional<Failure> Session::find_server(const Options& options, nic::CmTarget& target) {
  const auto to = wire::IpAddress::parse(options.server);
  if (!to) return usage("'" + options.server + "' is no IP address");
  const auto route = nic::find_route(*to);
  const unsigned index = host_.port().info().index;
  if (!route || route->interface != index) return no_way(*to, " over " + options.interface);
  std::optional<wire::MacAddress> mac;
  nic::Time next_look = 0, next_question = 0;
  // The loop runs meanwhile: the answer may come in by it.
  run_until(
      [&] {
        const nic::Time now = nic::monotonic_now();
        if (now < next_look) return false;
        next_look = now + kNeighbourLook;
        if ((mac = nic::find_neighbour(index, route->gateway))) return true;
        if (now >= next_question) {
          next_question = now + kNeighbourQuestion;
          nic::ask_for_neighbour(index, route->gateway);
        }
        return false;
      },
      options.timeout_s);
  if (!mac) {
    return Failure{kExitUnreachable, route->gateway.to_string() + " does not answer ARP or neighbour discovery"};
  }
  target = {*to, *mac, options.port};
  return std::nullopt;
}

std::optional<Failure> Session::connect(const Options& options, nic::Device& device, nic::Qp& qp,
                                        std::span<const std::uint8_t> private_data, nic::CmEvent& answer) {
  if (!target_) {
    nic::CmTarget target;
    if (auto failure = find_server(options, target)) return failure;
    target_ = target;
  }
  const nic::CmId id = device.cm().connect(nic::monotonic_now(), qp, *target_, private_data);
  bool there = false;
  run_until(
      [&] {
        while (const auto event = device.cm().poll_event()) {
          if (event->id != id) continue;
          answer = *event;
          there = true;
        }
        return there;
      },
      options.timeout_s);
  if (!there) return Failure{kExitUnreachable, interrupted() ? "interrupted" : options.server + " does not answer"};
  if (answer.kind == nic::CmEvent::Kind::established) {
    connections_.push_back({&device, id});
    return std::nullopt;
  }
  const bool nobody = answer.reason == wire::CmRejectReason::invalid_service_id;
  return Failure{kExitUnreachable, nobody
                                       ? "nobody listens at " + options.server + " port " + std::to_string(options.port)
                                       : options.server + ": connection " + std::string(name(answer.kind)) +
                                             ", reason " + std::to_string(static_cast<int>(answer.reason))};
}

void Session::disconnect_all() {
  for (const auto& c : connections_) c.device->cm().disconnect(nic::monotonic_now(), c.id);
  std::size_t left = connections_.size();
  host_.run_until(
      [&] {
        for (const auto& device : host_.devices()) {
          while (const auto event = device->cm().poll_event()) {
            left -= event->kind == nic::CmEvent::Kind::disconnected && left > 0 ? 1 : 0;
          }
        }
        return left == 0;
      },
      std::chrono::seconds(3));
  connections_.clear();
}

nlohmann::ordered_json describe(nic::Qp& qp) {
  const auto& s = qp.requester().counters();
  const auto& r = qp.responder().counters();
  nlohmann::ordered_json j;
  j["qpn"] = qp.qpn().value();
  j["peer_qpn"] = qp.peer().qpn.value();
  j["state"] = name(qp.state());
  j["path_mtu"] = qp.config().path_mtu;
  j["loss_recovery"] = name(qp.config().loss_recovery);
  j["request_packets"] = s.packets;
  j["request_bytes"] = s.bytes;
  j["retransmitted"] = s.retransmitted;
  j["acks"] = s.acks;
  j["naks"] = s.naks_sequence;
  j["rnr_naks"] = s.naks_rnr;
  j["fatal_naks"] = s.naks_fatal;
  j["implied_naks"] = s.implied_naks;
  j["timeouts"] = s.timeouts;
  j["stale_responses"] = s.stale_responses;
  j["bad_responses"] = s.bad_responses;
  j["received_packets"] = r.packets;
  j["duplicates"] = r.duplicates;
  j["out_of_order"] = r.out_of_order;
  j["naks_sent"] = r.naks_sent;
  j["rnr_naks_sent"] = r.rnr_naks_sent;
  j["ce_marked"] = qp.counters().ce_marked;
  j["cnps_sent"] = qp.counters().cnps_sent;
  j["cnps"] = qp.counters().cnps_received;
  if (const auto changes = qp.rate().changes()) {
    j["rate_cuts"] = changes->cuts;
    j["rate_increases"] = changes->increases;
    j["rate_gbps"] = qp.rate().rate_bps(nic::monotonic_now()) / 1e9;
  }
  return j;
}

}  // namespace weft::rnic_tool
