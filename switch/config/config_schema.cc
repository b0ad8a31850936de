// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/base/worker_set.h"
#include "switch/config/config.h"
#include "switch/config/schema/schema_node.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/opcodes.h"

namespace weft::config {
namespace {

using Key = Schema::Key;

Schema vid() {
  return Schema::integer(1, pipeline::kMaxVid);
}

Schema vid_list() {
  return Schema::list(Schema::either(vid(), Schema::string()), 1);
}

Key descriptors(const char* name, const char* direction) {
  return Key::with_default(name, Schema::integer(64, 32768), Value(1024),
                           std::string("Descriptors of the device's ") + direction + " queue.");
}

Key role() {
  return Key::with_default("role", Schema::one_of({"server", "client"}), Value("server"),
                           "Which side creates the socket.");
}

std::vector<Key> generator_keys() {
  std::vector<std::string> opcodes;
  for (unsigned raw = 0; raw < wire::kOpcodeTable.size(); ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (wire::opcode_info(opcode).known()) opcodes.emplace_back(wire::opcode_name(opcode));
  }
  return {
      Key::with_default("qps", Schema::integer(1, 1 << 20), Value(1), "Queue pairs, served in turn."),
      Key::with_default("first_qpn", Schema::integer(2, kMaxQpn), Value(16),
                        "Destination QP of the first; the others count up."),
      Key::with_default("payload_bytes", Schema::integer(0, 8192), Value(1024), "Payload per packet."),
      Key::with_default("opcodes", Schema::list(Schema::one_of(opcodes), 1), Value(Value::List{Value("RC_SEND_ONLY")}),
                        "Opcodes of the packets, in turn."),
      Key::optional_key("control",
                        Schema::map({
                            Key::required_key("every", Schema::integer(1, std::int64_t{1} << 62),
                                              "Requests of a queue pair from one of them to the next."),
                            Key::required_key("immediate", Schema::integer(0, 0xffffffff),
                                              "Of the first one; each one after it has one more."),
                            Key::required_key("payload", Schema::list(Schema::integer(0, 255), 1), "Its bytes."),
                        }),
                        "A SEND with immediate that every queue pair begins with, and sends again in place of a "
                        "request: what begins a collective, for example."),
      Key::required_key("source_mac", Schema::mac(), "Source MAC address."),
      Key::required_key("destination_mac", Schema::mac(), "Destination MAC address."),
      Key::required_key("source", Schema::ip(), "Source IP address."),
      Key::required_key("destination", Schema::ip(), "Destination IP address, of the same family."),
      Key::optional_key("more_destinations",
                        Schema::list(Schema::map({Key::required_key("mac", Schema::mac(), "MAC address."),
                                                  Key::required_key("address", Schema::ip(), "IP address.")})),
                        "Further hosts that are sent to: queue pairs are with each of them in turn."),
      Key::with_default("dscp", Schema::integer(0, 63), Value(0), "DSCP of the packets."),
      Key::with_default("heed_pfc", Schema::boolean(), Value(false),
                        "Whether PFC frames that are sent to the port make it pause."),
      Key::with_default("rss", Schema::boolean(), Value(false),
                        "Whether packets come through as many receive queues as there are workers, spread by their "
                        "IPv4 addresses as a card with RSS does."),
      Key::with_default("limit_packets", Schema::integer(0, std::int64_t{1} << 62), Value(0),
                        "Packets until the port has no more; 0: it never ends."),
      Key::with_default("rate_pps", Schema::integer(0, 1'000'000'000), Value(0),
                        "Packets a second; 0: as fast as they are taken."),
  };
}

// The keys that only ports of this type have.
std::vector<std::pair<std::string, std::vector<Key>>> own_port_keys() {
  return {
      {"pci",
       {Key::required_key("device", Schema::string(),
                          "DPDK device: a PCI address (0000:3b:00.2), a representor, or a vdev with its arguments."),
        descriptors("rx_descriptors", "receive"), descriptors("tx_descriptors", "transmit"),
        Key::with_default("pfc_hardware", Schema::one_of({"auto", "on", "off"}), Value("auto"),
                          "Whether the device itself stops a class that the peer pauses; auto: where it can.")}},
      {"veth",
       {Key::required_key("interface", Schema::string(), "Network interface, as in `ip link`; need not be a veth.")}},
      {"tap", {Key::required_key("interface", Schema::string(), "Network interface that is created.")}},
      {"memif",
       {Key::required_key("socket", Schema::string(), "Path of the unix socket."), role(),
        Key::with_default("id", Schema::integer(0, 0xffffffff), Value(0),
                          "Interface id, equal on both sides; tells interfaces on one socket apart.")}},
      {"vhost", {Key::required_key("socket", Schema::string(), "Path of the unix socket."), role()}},
      {"pcap",
       {Key::optional_key("rx_file", Schema::string(), "Capture whose packets are received."),
        Key::optional_key("tx_file", Schema::string(), "Capture that sent packets are written to."),
        Key::with_default("infinite", Schema::boolean(), Value(false), "Receive the capture over and over."),
        Key::with_default("pace", Schema::one_of({"none", "capture", "rate"}), Value("none"),
                          "When packets come: as fast as the switch takes them, at the capture's own times, or evenly "
                          "at rate_pps."),
        Key::optional_key("speed", Schema::number(0.001, 1000),
                          "With pace: capture, how much faster than captured; default: 1."),
        Key::optional_key("rate_pps", Schema::integer(1, 1'000'000'000), "With pace: rate, packets in a second."),
        Key::with_default("loops", Schema::integer(1, 1'000'000'000), Value(1),
                          "With a pace, how often the capture is received.")}},
      {"null",
       {Key::with_default("rx", Schema::boolean(), Value(false), "Receive empty frames as fast as possible."),
        Key::with_default("frame_bytes", Schema::integer(60, 9234), Value(64), "Length of received frames.")}},
      {"generator", generator_keys()},
      {"link",
       {Key::required_key("peer", Schema::string(),
                          "The port at the other end, as switch/port; that port names this one.")}},
  };
}

Schema port_schema() {
  std::vector<std::pair<std::string, Schema>> types;
  for (auto& [type, own] : own_port_keys()) {
    auto keys = common_port_keys();
    keys.insert(keys.end(), own.begin(), own.end());
    types.emplace_back(type, Schema::map(std::move(keys)));
  }
  return Schema::tagged("type", std::move(types));
}

Schema address_schema() {
  return Schema::map({
      Key::required_key("port", Schema::name(), "Port of this switch."),
      Key::required_key("address", Schema::prefix(), "Address of the switch and length of the connected subnet."),
  });
}

Schema neighbour_schema() {
  return Schema::map({
      Key::required_key("port", Schema::name(), "Port of this switch."),
      Key::required_key("address", Schema::ip(), "Address in a subnet connected to the port."),
      Key::required_key("mac", Schema::mac(), "MAC address of the neighbour."),
  });
}

Schema route_schema() {
  const Schema hop = Schema::either(
      Schema::ip(),
      Schema::map({
          Key::required_key("address", Schema::ip(), "Address of the next hop."),
          Key::optional_key("port", Schema::name(), "Port; default: the one whose connected subnet holds the address."),
      }));
  return Schema::map({
      Key::required_key("prefix", Schema::prefix(), "Destinations; no host bits."),
      Key::optional_key("via", Schema::list(hop, 1), "Next hops; several are an equal-cost group."),
      Key::optional_key("blackhole", Schema::boolean(), "Drop instead of forward."),
  });
}

Schema static_mac_schema() {
  return Schema::map({
      Key::required_key("mac", Schema::mac(), "Unicast MAC address."),
      Key::with_default("vlan", vid(), Value(1), "VLAN id."),
      Key::required_key("port", Schema::name(), "Port of this switch."),
  });
}

Schema kernel_schema() {
  return Schema::map({
      Key::optional_key("namespace", Schema::name(),
                        "Network namespace, as in `ip netns`, with the switch's interfaces; default: weft's own."),
      Key::with_default("prefix", Schema::text(), Value(""),
                        "What the names of the interfaces begin with; the name of the port follows."),
      Key::with_default("packets_per_s", Schema::integer(1, 1'000'000), Value(10'000),
                        "Packets a second to the kernel from each port, a twentieth of them at once."),
  });
}

Schema fault_schema() {
  return Schema::map({
      Key::required_key("at_s", Schema::number(0, 1e6), "Seconds after the start of the process."),
      Key::required_key("port", Schema::name(), "Port of this switch."),
      Key::optional_key("link", Schema::one_of({"up", "down"}), "Take the link down, or bring it up."),
      Key::optional_key("rate_mbps", Schema::integer(0, kMaxRateMbps), "As of a port: 0 is as fast as the device."),
      Key::optional_key("delay_ns", Schema::integer(0, kMaxDelayNs), "As of a port."),
  });
}

Schema eal_schema() {
  return Schema::map({
      Key::optional_key("workers", Schema::list(Schema::integer(0, kMaxCpu), 1),
                        "CPU ids, one worker thread each; default: what `workers` says, or the last CPU that the "
                        "process may use."),
      Key::with_default("hugepages", Schema::one_of({"auto", "on", "off"}), Value("auto"),
                        "Whether packet memory comes from hugepages; auto: when there are free ones."),
      Key::optional_key("memory_mb", Schema::integer(16, 1 << 20), "Memory; default: what the packet buffers need."),
      Key::with_default("mbufs", Schema::integer(512, 1 << 24), Value(16384), "Packet buffers."),
      Key::with_default("mbuf_data_room_bytes", Schema::integer(512, 65535), Value(8320),
                        "Bytes per packet buffer, 128 bytes of headroom included; longer frames take several."),
      Key::with_default("burst", Schema::integer(1, 64), Value(32), "Packets that a port receives or sends at once."),
      Key::with_default("extra_args", Schema::list(Schema::string()), Value(Value::List{}),
                        "More arguments of DPDK's environment, as they are."),
  });
}

Schema workers_schema() {
  return Schema::map({
      Key::optional_key("count", Schema::integer(1, WorkerSet::kMost),
                        "Worker threads, one CPU each; default: as many as cores, or one. At most as many as cores."),
      Key::optional_key("cores", Schema::list(Schema::integer(0, kMaxCpu), 1),
                        "CPU ids, as in eal.workers; default: the last CPUs that the process may use."),
      Key::optional_key("numa", Schema::integer(0, kMaxNumaNode), "NUMA node of all workers' CPUs; default: any."),
      Key::optional_key("per_port", Schema::integer(1, WorkerSet::kMost),
                        "Workers that poll a port, each a receive queue of its own, from the port's worker on. A `pci` "
                        "port whose device cannot do that is refused; other devices are polled by one worker then. "
                        "Default: all workers where the device can, one where it cannot."),
  });
}

Schema control_tcp_schema() {
  return Schema::map({
      Key::required_key("address", Schema::ip(), "Own address to listen on."),
      Key::with_default("port", Schema::integer(0, 65535), Value(9796), "TCP port; 0: a free one, named in the log."),
      Key::required_key("certificate", Schema::string(), "PEM file with the service's certificate."),
      Key::required_key("key", Schema::string(), "PEM file with the certificate's private key, without passphrase."),
      Key::required_key("client_ca", Schema::string(), "PEM file with the authorities whose clients may connect."),
      Key::optional_key("operators", Schema::list(Schema::string()),
                        "Names in certificates, common or alternative, of clients that may do everything. Others may "
                        "only report as agents on hosts (rdma_track). Default: all clients may do everything."),
  });
}

Schema metrics_schema() {
  return Schema::map({
      Key::with_default("address", Schema::ip(), Value("127.0.0.1"),
                        "Own address to listen on. Whoever can reach it can read the counters."),
      Key::with_default("port", Schema::integer(0, 65535), Value(9795), "TCP port; 0: a free one, named in the log."),
  });
}

}  // namespace

std::vector<Key> common_port_keys() {
  const Schema trunk = Schema::map({
      Key::required_key("vlans", vid_list(), "VLANs that are sent and received tagged: ids, or ranges as \"20-30\"."),
      Key::optional_key("native", vid(), "VLAN of untagged frames; default: untagged frames are dropped."),
  });
  return {
      Key::required_key("name", Schema::name(), "Name of the port, unique in its switch."),
      Key::optional_key("mac", Schema::mac(), "The port's own MAC address; default: the device's."),
      Key::optional_key("mtu_bytes", Schema::integer(kMinMtu, kMaxMtu),
                        "Largest IP packet in bytes; default: the device's MTU, 4200 where the device has none."),
      Key::with_default("rate_mbps", Schema::integer(0, kMaxRateMbps), Value(0),
                        "Emulated rate of sending in Mbit/s, preamble and gap included; 0: as fast as the device."),
      Key::with_default(
          "overhead_bytes", Schema::integer(-64, 256), Value(24),
          "What a frame takes of rate_mbps beyond its own bytes, as tc-cake's overhead: preamble, FCS and "
          "gap of Ethernet."),
      Key::with_default("mpu_bytes", Schema::integer(1, 256), Value(84),
                        "The least that a frame takes of rate_mbps, overhead included, as tc-cake's mpu."),
      Key::with_default("delay_ns", Schema::integer(0, kMaxDelayNs), Value(0),
                        "Emulated propagation delay of the link out of this port in nanoseconds."),
      Key::with_default("queue_packets", Schema::integer(1, 1 << 20), Value(1024),
                        "Capacity of the egress queue in packets."),
      Key::optional_key("worker", Schema::integer(0, 63),
                        "The worker that polls the port and serves its queues: a place in the list of CPUs, from 0; "
                        "default: ports go to the workers in turn."),
      Key::optional_key("access_vlan", vid(), "The one VLAN of the port, untagged; default: 1."),
      Key::optional_key("trunk", trunk, "802.1Q trunk; excludes access_vlan."),
  };
}

Schema switch_schema() {
  return Schema::map({
      Key::required_key("name", Schema::name(), "Name of the switch, unique in the file."),
      Key::optional_key("seed", Schema::integer(0, INT64_MAX),
                        "Seed of the random source and of the ECMP hash; default: the position in the file, from 1."),
      Key::with_default("icrc", Schema::one_of({"incremental", "full"}), Value("incremental"),
                        "How stages that rewrite a RoCE packet update its ICRC."),
      Key::required_key("ports", Schema::list(port_schema(), 1), "Ports, in the order of their indexes."),
      Key::optional_key("vlans", vid_list(), "VLANs that exist; default: all that ports use."),
      Key::with_default("addresses", Schema::list(address_schema()), Value(Value::List{}),
                        "Addresses of the switch on its ports (l3)."),
      Key::with_default("neighbours", Schema::list(neighbour_schema()), Value(Value::List{}),
                        "Static ARP and ND entries (l3)."),
      Key::with_default("routes", Schema::list(route_schema()), Value(Value::List{}), "Static routes (l3)."),
      Key::with_default("static_macs", Schema::list(static_mac_schema()), Value(Value::List{}),
                        "Static forwarding entries (l2)."),
      Key::with_default("faults", Schema::list(fault_schema()), Value(Value::List{}),
                        "Changes of links at given times, for experiments; see also weftctl set port."),
      Key::optional_key("kernel", kernel_schema(),
                        "The kernel is the control plane: it has an interface for every port. With l3 it answers for "
                        "the switch, and its routes, neighbours and addresses are the switch's; with l2 it gets and "
                        "sends link-local control frames (LLDP, LACP)."),
      Key::optional_key("qos", qos_schema(),
                        "Class queues, a shared buffer, ECN and PFC, in SONiC's words; `{}`: a lossless ToR for RoCE. "
                        "Default: every port has one FIFO."),
      Key::required_key("pipeline", Schema::stages(), "Stages in the order in which packets meet them."),
  });
}

Schema config_schema() {
  const Schema control = Schema::map({
      Key::with_default("socket", Schema::text(), Value("/run/weft/weft.sock"),
                        "Path of the unix socket of the control service; \"\": none."),
      Key::optional_key("tcp", control_tcp_schema(),
                        "Also listens on TCP, for clients that show a certificate; default: does not."),
  });
  const Schema log = Schema::map({
      Key::with_default("level", Schema::one_of({"trace", "debug", "info", "warning", "error"}), Value("info"),
                        "Least important messages that are written."),
  });
  return Schema::map({
      Key::optional_key("workers", workers_schema(), "How many workers there are, and on which CPUs."),
      Key::with_default("eal", eal_schema(), Value(Value::Map{}), "Workers, memory and DPDK's environment."),
      Key::with_default("idle", Schema::one_of({"poll", "sleep", "adaptive"}), Value("adaptive"),
                        "What a worker does when it has nothing to do."),
      Key::with_default("steer", Schema::one_of({"ip_pair", "qp"}), Value("ip_pair"),
                        "How packets are spread over workers. ip_pair: all packets between two hosts to one worker, "
                        "with cards that have RSS to the one that they bring them to. "
                        "qp: each connection that is made by CM, and each pair in rdma_track's qps, to one worker, in "
                        "turn; all else as ip_pair."),
      Key::with_default("control", control, Value(Value::Map{}), "The control service."),
      Key::optional_key("metrics", metrics_schema(), "Counters over HTTP for Prometheus; default: none."),
      Key::with_default("log", log, Value(Value::Map{}), "Messages of the process."),
      Key::required_key("switches", Schema::list(switch_schema(), 1), "Switches of this process."),
  });
}

nlohmann::json config_json_schema(const pipeline::Registry& registry) {
  using nlohmann::json;
  json alone = json::array();
  json with_options = json::object();
  for (const auto& type : registry.types()) {
    const auto& keys = type.options.node().keys;
    if (std::none_of(keys.begin(), keys.end(), [](const auto& key) { return key.required; }))
      alone.push_back(type.name);
    json options{{"anyOf", json::array({type.options.to_json_schema(), json{{"type", "null"}}})}};
    options["description"] = type.summary;
    with_options[type.name] = std::move(options);
  }
  const json item{{"anyOf", json::array({json{{"enum", alone}}, json{{"type", "object"},
                                                                     {"additionalProperties", false},
                                                                     {"minProperties", 1},
                                                                     {"maxProperties", 1},
                                                                     {"properties", std::move(with_options)}}})}};
  json schema = config_schema().to_json_schema();
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "weft configuration";
  schema["$defs"]["stages"] = {{"type", "array"}, {"minItems", 1}, {"items", item}};
  return schema;
}

}  // namespace weft::config
