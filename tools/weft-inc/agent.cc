// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-inc agent: tells the manager what lldpd, or the switch itself, hears at its ports.
#include <chrono>
#include <cstdio>
#include <thread>

#include "collectives/manager/inc.pb.h"
#include "collectives/manager/lldp.h"
#include "switch/api/client.h"
#include "tools/weft-inc/child.h"
#include "tools/weft-inc/commands.h"

namespace weft::inc_tool {

namespace v1 = inc::v1;

using inc::manager::NeighbourReport;

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

/// Of lldpd and the kernel's interfaces; nullopt, and why.
std::optional<NeighbourReport> look_at_lldpd(const Options& o, std::string& error) {
  const auto addresses = output_of({"ip", "-j", "address"}, kProgramTime, kMostBytes, error);
  const auto chassis = addresses ? lldpcli(o, {"show", "chassis"}, error) : std::nullopt;
  const auto heard = chassis ? lldpcli(o, {"show", "neighbors"}, error) : std::nullopt;
  if (!heard) return std::nullopt;
  auto ports = inc::manager::read_ports(*addresses);
  const auto own = inc::manager::read_own_chassis(*chassis);
  auto neighbours = inc::manager::read_neighbours(*heard);
  if (!ports || !own || !neighbours) {
    error = !ports ? "ip does not answer in JSON" : o.lldpcli + " does not answer in JSON; is lldpd running?";
    return std::nullopt;
  }
  return NeighbourReport{o.node, *own, std::move(*ports), std::move(*neighbours)};
}

/// Of a weft-switch that hears by itself.
std::optional<NeighbourReport> look_at_switch(const Options& o, std::string& error) {
  api::Client client;
  auto failed = client.connect(o.control, kProgramTime);
  const auto rows = [&](const char* table) {
    std::vector<std::string> out;
    api::ShowSummary summary;
    if (!failed) {
      failed = client.show(
          {table, o.node, 0}, [&](const std::string& row) { out.push_back(row); }, summary);
    }
    return out;
  };
  const auto ports = rows("lldp_ports"), neighbours = rows("lldp");
  if (failed) {
    error = failed->message;
    return std::nullopt;
  }
  auto out = inc::manager::read_switch_rows(ports, neighbours);
  if (!out) error = "the switch " + o.node + " at " + o.control + " does not say what it hears: has it the stage lldp?";
  if (out) out->node = o.node;
  return out;
}

v1::ReportNeighboursRequest message_of(const NeighbourReport& report, std::uint32_t rate_mbps) {
  v1::ReportNeighboursRequest out;
  out.set_node(report.node);
  out.set_chassis(report.chassis);
  for (const auto& p : report.ports) {
    auto* port = out.add_ports();
    port->set_name(p.name);
    port->set_mac(p.mac);
    port->set_rate_mbps(p.rate_mbps != 0 ? p.rate_mbps : rate_mbps);
    for (const auto& address : p.addresses) port->add_addresses(address.to_string());
  }
  for (const auto& n : report.neighbours) {
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
  const auto report = o.control.empty() ? look_at_lldpd(o, error) : look_at_switch(o, error);
  if (!report) return {error};
  inc::manager::Client client;
  status = kExitUnreachable;
  if (!connect(o, client)) return {};
  v1::ReportNeighboursReply reply;
  if (const auto why = client.report(message_of(*report, o.rate_mbps), reply)) {
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
