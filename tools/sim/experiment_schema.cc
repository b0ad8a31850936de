// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>

#include "collectives/stage/group_spec.h"
#include "nic/rnic/cc_constants.h"
#include "switch/config/schema/schema_node.h"
#include "tools/sim/experiment.h"

namespace weft::sim {
namespace {

using config::Schema;
using config::Value;
using Key = Schema::Key;

constexpr std::int64_t kMostNs = 10'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;  // of a message of RDMA

std::vector<Key> rate_keys() {
  return {
      Key::with_default("link_gbps", Schema::number(0.001, 1600), Value(100), "Rate of every link, Gbit/s."),
      Key::optional_key("host_link_gbps", Schema::number(0.001, 1600), "Rate of the hosts' links; default: link_gbps."),
      Key::with_default("delay_ns", Schema::integer(1, kMostNs), Value(1000), "Propagation delay of every link."),
      Key::optional_key("host_delay_ns", Schema::integer(1, kMostNs), "Of the hosts' links; default: delay_ns."),
      Key::with_default(
          "overhead_bytes", Schema::integer(-64, 256), Value(24),
          "What a frame takes on any link beyond its own bytes, as a port of weft-switch has it. -10: ns-3's "
          "point-to-point framing, 48 bytes around the payload of a packet."),
      Key::with_default("mpu_bytes", Schema::integer(1, 256), Value(84), "The least that a frame takes."),
  };
}

std::vector<Key> with(std::vector<Key> keys, std::vector<Key> more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Schema topology_schema() {
  const Schema leaf_spine = Schema::map(with(
      {Key::required_key("leaves", Schema::integer(1, Topology::kMaxTors), "Switches that hosts are connected to."),
       Key::required_key("spines", Schema::integer(0, 512), "Switches between them: the number of paths."),
       Key::required_key("hosts_per_leaf", Schema::integer(1, 512), "Hosts of each leaf.")},
      rate_keys()));
  const Schema fat_tree = Schema::map(
      with({Key::required_key("k", Schema::integer(2, 64), "Ports of each switch, an even number: k^3/4 hosts."),
            Key::optional_key("hosts_per_tor", Schema::integer(1, 512),
                              "Hosts of each ToR, if not k/2; more of them share its k/2 uplinks.")},
           rate_keys()));
  const Schema own_rate = Schema::map({
      Key::required_key("a", Schema::name(), "One end: a switch."),
      Key::required_key("b", Schema::name(), "The other end: a switch."),
      Key::optional_key("gbps", Schema::number(0.001, 1600), "Rate; default: link_gbps."),
      Key::optional_key("delay_ns", Schema::integer(1, kMostNs), "Propagation delay; default: that of the topology."),
  });
  const Schema host = Schema::map({
      Key::required_key("name", Schema::name(), "Name of the host, or of the first of several: a number is added."),
      Key::required_key("switch", Schema::name(), "The switch that it is connected to."),
      Key::with_default("count", Schema::integer(1, 512), Value(1), "Hosts like this one."),
      Key::optional_key("gbps", Schema::number(0.001, 1600), "Rate; default: host_link_gbps."),
      Key::optional_key("delay_ns", Schema::integer(1, kMostNs), "Propagation delay; default: host_delay_ns."),
  });
  const Schema list = Schema::map(
      with({Key::required_key("switches", Schema::list(Schema::name(), 1), "Names of the switches."),
            Key::required_key("hosts", Schema::list(host, 1), "Hosts, in the order of their numbers."),
            Key::with_default("links", Schema::list(own_rate), Value(Value::List{}), "Links between switches.")},
           rate_keys()));
  return Schema::tagged("kind", {{"leaf_spine", leaf_spine}, {"fat_tree", fat_tree}, {"explicit", list}});
}

// The options of a stage as it states them itself, but for those that the simulator fills in.
Schema options_without(const pipeline::Registry& registry, const char* stage, const std::vector<std::string>& names) {
  std::vector<Key> keys = registry.find(stage)->options.node().keys;
  std::erase_if(keys, [&](const Key& key) { return std::find(names.begin(), names.end(), key.name) != names.end(); });
  return Schema::map(std::move(keys));
}

Schema policy_schema(const pipeline::Registry& registry) {
  for (const auto& key : registry.find("lb")->options.node().keys) {
    if (key.name == "policy") return key.schema;
  }
  return Schema::string();
}

Schema switch_schema(const pipeline::Registry& registry) {
  const Schema ecn = Schema::map({
      Key::required_key("kmin_kb", Schema::number(0, 1e6),
                        "Thousands of bytes in the queue from which on packets are marked."),
      Key::required_key("kmax_kb", Schema::number(0, 1e6), "Thousands of bytes beyond which every packet is marked."),
      Key::with_default("pmax", Schema::number(0, 1), Value(0.2), "Probability at kmax_kb."),
  });
  std::vector<Key> ecn_keys = ecn.node().keys;
  ecn_keys.insert(ecn_keys.begin(),
                  Key::required_key("gbps", Schema::number(0.001, 1600), "Ports of this rate; others go by_speed."));
  const Schema buffer_profile = Schema::map({
      Key::required_key("gbps", Schema::number(0.001, 1600), "Ports of this rate."),
      Key::optional_key("dynamic_th", Schema::integer(-8, 8), "Of the data class, as a BUFFER_PROFILE has it."),
      Key::optional_key("size", Schema::integer(0, kMostBytes), "Bytes reserved."),
      Key::optional_key("xoff", Schema::integer(1, kMostBytes), "Headroom in bytes."),
  });
  std::vector<Key> keys{
      Key::with_default("buffer_mb", Schema::number(0.01, 1e6), Value(64.0), "Packet memory of a switch, 10^6 bytes."),
      Key::with_default("buffer_model", Schema::one_of({"conweave", "hpcc"}), Value("conweave"),
                        "Admission, as `qos` of weft-switch has it."),
      Key::with_default("buffers",
                        Schema::list(Schema::map({
                            Key::required_key("switch", Schema::name(), "Name of the switch."),
                            Key::required_key("buffer_mb", Schema::number(0.01, 1e6), "Its packet memory, 10^6 bytes."),
                        })),
                        Value(Value::List{}), "Switches with other packet memory than buffer_mb."),
      Key::with_default("unlimited", Schema::list(Schema::name()), Value(Value::List{}),
                        "Switches whose buffer never fills, so that they heed pauses and never send any."),
      Key::with_default("lb", policy_schema(registry), Value("ecmp"), "Policy of stage lb on ToRs."),
      Key::with_default("lb_above", policy_schema(registry), Value("ecmp"), "Policy of stage lb on other switches."),
      Key::with_default("ecn",
                        Schema::either(Schema::one_of({"by_speed", "disabled"}),
                                       Schema::either(ecn, Schema::list(Schema::map(ecn_keys), 1))),
                        Value("by_speed"),
                        "Marks of the data class; by_speed: kmin 4 kB per Gbit/s, kmax four times that, pmax 0.2. One "
                        "map for all ports, or a list of maps with the rate of the ports that each is for."),
      Key::with_default("buffer_profiles", Schema::list(buffer_profile), Value(Value::List{}),
                        "Priority group of the data class on ports of certain rates; what is left out is as usual."),
      Key::with_default("pfc", Schema::boolean(), Value(true), "Whether the data class is lossless."),
      Key::with_default(
          "convergence_us", Schema::either(Schema::one_of({"never"}), Schema::number(0, 1e9)), Value("never"),
          "How long after a link goes down or comes back all switches take the paths over it out of their "
          "routes, or put them back; never: only its two ends know, as without a routing protocol."),
  };
  keys.push_back(Key::optional_key("lb_options", options_without(registry, "lb", {"policy"}),
                                   "More options of stage lb on ToRs."));
  keys.push_back(Key::optional_key("pipeline", Schema::stages(),
                                   "Stages of ToRs, as in weft-switch, instead of lb, lb_options and nack_filter. In "
                                   "lists, 'uplinks' stands for all ports to other switches; rdma_track gets the queue "
                                   "pairs of the run, lb_tag the leaves, and the ports that reports go to."));
  keys.push_back(
      Key::optional_key("pipeline_above", Schema::stages(), "The same of other switches, instead of lb_above."));
  keys.push_back(Key::with_default("pipelines",
                                   Schema::list(Schema::map({
                                       Key::required_key("switch", Schema::name(), "Name of the switch."),
                                       Key::required_key("pipeline", Schema::stages(), "Its stages."),
                                   })),
                                   Value(Value::List{}), "The same of single switches."));
  if (registry.find("nack_filter") != nullptr) {
    keys.push_back(Key::optional_key("nack_filter", options_without(registry, "nack_filter", {"uplinks"}),
                                     "Stage nack_filter on ToRs, with its options; default: none."));
  }
  return Schema::map(std::move(keys));
}

// Constants of all kinds; the builder says which of them do not belong to the kind that the file has.
Schema cc_schema() {
  std::vector<Key> keys{
      Key::with_default("kind", Schema::one_of({"none", "dcqcn", "timely", "swift", "hpcc"}), Value("dcqcn"),
                        "What sets the rate."),
      Key::optional_key("preset",
                        Schema::one_of(std::vector<std::string>(nic::kDcqcnSets.begin(), nic::kDcqcnSets.end())),
                        "Parameter set of DCQCN; default: hpcc_mix."),
  };
  for (const nic::CcConstant& c : nic::cc_constants()) {
    const std::string text = std::string(name(c.kind)) + ": " + std::string(c.meaning) + ".";
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == c.name; });
    if (known != keys.end()) {
      known->doc += " " + text;
      continue;
    }
    const Schema number = c.whole ? Schema::integer(static_cast<std::int64_t>(c.low), static_cast<std::int64_t>(c.high))
                                  : Schema::number(c.low, c.high);
    keys.push_back(Key::optional_key(std::string(c.name), number, text));
  }
  return Schema::map(std::move(keys));
}

Schema nic_schema() {
  return Schema::map({
      Key::with_default("transport", Schema::one_of({"gbn", "nic_sr", "irn", "ideal", "udp"}), Value("nic_sr"),
                        "Loss recovery; udp: no RNICs, plain datagrams of `mtu` bytes at the rate of the link."),
      Key::with_default("renack", Schema::one_of({"lazy", "eager"}), Value("lazy"),
                        "nic_sr: when the next hole is asked for."),
      Key::with_default("nack_is_cnp", Schema::boolean(), Value(true), "A NACK cuts the rate as a CNP does."),
      Key::with_default("mtu", Schema::integer(64, 8192), Value(1500), "Payload bytes of a full packet."),
      Key::with_default("window", Schema::integer(1, 1 << 20), Value(1024),
                        "Packets that may be unacknowledged; but for gbn also of the bitmap, a power of two."),
      Key::with_default("window_below_bdp", Schema::boolean(), Value(false),
                        "Over links of 100 us and more a window that is smaller than what travels both ways is "
                        "refused, unless this says that it is meant."),
      Key::with_default("max_inflight_bytes", Schema::integer(0, kMostBytes), Value(0),
                        "Bytes that may be unacknowledged (BDP-FC); 0: no limit."),
      Key::with_default("ack_every", Schema::integer(1, 1024), Value(1), "Packets per ACK."),
      Key::with_default("rto_us", Schema::number(0, 1e7), Value(4000.0), "Retransmission timeout; 0: none."),
      Key::with_default("ack_dscp", Schema::integer(0, 63), Value(48), "Class of ACKs and NACKs; data has DSCP 3."),
      Key::with_default("cnp_dscp", Schema::integer(0, 63), Value(48), "Class of CNPs."),
      Key::with_default("cc", cc_schema(), Value(Value::Map{}), "Congestion control."),
  });
}

Schema bytes() {
  return Schema::integer(1, kMostBytes);
}

// What a group of stage inc may say itself; the rest is filled in.
Schema inc_group() {
  std::vector<Key> keys = inc::group_schema().node().keys;
  const auto filled_in = {"id", "ranks", "mtu", "window", "message_packets", "dscp", "endpoints"};
  std::erase_if(
      keys, [&](const Key& key) { return std::find(filled_in.begin(), filled_in.end(), key.name) != filled_in.end(); });
  return Schema::map(std::move(keys));
}

Schema inc_schema() {
  const Schema operations =
      Schema::one_of({"allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather"});
  return Schema::map({
      Key::required_key("operation", operations, "What all ranks of a group run."),
      Key::optional_key("beside", operations, "What they run at the same time, in groups of its own."),
      Key::with_default("group_per_root", Schema::boolean(), Value(false),
                        "reducescatter, allgather: all roots at once, a group of the switches for each."),
      Key::with_default("bytes", Schema::integer(0, std::int64_t{1} << 30), Value(0),
                        "Of the vector, a multiple of 4; reducescatter and allgather: of all fragments together."),
      Key::with_default("times", Schema::integer(1, 4096), Value(1), "Operations, one after the other."),
      Key::with_default("window", Schema::integer(1, 4096), Value(8), "Messages that a rank has under way (W)."),
      Key::with_default("message_packets", Schema::integer(1, 4096), Value(16), "Packets of a message (M)."),
      Key::with_default("group", inc_group(), Value(Value::Map{}),
                        "What a group of stage inc may say: mode, slots, duplicates..."),
      Key::with_default("groups", Schema::integer(1, 4096), Value(1),
                        "Groups of equal size; host h is in group h mod groups."),
      Key::optional_key("hosts", Schema::integer(2, 1 << 16), "The first so many take part; default: all."),
      Key::optional_key("late",
                        Schema::list(Schema::map({Key::required_key("host", Schema::integer(0, 1 << 16), "Number."),
                                                  Key::required_key("by_us", Schema::number(0, 1e9), "How much.")})),
                        "Hosts that begin to send later than the others; what they receive has its place at once."),
      Key::optional_key("background",
                        Schema::list(Schema::map({Key::required_key("from", Schema::integer(0, 1 << 16), "Host."),
                                                  Key::required_key("to", Schema::integer(0, 1 << 16), "Host.")})),
                        "Flows beside it that never end."),
  });
}

Key groups() {
  return Key::with_default("groups", Schema::integer(1, 65536), Value(1),
                           "Groups of equal size; host h is in group h mod groups.");
}

Schema workload_schema() {
  const auto collective = [](std::vector<Key> more) {
    return Schema::map(with({Key::required_key("bytes", bytes(), "Bytes of the collective at each host."), groups()},
                            std::move(more)));
  };
  const Key duration =
      Key::with_default("duration_ms", Schema::number(0.001, 1e5), Value(10.0), "Time in which flows begin.");
  return Schema::tagged(
      "kind",
      {{"ring", collective({})},
       {"ring_allreduce", collective({})},
       {"ring_reducescatter", collective({})},
       {"ring_allgather", collective({})},
       {"barrier_rank0", Schema::map({groups()})},
       {"halving_doubling_allreduce", collective({})},
       {"alltoall", collective({Key::with_default("schedule", Schema::one_of({"burst", "rotated"}), Value("burst"),
                                                  "burst: to all at once; rotated: one after the other.")})},
       {"incast", collective({})},
       {"inc", inc_schema()},
       {"poisson",
        Schema::map(
            {Key::required_key("cdf", Schema::string(), "File of flow sizes: bytes and cumulative percent."),
             Key::with_default("load", Schema::number(0.001, 2), Value(0.5), "Of the hosts' links."), duration,
             Key::optional_key(
                 "incast",
                 Schema::map({Key::required_key("senders", Schema::integer(1, 65535), "Hosts that send."),
                              Key::required_key("bytes", bytes(), "That each of them sends."),
                              Key::required_key("every_us", Schema::number(1, 1e9), "From one incast to the next.")}),
                 "Beside the flows: hosts drawn at random send to another one, all at the same time.")})},
       {"flows", Schema::map({Key::required_key("file", Schema::string(),
                                                "File of flows: from, to, bytes, start in seconds; # begins a "
                                                "comment."),
                              Key::with_default("layout", Schema::one_of({"plain", "hpcc"}), Value("plain"),
                                                "hpcc: a count, then source, destination, priority, port, bytes, "
                                                "start."),
                              Key::with_default("start_s", Schema::number(0, 1e6), Value(0.0),
                                                "Time in the file that is the beginning of the run.")})}});
}

Schema fault_schema() {
  return Schema::map({
      Key::with_default("link", Schema::string(), Value("fabric"),
                        "A link as node/node, or fabric: all between switches, or all."),
      Key::with_default("loss", Schema::number(0, 1), Value(0.0), "Ratio of packets that are lost."),
      Key::optional_key("down_at_us", Schema::number(0, 1e9), "When the link goes down."),
      Key::optional_key("up_at_us", Schema::number(0, 1e9), "When it comes back."),
  });
}

}  // namespace

Schema experiment_schema(const pipeline::Registry& registry) {
  return Schema::map({
      Key::optional_key("name", Schema::string(), "Title of reports; default: the name of the file."),
      Key::required_key("topology", topology_schema(), "Hosts, switches and links."),
      Key::with_default("switch", switch_schema(registry), Value(Value::Map{}), "All switches."),
      Key::with_default("nic", nic_schema(), Value(Value::Map{}), "All RNICs."),
      Key::required_key("workload", workload_schema(), "What is sent."),
      Key::with_default("faults", Schema::list(fault_schema()), Value(Value::List{}), "What goes wrong."),
      Key::with_default("seed", Schema::integer(0, INT64_MAX), Value(1), "Of all random sources."),
      Key::with_default("time_limit_ms", Schema::number(0, 1e7), Value(0.0), "Of virtual time; 0: until all is sent."),
      Key::with_default("rates_every_us", Schema::number(0, 1e6), Value(0.0),
                        "How often the rates that congestion control gives to queue pairs with work are looked at; "
                        "results then have every change of every one. 0: never."),
      Key::with_default("payload", Schema::one_of({"elided", "values"}), Value("elided"),
                        "values: packets carry bytes, RNICs check the ICRC, and receivers compare every message. The "
                        "times are the same; it takes memory for all messages twice."),
      Key::with_default("mbufs", Schema::integer(0, 1 << 24), Value(0), "Packet buffers; 0: estimated."),
      Key::optional_key("sweep",
                        Schema::dictionary(Schema::list(Schema::either(
                            Schema::text(), Schema::either(Schema::number(-1e18, 1e18), Schema::boolean())))),
                        "weft-sim sweep: keys and the values that each takes; every combination is run."),
  });
}

}  // namespace weft::sim
