// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <string>

#include "switch/config/schema/prefixes.h"
#include "switch/stages/pnp/options.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;
using pipeline::SwitchInfo;

Schema pnp_options_schema() {
  using Key = Schema::Key;
  return Schema::map({
      Key::with_default("enabled", Schema::boolean(), Value(true), "false: packets leave as they are."),
      Key::with_default("remote", Schema::list(Schema::prefix()), Value(Value::List{}),
                        "Prefixes of the other data centres. A flow whose destination is in one of them, and whose "
                        "source is not, is inter-DC."),
      Key::with_default("sources", Schema::one_of({"local", "any"}), Value("local"),
                        "local: CNPs go to sources in this data centre; any: also to those of flows that come from a "
                        "remote prefix, as in the authors' simulation."),
      Key::with_default("handshake_monitor", Schema::one_of({"off", "passive", "cookie"}), Value("off"),
                        "passive: hosts that open a TCP connection through this switch are inter-DC too, in both "
                        "directions. For switches that see no other traffic. cookie: the same, as in Figure 5 of the "
                        "paper: the first connection of each pair of hosts is answered with a SYN cookie and then "
                        "reset, so that nothing need be kept of handshakes."),
      Key::with_default(
          "max_pairs", Schema::integer(4, 1 << 20), Value(1024),
          "Pairs of hosts, and handshakes under way of `passive`, that the monitor has room for; rounded up "
          "to a power of two."),
      Key::with_default("max_flows", Schema::integer(4, 1 << 24), Value(16384),
                        "Flows that there is room for; rounded up to a power of two."),
      Key::with_default("cnp_interval_us", Schema::number(0, 1e6), Value(5.0),
                        "Least microseconds between two CNPs of a flow: what the receiver's RNIC has. The authors' "
                        "simulation comes to 7."),
      Key::with_default("trigger", Schema::one_of({"mark", "qcn"}), Value("mark"),
                        "mark: packets that leave with a CE mark; qcn: packets that are sampled as in QCN (802.1Qau) "
                        "while the port that they leave through is congested, as in Annulus. Marks then stay."),
      Key::with_default("qcn_queue_kb", Schema::number(0.001, 1e6), Value(26.0),
                        "qcn: the queue of a port to aim at (Qeq), thousands of bytes."),
      Key::with_default(
          "qcn_sample_kb", Schema::number(0.001, 1e6), Value(150.0),
          "qcn: a packet is sampled after so many thousands of bytes, and after down to an eighth of them "
          "when the port is congested."),
      Key::with_default("qcn_weight", Schema::number(0, 1000), Value(2.0),
                        "qcn: weight (w) of how much the queue has grown since the last sample."),
      Key::with_default("qcn_feedback", Schema::boolean(), Value(true),
                        "qcn: CNPs say how congested the queue is (Fb), in bytes that RNICs ignore which know nothing "
                        "of it; for senders with near_qcn. false: these bytes are 0."),
      Key::with_default("clear_to", Schema::one_of({"ect0", "not_ect", "ce"}), Value("ect0"),
                        "What a mark is cleared to. ect0: switches behind can mark again; not_ect: they cannot, as "
                        "in the authors' simulation; ce: it stays, and the receiver tells the source once more, to "
                        "show what clearing is worth."),
      Key::with_default("rtt_echo", Schema::boolean(), Value(false),
                        "true: inter-DC requests that ask for an echo (TIMELY with near_echo, Swift with "
                        "near_target_us) are answered at once, "
                        "so that their sources learn the round trip to here."),
      Key::with_default("telemetry", Schema::boolean(), Value(false),
                        "true: inter-DC packets with telemetry (HPCC) leave without the records of ports in this data "
                        "centre; their sources get these with a CNP, one per cnp_interval_us."),
      Key::with_default("cnp_dscp", Schema::integer(0, 63), Value(48), "DSCP of the CNPs."),
      accept_option(),
  });
}

PnpOptions pnp_options(const Value& options) {
  PnpOptions result;
  result.enabled = options["enabled"].boolean();
  result.cnp_interval_ns = static_cast<TimeNs>(options["cnp_interval_us"].number() * 1000 + 0.5);
  result.remote.prefixes = config::prefixes_of(options["remote"]);
  result.trigger = options["trigger"].string() == "qcn" ? PnpTrigger::qcn : PnpTrigger::mark;
  result.qcn = {.equilibrium_bytes = static_cast<std::uint32_t>(options["qcn_queue_kb"].number() * 1000 + 0.5),
                .weight = options["qcn_weight"].number(),
                .sample_bytes = static_cast<std::uint32_t>(options["qcn_sample_kb"].number() * 1000 + 0.5)};
  result.qcn_feedback = options["qcn_feedback"].boolean();
  result.any_source = options["sources"].string() == "any";
  const std::string& clear_to = options["clear_to"].string();
  result.clear_to = clear_to == "ect0" ? wire::Ecn::ect0 : clear_to == "ce" ? wire::Ecn::ce : wire::Ecn::not_ect;
  result.cnp_dscp = static_cast<std::uint8_t>(options["cnp_dscp"].integer());
  result.telemetry = options["telemetry"].boolean();
  result.rtt_echo = options["rtt_echo"].boolean();
  const std::string& monitor = options["handshake_monitor"].string();
  result.monitor = monitor == "passive"  ? PnpMonitor::passive
                   : monitor == "cookie" ? PnpMonitor::cookie
                                         : PnpMonitor::off;
  result.max_flows = static_cast<std::uint32_t>(options["max_flows"].integer());
  result.max_pairs = static_cast<std::uint32_t>(options["max_pairs"].integer());
  return result;
}

void check_pnp_options(const Value& options, const SwitchInfo& /*info*/, Diagnostics& diagnostics) {
  if (options["remote"].list().empty() && options["handshake_monitor"].string() == "off") {
    diagnostics.error(options["remote"].mark().line > 0 ? options["remote"].mark() : options.mark(),
                      "remote: expected prefixes of the other data centres, or handshake_monitor: passive; without "
                      "both no flow is inter-DC");
  }
  for (const char* key : {"telemetry", "rtt_echo"}) {
    if (!options[key].boolean() || !options["remote"].list().empty()) continue;
    diagnostics.error(options[key].mark(),
                      std::string(key) + ": needs 'remote', which says what lies in this data centre");
  }
  if (options["trigger"].string() == "qcn" && options["telemetry"].boolean()) {
    diagnostics.error(options["trigger"].mark(), "trigger: qcn sends CNPs without telemetry");
  }
  for (const Value& item : options["remote"].list()) config::check_host_bits("remote", item, diagnostics);
}

}  // namespace weft::stages
