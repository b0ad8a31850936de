// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-inc agent: tells the manager what lldpd hears at the ports of a switch.
#include <chrono>
#include <cstdio>
#include <thread>

#include "collectives/manager/inc.pb.h"
#include "collectives/manager/lldp.h"
#include "tools/weft-inc/child.h"
#include "tools/weft-inc/commands.h"

namespace weft::inc_tool {

namespace v1 = inc::v1;

namespace {

constexpr std::chrono::milliseconds kProgramTime{5000};
constexpr std::size_t kMostBytes = 8 * 1024 * 1024;

std::optional<std::string> lldpcli(const Options& o, const std::vector<std::string>& words, std::string& error) {
  std::vector<std::string> command{o.lldpcli};
  if (!o.lldp_socket.empty()) command.insert(command.end(), {"-u", o.lldp_socket});
  command.insert(command.end(), {"-f", "json"});
  command.insert(command.end(), words.begin(), words.end());
  return output_of(command, kProgramTime, kMostBytes, error);
}

/// What is said of the ports and their neighbours; nullopt, and why.
std::optional<v1::ReportNeighboursRequest> look(const Options& o, std::string& error) {
  const auto addresses = output_of({"ip", "-j", "address"}, kProgramTime, kMostBytes, error);
  const auto chassis = addresses ? lldpcli(o, {"show", "chassis"}, error) : std::nullopt;
  const auto heard = chassis ? lldpcli(o, {"show", "neighbors"}, error) : std::nullopt;
  if (!heard) return std::nullopt;
  const auto ports = inc::manager::read_ports(*addresses);
  const auto own = inc::manager::read_own_chassis(*chassis);
  const auto neighbours = inc::manager::read_neighbours(*heard);
  if (!ports || !own || !neighbours) {
    error = !ports ? "ip does not answer in JSON" : o.lldpcli + " does not answer in JSON; is lldpd running?";
    return std::nullopt;
  }
  v1::ReportNeighboursRequest out;
  out.set_node(o.node);
  out.set_chassis(*own);
  for (const auto& p : *ports) {
    auto* port = out.add_ports();
    port->set_name(p.name);
    port->set_mac(p.mac);
    port->set_rate_mbps(o.rate_mbps);
    for (const auto& address : p.addresses) port->add_addresses(address.to_string());
  }
  for (const auto& n : *neighbours) {
    auto* neighbour = out.add_neighbours();
    neighbour->set_port(n.port);
    neighbour->set_chassis(n.chassis);
    neighbour->set_system(n.system);
    neighbour->set_peer_port(n.peer_port);
    neighbour->set_peer_description(n.peer_description);
  }
  return out;
}

/// What the manager says of a report, or why there is none.
std::vector<std::string> report_once(const Options& o, ExitStatus& status) {
  std::string error;
  status = kExitFailed;
  const auto request = look(o, error);
  if (!request) return {error};
  inc::manager::Client client;
  status = kExitUnreachable;
  if (!connect(o, client)) return {};
  v1::ReportNeighboursReply reply;
  if (const auto why = client.report(*request, reply)) {
    status = client.unanswered() ? kExitUnreachable : kExitFailed;
    return {*why};
  }
  status = kExitFine;
  return {reply.sentences().begin(), reply.sentences().end()};
}

}  // namespace

int run_agent(const Options& o) {
  std::vector<std::string> said;
  for (;;) {
    ExitStatus status = kExitFine;
    const auto sentences = report_once(o, status);
    // Once: who reads its output has read it before.
    if (sentences != said) {
      for (const auto& sentence : sentences) std::fprintf(stderr, "weft-inc: %s\n", sentence.c_str());
    }
    said = sentences;
    if (o.once) return status;
    std::this_thread::sleep_for(std::chrono::duration<double>(o.period_s));
  }
}

}  // namespace weft::inc_tool
