// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-inc: what the manager of in-network collectives does, and groups by hand.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "switch/config/command_line.h"
#include "tools/weft-inc/commands.h"
#include "tools/weft-inc/doctor.h"
#include "tools/weft-inc/perf_options.h"

namespace weft::inc_tool {
namespace {

constexpr std::chrono::milliseconds kCallTime{30'000};

void add_group_options(CLI::App& to, Options& o) {
  to.add_option("--mode", o.mode, "i, ii or iii; default: ii")->check(CLI::IsMember({"i", "ii", "iii"}));
  to.add_option("--mtu", o.mtu, "Payload of a full packet in bytes; default: 1024");
  to.add_option("--message-packets", o.message_packets, "Packets of a full message; default: 4");
  to.add_option("--window", o.window, "Messages that a rank can have under way; default: 4");
  to.add_option("--least-window", o.least_window, "Fewer are of no use; default: 1");
  to.add_option("--rate-mbps", o.rate_mbps, "To be set aside on each link");
  to.add_option("--prefer", o.prefer, "Of several trees the shallowest (latency) or the widest (bandwidth)")
      ->check(CLI::IsMember({"latency", "bandwidth"}));
  to.add_flag("--reproducible", o.reproducible, "Sums are the same to the last bit whatever the order of arrival");
}

using Run = int (*)(const Options&);

int main_checked(int argc, char** argv) {
  Options o;
  Run run = nullptr;
  CLI::App app("Groups of in-network collectives, as weft-inc-manager has them.", "weft-inc");
  app.set_version_flag("--version", WEFT_VERSION);
  app.require_subcommand(1);
  app.add_option("--socket", o.socket, "The manager's socket")->capture_default_str();
  auto* address =
      app.add_option("--address", o.address, "HOST:PORT of a manager on another machine, or of several: A,B");
  auto* cert = app.add_option("--cert", o.files.certificate, "PEM file with the own certificate");
  auto* key = app.add_option("--key", o.files.key, "PEM file with its private key");
  auto* ca = app.add_option("--ca", o.files.authority, "PEM file with the authorities of the manager's certificate");
  address->needs(cert, key, ca);
  app.add_flag("--json", o.json, "Print the manager's answers");

  const auto command = [&](CLI::App& parent, const char* name, const char* what, Run does) {
    CLI::App* sub = parent.add_subcommand(name, what);
    sub->fallthrough();
    sub->callback([&run, does] { run = does; });
    return sub;
  };
  CLI::App& group = *app.add_subcommand("group", "Groups that there are");
  group.require_subcommand(1);
  group.fallthrough();
  command(group, "list", "All groups", list_groups);
  auto* show = command(group, "show", "A group, its switches and ranks", show_group);
  auto* why = command(group, "explain", "What has become of a group, in sentences", explain_group);
  auto* destroy = command(group, "destroy", "Ends a group", destroy_group);
  for (auto* sub : {show, why, destroy}) {
    sub->add_option("GROUP", o.group, "Number of the group")->required();
    sub->add_option("--generation", o.generation, "Only if it has this generation");
  }
  auto* create =
      command(group, "create", "Makes a group of ranks whose lines are read from standard input", create_group);
  create->add_option("--group", o.group, "Number of the group; default: any");
  create->add_flag("--hold", o.hold, "Renew its lease until the input ends, and then destroy it");
  add_group_options(*create, o);
  auto* dry = command(app, "explain", "What would become of a group of hosts, and why", explain_hosts);
  dry->add_option("HOST", o.hosts, "Names or addresses of hosts, in the order of ranks")->required();
  add_group_options(*dry, o);
  add_rhythm(*dry, o.rhythm);
  auto* topology = command(app, "topology", "Switches, hosts and links, with what groups have of them", show_topology);
  topology->add_option("--svg", o.svg, "Draw it into this file")->type_name("FILE");
  auto* top =
      command(app, "top", "What running groups do: collectives and bytes a second, and who waits for whom", show_top);
  top->add_option("-i,--interval", o.interval_s, "Seconds from one look at the switches to the next")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  top->add_option("-n,--count", o.count, "Print so many times; default: until Ctrl-C");
  auto* agent = command(app, "agent",
                        "Tells the manager what is heard by LLDP at the ports of a switch, again and again", run_agent);
  agent->add_option("--switch", o.node, "The switch, as in the manager's file")->required();
  agent->add_option("--period-s", o.period_s, "Seconds from one report to the next")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  agent->add_flag("--once", o.once, "Report once; the exit status says what came of it");
  agent->add_option("--lldpcli", o.lldpcli, "The program of lldpd")->capture_default_str();
  agent->add_option("--lldp-socket", o.lldp_socket, "Socket of lldpd; default: its own");
  agent
      ->add_option("--control", o.control,
                   "Control socket of weft-switch, whose stage lldp is asked in place of lldpd and ip; the switch has "
                   "the same name there")
      ->type_name("SOCKET");
  agent->add_option("--rate-mbps", o.rate_mbps, "Of each port; default: 100000");
  DoctorOptions patient;
  auto* doctor =
      app.add_subcommand("doctor", "Can programs of this host use the switches, and if not, what is missing");
  doctor->fallthrough();
  doctor->add_option("--rnic", patient.address, "Address of the RNIC; default: the first of the interface or device");
  doctor->add_option("--interface", patient.interface, "Interface; default: the only one that is up");
  doctor->add_option("--device", patient.device, "Device of libibverbs; default: weft's own RNIC, on an interface");
  doctor->add_option("--daemon", patient.daemon,
                     "Socket of weft-incd; default: $WEFT_INC_SOCKET, or /run/weft/incd.sock");
  PerfOptions measured;
  auto* perf = app.add_subcommand("perf", "Measures collectives, by switches or by hosts: one rank");
  add_perf_options(*perf, measured);
  perf->add_flag("--json", measured.json, "Print numbers as JSON in place of the table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return config::end_of_parsing(app, error);
  }
  if (doctor->parsed()) return run_doctor(o, patient);
  if (perf->parsed()) return run_perf(measured);
  return run(o);
}

}  // namespace

std::optional<std::string> reach(const Options& o, inc::manager::Client& client, std::chrono::milliseconds call_time,
                                 std::size_t first) {
  return o.address.empty() ? client.connect(o.socket, call_time)
                           : client.connect_tls(o.address, o.files, call_time, first);
}

bool connect(const Options& o, inc::manager::Client& client) {
  const auto error = reach(o, client, kCallTime);
  if (error) fail(*error, kExitUnreachable);
  return !error;
}

int fail(const std::string& sentence, ExitStatus status) {
  std::fprintf(stderr, "weft-inc: %s\n", sentence.c_str());
  return status;
}

}  // namespace weft::inc_tool

int main(int argc, char** argv) {
  return weft::inc_tool::main_checked(argc, argv);
}
