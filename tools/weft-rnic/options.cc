// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-rnic/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "collectives/engine/arithmetic.h"
#include "nic/dpdk/dpdk_port.h"
#include "nic/rnic/cc_constants.h"
#include "switch/config/command_line.h"

namespace weft::rnic_tool {
namespace {

constexpr const char* kAbout =
    "A software RNIC on a network interface: RoCEv2 measurements as perftest has them, and Linux's rping.\n"
    "It needs root, or CAP_NET_RAW and CAP_NET_ADMIN; the kernel keeps everything but UDP port 4791.";

constexpr const char* kExamples = R"(Examples:
  weft-rnic serve                              on one host: answers all of the tests, until Ctrl-C
  weft-rnic write_bw 10.0.0.1                  on another: 5000 messages of 64 KiB
  weft-rnic write_bw 10.0.0.1 -D 10 -q 4 --watch     four queue pairs for ten seconds, with progress
  weft-rnic send_lat 10.0.0.1 -s 64 -n 10000
  weft-rnic write_bw 10.0.0.1 --loss-recovery nic_sr --renack eager --rto-us 20000
  weft-rnic write_bw 10.0.0.1 --cc dcqcn --dcqcn longhaul --rate-gbps 5 --nack-is-cnp
  weft-rnic write_bw 10.0.0.1 --cc timely --cc-constant t_low_us=200,t_high_us=2000 --rate-gbps 5
  weft-rnic verify 10.0.0.1                    every opcode, sizes around every MTU boundary; data is compared
  weft-rnic serve --memif /run/weft/m0.sock --address 10.0.0.2/24    at a memif port of weft-switch
  weft-rnic inc 10.0.1.1 --rank 0 --ranks 4 --group 7      a rank; collectives/stage/README.md says more
  weft-rnic rping -s                           Linux: rping -c -a ADDRESS -v -V -C 10
  weft-rnic rping -c -a 10.0.0.2 -C 10 -V      Linux: rping -s -v -V

Counters:
  retransmitted  packets sent again            naks       NAKs of lost packets received
  spurious       of these, the server had them timeouts   answers that did not come in time
  cnps           congestion notifications      rate_cuts, rate_increases  by --cc

Exit status: 0 fine; 1 a test failed; 2 wrong usage; 3 the server cannot be reached.)";

/// What a command line needs and Options has in another form.
struct Raw {
  std::string loss_recovery = "gbn", renack = "lazy", cc = "none", rto_mode = "fixed", dcqcn_set;
  std::vector<std::string> constants;
  double rto_us = 67108.864, rto_low_us = 100, rto_high_us = 320;
  double rate_gbps = 0, pacing_slack_us = 500;
  std::uint32_t mtu = 0;
  unsigned tos = 0;
  bool server_role = false, client_role = false;
  std::string rping_address;
  std::string memif;
  unsigned memif_id = 0;
  unsigned qp_timeout = 0;
  unsigned outs = 0;
  bool rdma_cm = true;
  std::string watch;
};

void add_interface(CLI::App& app, Options& o, Raw& raw) {
  app.add_option("-i,--interface", o.interface, "Network interface (default: the one that leads to the server)")
      ->option_text("NAME");
  app.add_option("--address", o.addresses, "Our address (default: the interface's first); an RNIC for each")
      ->delimiter(',')
      ->option_text("IP[/LEN],...");
  auto* memif = app.add_option("--memif", raw.memif, "Instead of an interface: the memif of a switch (role: server)")
                    ->option_text("SOCKET");
  app.add_option("--memif-id", raw.memif_id, "Its id on that socket (default: 0)")->needs(memif)->option_text("N");
  app.add_option("--device", o.device, "Instead of an interface: any DPDK device, with its arguments")
      ->excludes(memif)
      ->option_text("DEVICE");
  app.add_option("--device-mtu", o.device_mtu, "MTU of the device (default: 4200)")
      ->check(CLI::Range(576u, 8000u))
      ->option_text("BYTES");
}

void add_transport(CLI::App& app, Options& o, Raw& raw) {
  auto& q = o.qp;
  app.add_option("-m,--mtu", raw.mtu, "Path MTU (default: what the interface allows)")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->option_text("BYTES");
  app.add_option("--loss-recovery", raw.loss_recovery, "gbn, nic_sr, irn or ideal (default: gbn)")
      ->check(CLI::IsMember({"gbn", "nic_sr", "irn", "ideal"}))
      ->option_text("NAME");
  app.add_option("--renack", raw.renack, "nic_sr: lazy or eager (default: lazy)")
      ->check(CLI::IsMember({"lazy", "eager"}))
      ->option_text("NAME");
  app.add_option("--reorder-window", q.reorder_window, "all but gbn: packets, a power of two (default: 512)")
      ->check(CLI::IsMember({64, 128, 256, 512, 1024, 2048, 4096}))
      ->option_text("N");
  app.add_option("--window", q.max_inflight_packets, "Packets under way per queue pair (default: 256)")
      ->check(CLI::Range(1, 1 << 20))
      ->option_text("N");
  app.add_option("--rto-mode", raw.rto_mode, "fixed, adaptive or irn (default: fixed)")
      ->check(CLI::IsMember({"fixed", "adaptive", "irn"}))
      ->option_text("NAME");
  auto* rto = app.add_option("--rto-us", raw.rto_us, "Retransmission timeout (default: 67109)");
  rto->check(CLI::Range(1.0, 1e9))->option_text("US");
  app.add_option("--rto-low-us", raw.rto_low_us, "adaptive: the first one; irn: with few packets under way")
      ->check(CLI::Range(1.0, 1e9))
      ->option_text("US");
  app.add_option("--rto-high-us", raw.rto_high_us, "irn: with more")->check(CLI::Range(1.0, 1e9))->option_text("US");
  app.add_option("-u,--qp-timeout", raw.qp_timeout, "The same as a code: 4.096 us * 2^N (default: 14)")
      ->excludes(rto)
      ->check(CLI::Range(1, 31))
      ->option_text("N");
  app.add_option("--retry_count,--retry-count", q.retry_count, "0-7 (default: 7)")
      ->check(CLI::Range(0, 7))
      ->option_text("N");
  app.add_option("--cc", raw.cc, "Congestion control: none, dcqcn, timely, swift or hpcc (default: none)")
      ->check(CLI::IsMember({"none", "dcqcn", "timely", "swift", "hpcc"}))
      ->option_text("NAME");
  app.add_option("--dcqcn", raw.dcqcn_set, "hpcc_mix (default), hpcc_run, conweave, dcqcn_paper, longhaul or connectx")
      ->check(CLI::IsMember(std::vector<std::string>(nic::kDcqcnSets.begin(), nic::kDcqcnSets.end())))
      ->option_text("SET");
  app.add_option("--cc-constant", raw.constants, "Constants of its algorithm: t_low_us=50, r_ai_mbps=5, ...")
      ->delimiter(',')
      ->option_text("NAME=NUMBER,...");
  app.add_option("--rate-gbps", raw.rate_gbps, "Rate per queue pair, where --cc starts (default: no limit)")
      ->check(CLI::Range(0.0, 10000.0))
      ->option_text("GBPS");
  app.add_option("--pacing-slack-us", raw.pacing_slack_us,
                 "How late it may wake up and not lose rate: it then sends a burst (default: 500)")
      ->check(CLI::Range(0.0, 1e6))
      ->option_text("US");
  app.add_flag("--nack-is-cnp", q.nack_is_cnp, "A NACK cuts the rate as a CNP does");
  app.add_option("-T,--tos", raw.tos, "DSCP << 2 of data and ACKs")->check(CLI::Range(0, 255))->option_text("BYTE");
}

void add_output(CLI::App& app, Options& o, Raw& raw) {
  app.add_flag("--json", o.json, "Print one JSON object");
  app.add_option("--watch", raw.watch, "Print progress every SECONDS (default 1)")
      ->expected(0, 1)
      ->default_str("1")
      ->option_text("[SECONDS]");
  app.add_option("--timeout", o.timeout_s, "Give up after so many seconds without progress (default: 10)")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS");
}

void add_test(CLI::App& app, Options& o, Raw& raw, Command command, const char* name, const char* text) {
  const bool latency = command == Command::write_lat || command == Command::send_lat;
  CLI::App* sub = app.add_subcommand(name, text);
  sub->add_option("server", o.server, "The server's address; without one, be the server, once")->option_text("SERVER");
  add_interface(*sub, o, raw);
  sub->add_option("-p,--port", o.port, "Port of rdma_cm (default: 18515)")->option_text("PORT");
  if (command != Command::verify) {
    sub->add_option("-s,--size", o.size,
                    latency ? "Bytes per message (default: 2)" : "Bytes per message (default: 65536)")
        ->check(CLI::Range(0u, 1u << 28))
        ->option_text("BYTES");
    sub->add_option("-n,--iters", o.iterations, "Messages per queue pair")
        ->check(CLI::Range(1ull, 1ull << 40))
        ->option_text("N");
    sub->add_option("-D,--duration", o.duration_s, "Seconds, instead of a number of messages")
        ->check(CLI::Range(0.1, 86400.0))
        ->option_text("SECONDS");
  }
  if (!latency && command != Command::verify) {
    sub->add_option("-q,--qp", o.qps, "Queue pairs (default: 1)")->check(CLI::Range(1, 1024))->option_text("N");
    sub->add_option("-t,--tx-depth", o.depth, "Messages under way per queue pair (default: 128)")
        ->check(CLI::Range(1, 8192))
        ->option_text("N");
    sub->add_flag("--report_gbits", o.report_gbits, "Gb/sec instead of MiB/sec");
    if (command == Command::read_bw) {
      sub->add_option("-o,--outs", raw.outs, "READs under way per queue pair (default: 16)")
          ->check(CLI::Range(1, 255))
          ->option_text("N");
    }
  }
  sub->add_flag("-R,--rdma_cm", raw.rdma_cm, "Connect by rdma_cm, as it always does");
  add_transport(*sub, o, raw);
  add_output(*sub, o, raw);
  sub->callback([&o, command, latency, sub] {
    o.command = command;
    if (latency && sub->count("--size") == 0) o.size = 2;
    if (latency && sub->count("--iters") == 0) o.iterations = 1000;
  });
}

void add_serve(CLI::App& app, Options& o, Raw& raw) {
  CLI::App* serve = app.add_subcommand("serve", "Answer all tests of weft-rnic, until Ctrl-C");
  add_interface(*serve, o, raw);
  serve->add_option("-p,--port", o.port, "Port of rdma_cm (default: 18515)")->option_text("PORT");
  serve->add_option("--connections", o.connections, "End after so many (default: never)")->option_text("N");
  add_output(*serve, o, raw);
  serve->callback([&o] { o.command = Command::serve; });
}

void add_rping(CLI::App& app, Options& o, Raw& raw) {
  CLI::App* rping = app.add_subcommand("rping", "Ping-pong by SEND, READ and WRITE, as Linux's rping does it");
  auto* server = rping->add_flag("-s", raw.server_role, "Be the server");
  rping->add_flag("-c", raw.client_role, "Be the client")->excludes(server);
  rping->add_option("-a", raw.rping_address, "Server: our address; client: the server's")->option_text("IP");
  rping->add_option("-p", o.port, "Port of rdma_cm (default: 7174)")->option_text("PORT");
  rping->add_option("-C", o.iterations, "Number of pings (default: without end)")->option_text("N");
  rping->add_option("-S", o.size, "Bytes of a ping (default: 64)")
      ->check(CLI::Range(64u, 65536u))
      ->option_text("BYTES");
  rping->add_flag("-V", o.validate, "Compare the data");
  rping->add_flag("-v", o.verbose, "Print the data");
  rping->add_flag("-P", o.persistent, "Server: serve one client after the other");
  add_interface(*rping, o, raw);
  add_transport(*rping, o, raw);
  rping->add_flag("--json", o.json, "Print one JSON object");
  rping->add_option("--timeout", o.timeout_s, "Give up after so many seconds without progress (default: 10)")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS");
  rping->callback([&o, &raw, rping] {
    o.command = Command::rping;
    if (rping->count("-p") == 0) o.port = 7174;
    if (rping->count("-S") == 0) o.size = 64;
    if (rping->count("-C") == 0) o.iterations = 0;
    if (raw.server_role == raw.client_role) throw CLI::ValidationError("rping", "takes -s or -c");
    if (raw.client_role && raw.rping_address.empty()) throw CLI::ValidationError("rping -c", "needs -a ADDRESS");
    if (raw.client_role) {
      o.server = raw.rping_address;
    } else if (!raw.rping_address.empty()) {
      if (!o.addresses.empty()) throw CLI::ValidationError("rping -s", "takes -a or --address");
      o.addresses = {raw.rping_address};
    }
  });
}

void add_inc(CLI::App& app, Options& o, Raw& raw) {
  CLI::App* inc = app.add_subcommand("inc", "Be a rank of collectives that switches add up; compares the data");
  inc->add_option("endpoint", o.server, "Address of the switch's endpoint")->required()->option_text("ADDRESS");
  inc->add_option("--rank", o.rank, "Our rank")->required()->option_text("N");
  inc->add_option("--ranks", o.ranks, "Ranks of the group")->required()->check(CLI::Range(2, 65536))->option_text("N");
  inc->add_option("--group", o.group, "Id of the group")->required()->option_text("ID");
  inc->add_option(
         "--primitive", o.primitive,
         "allreduce, reduce, broadcast, barrier; all of these in turn (default: all); reducescatter, allgather: "
         "a Reduce or a Broadcast for each rank, which is its root")
      ->check(CLI::IsMember({"allreduce", "reduce", "broadcast", "barrier", "all", "reducescatter", "allgather"}))
      ->option_text("NAME");
  inc->add_flag("--write-imm", o.write_imm, "Data goes by RDMA WRITE with immediate, not by SEND");
  inc->add_option("--root", o.root, "Rank that receives a Reduce or sends a Broadcast (default: another each time)")
      ->check(CLI::Range(0, 65535))
      ->option_text("N");
  inc->add_flag("--group-per-root", o.group_per_root,
                "Groups ID to ID + 2 N: one for what has no root, N for Reduces and N for Broadcasts by their root; "
                "all run at once");
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < inc::kDataTypes; ++i) elements.emplace_back(to_string(static_cast<inc::DataType>(i)));
  inc->add_option("--element", o.element, "Type of elements, which are summed up: fp32, int8... (default: uint32)")
      ->check(CLI::IsMember(elements))
      ->option_text("TYPE");
  inc->add_option("-s,--size", o.size, "Bytes of the vector; of all ranks' fragments together (default: 65536)")
      ->check(CLI::Range(1u, 1u << 28))
      ->option_text("BYTES");
  inc->add_option("-n,--iters", o.iterations, "How often (default: 10)")->check(CLI::Range(1, 16383))->option_text("N");
  inc->add_flag("--no-check", o.unchecked, "Send whatever is in memory, and compare nothing: for measuring");
  inc->add_option("--group-window", o.window, "Messages under way, as the group has it (default: 4)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  inc->add_option("--message-packets", o.message_packets, "Packets of a message, as the group has it (default: 4)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  add_interface(*inc, o, raw);
  add_transport(*inc, o, raw);
  inc->add_option("--timeout", o.timeout_s, "Give up after so many seconds without progress (default: 10)")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS");
  inc->callback([&o, inc] {
    o.command = Command::inc;
    if (inc->count("--iters") == 0) o.iterations = 10;
  });
}

/// What --cc, --dcqcn and --cc-constant say; a mistake, or nothing.
std::string finish_congestion_control(nic::QpConfig& q, const Raw& raw, const std::string& server) {
  q.congestion_control = *nic::congestion_control_from_name(raw.cc);
  if (q.congestion_control != nic::CongestionControl::none && q.line_bps == 0) {
    return "--cc " + raw.cc + " needs --rate-gbps, the rate to start from";
  }
  if (q.congestion_control == nic::CongestionControl::hpcc && server.find(':') != std::string::npos) {
    return "--cc hpcc is for IPv4: its telemetry is an IPv4 option";
  }
  if (q.congestion_control == nic::CongestionControl::dcqcn) {
    q.dcqcn = *nic::dcqcn_parameters(raw.dcqcn_set.empty() ? "hpcc_mix" : raw.dcqcn_set, q.line_bps);
  } else if (!raw.dcqcn_set.empty()) {
    return "--dcqcn: a parameter set of --cc dcqcn, not of " + raw.cc;
  }
  for (const std::string& constant : raw.constants) {
    const std::size_t equals = constant.find('=');
    const char* begin = equals == std::string::npos ? "" : constant.c_str() + equals + 1;
    char* end = nullptr;
    const double value = std::strtod(begin, &end);
    if (end == begin || *end != '\0') return "--cc-constant takes NAME=NUMBER, not '" + constant + "'";
    const std::string mistake = nic::set_cc_constant(q, constant.substr(0, equals), value);
    if (!mistake.empty()) return "--cc-constant " + mistake;
  }
  const std::string mistake = nic::cc_mistake(q);
  return mistake.empty() ? mistake : "--cc-constant " + mistake;
}

/// Moves what was read as text and micro-seconds to where it counts.
std::string finish(Options& o, const Raw& raw) {
  auto& q = o.qp;
  q.loss_recovery = *nic::loss_recovery_from_name(raw.loss_recovery);
  q.renack = *nic::renack_from_name(raw.renack);
  q.rto_mode = *nic::rto_mode_from_name(raw.rto_mode);
  const auto ns = [](double us) { return static_cast<nic::Time>(us * 1000); };
  q.rto_ns = raw.qp_timeout == 0 ? ns(raw.rto_us) : nic::Time{4096} << raw.qp_timeout;
  if (raw.outs != 0) q.max_rd_atomic = static_cast<std::uint8_t>(raw.outs);
  q.rto_low_ns = ns(raw.rto_low_us);
  q.rto_high_ns = ns(raw.rto_high_us);
  q.line_bps = static_cast<std::uint64_t>(raw.rate_gbps * 1e9);
  q.pacing_slack_ns = ns(raw.pacing_slack_us);
  q.path_mtu = raw.mtu;
  q.dscp = static_cast<std::uint8_t>(raw.tos >> 2);
  if (std::string mistake = finish_congestion_control(q, raw, o.server); !mistake.empty()) return mistake;
  if (!raw.memif.empty()) {
    const auto device = nic::memif_device(raw.memif, raw.memif_id);
    if (!device) return "--memif takes a path without ',' and '='";
    o.device = *device;
  }
  if (!raw.watch.empty()) {
    char* end = nullptr;
    o.watch_s = std::strtod(raw.watch.c_str(), &end);
    if (*end != '\0' || !(*o.watch_s >= 0.1 && *o.watch_s <= 3600)) return "--watch takes seconds from 0.1 to 3600";
  }
  return {};
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Options o;
  Raw raw;
  CLI::App app(kAbout, "weft-rnic");
  app.set_version_flag("--version", "weft-rnic " WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);
  app.get_formatter()->column_width(32);
  add_serve(app, o, raw);
  add_test(app, o, raw, Command::write_bw, "write_bw", "Bandwidth of RDMA WRITE");
  add_test(app, o, raw, Command::send_bw, "send_bw", "Bandwidth of SEND");
  add_test(app, o, raw, Command::read_bw, "read_bw", "Bandwidth of RDMA READ");
  add_test(app, o, raw, Command::write_lat, "write_lat", "Latency of RDMA WRITE");
  add_test(app, o, raw, Command::send_lat, "send_lat", "Latency of SEND");
  add_test(app, o, raw, Command::verify, "verify", "Every opcode with sizes around the MTU; compares data");
  add_rping(app, o, raw);
  add_inc(app, o, raw);
  std::string mistake;
  try {
    app.parse(argc, argv);
    mistake = finish(o, raw);
  } catch (const CLI::ParseError& error) {
    exit_status = config::end_of_parsing(app, error);
    return std::nullopt;
  }
  if (mistake.empty()) return o;
  std::fprintf(stderr, "weft-rnic: %s; weft-rnic --help explains\n", mistake.c_str());
  exit_status = kExitUsage;
  return std::nullopt;
}

}  // namespace weft::rnic_tool
