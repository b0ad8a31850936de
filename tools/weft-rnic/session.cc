// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-rnic/session.h"

#include <csignal>

#include <algorithm>
#include <random>

#include "nic/host/neighbours.h"

namespace weft::rnic_tool {
namespace {

volatile std::sig_atomic_t signal_came = 0;

constexpr std::chrono::seconds kNeighbourLimit{3};

std::uint64_t fresh_seed() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

Failure usage(const std::string& message) {
  return {kExitUsage, message};
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
    if (options.interface.empty()) return Failure{kExitUnreachable, "no route to " + options.server};
    if (options.address.empty() && !route->source.is_unspecified()) options.address = route->source.to_string();
    return std::nullopt;
  }
  if (!options.address.empty()) {
    for (const auto& name : names) {
      const auto info = nic::find_interface(name);
      for (const auto& a : info->addresses) {
        if (a.to_string() == options.address) options.interface = name;
      }
    }
    if (!options.interface.empty()) return std::nullopt;
    return usage("no interface has the address " + options.address);
  }
  if (names.size() == 1) {
    options.interface = names[0];
    return std::nullopt;
  }
  return usage(names.empty() ? "no interface is up and has an address"
                             : "there are several interfaces: choose one by --interface");
}

std::optional<Failure> Session::open(Options& options) {
  if (auto failure = choose_interface(options)) return failure;
  if (const auto problem = host_.open(options.interface); !problem.empty()) return Failure{kExitFailed, problem};
  const auto& info = host_.port().info();
  if (info.addresses.empty()) return usage(options.interface + " has no IP address");
  std::optional<wire::IpAddress> address;
  if (options.address.empty()) {
    const auto server = wire::IpAddress::parse(options.server);
    const auto fits = [&](const wire::IpAddress& a) { return !server || a.is_v6() == server->is_v6(); };
    const auto found = std::find_if(info.addresses.begin(), info.addresses.end(), fits);
    if (found != info.addresses.end()) address = *found;
  } else {
    address = wire::IpAddress::parse(options.address);
    if (std::find(info.addresses.begin(), info.addresses.end(), address) == info.addresses.end()) address.reset();
  }
  if (!address) return usage(options.interface + " has no such address");
  const std::uint32_t most = nic::path_mtu_for(info.mtu, address->is_v6());
  if (most == 0) return usage("the MTU of " + options.interface + " is too small for RoCE");
  if (options.qp.path_mtu == 0) options.qp.path_mtu = most;
  if (options.qp.path_mtu > most) {
    return usage("an MTU of " + std::to_string(info.mtu) + " allows a path MTU of " + std::to_string(most) +
                 " at most");
  }
  device_ = &host_.add_device(*address, fresh_seed());
  pd_ = device_->alloc_pd();
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
  if (!route || route->interface != index) {
    return Failure{kExitUnreachable, "no route to " + options.server + " over " + options.interface};
  }
  const auto mac = nic::resolve_neighbour(index, route->gateway, kNeighbourLimit);
  if (!mac)
    return Failure{kExitUnreachable, route->gateway.to_string() + " does not answer ARP or neighbour discovery"};
  target = {*to, *mac, options.port};
  return std::nullopt;
}

std::optional<Failure> Session::connect(const Options& options, nic::Qp& qp, std::span<const std::uint8_t> private_data,
                                        nic::CmEvent& answer) {
  if (!target_) {
    nic::CmTarget target;
    if (auto failure = find_server(options, target)) return failure;
    target_ = target;
  }
  const nic::CmId id = device_->cm().connect(nic::monotonic_now(), qp, *target_, private_data);
  bool there = false;
  run_until(
      [&] {
        while (const auto event = device_->cm().poll_event()) {
          if (event->id != id) continue;
          answer = *event;
          there = true;
        }
        return there;
      },
      options.timeout_s);
  if (!there) return Failure{kExitUnreachable, interrupted() ? "interrupted" : options.server + " does not answer"};
  if (answer.kind == nic::CmEvent::Kind::established) {
    connections_.push_back(id);
    return std::nullopt;
  }
  const bool nobody = answer.reason == wire::CmRejectReason::invalid_service_id;
  return Failure{kExitUnreachable, nobody
                                       ? "nobody listens at " + options.server + " port " + std::to_string(options.port)
                                       : options.server + ": connection " + std::string(name(answer.kind)) +
                                             ", reason " + std::to_string(static_cast<int>(answer.reason))};
}

void Session::disconnect_all() {
  for (const auto id : connections_) device_->cm().disconnect(nic::monotonic_now(), id);
  std::size_t left = connections_.size();
  host_.run_until(
      [&] {
        while (const auto event = device_->cm().poll_event()) {
          left -= event->kind == nic::CmEvent::Kind::disconnected && left > 0 ? 1 : 0;
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
  if (const auto* dcqcn = qp.rate().dcqcn()) {
    j["rate_cuts"] = dcqcn->cuts();
    j["rate_increases"] = dcqcn->increases();
    j["rate_gbps"] = qp.rate().rate_bps(nic::monotonic_now()) / 1e9;
  }
  return j;
}

}  // namespace weft::rnic_tool
