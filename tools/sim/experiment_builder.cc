// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/experiment_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "nic/rnic/cc_constants.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/switch_builder.h"
#include "switch/stages/lb/tag.h"
#include "switch/wire/telemetry.h"
#include "tools/sim/payload.h"

namespace weft::sim {
namespace {

using config::Value;

// IPv4, UDP, BTH, RETH, ImmDt and ICRC; and the least MTU that switches are given.
constexpr std::uint32_t kRoceHeaders = 20 + 8 + 12 + 16 + 4 + 4;
constexpr std::uint32_t kLeastMtu = 576;

std::uint64_t mbps(const Value& gbps) {
  return static_cast<std::uint64_t>(std::llround(gbps.number() * 1000));
}

TimeNs from_us(const Value& us) {
  return static_cast<TimeNs>(std::llround(us.number() * 1000));
}

// Both rates and delays of a topology; nullopt when one of them is wrong.
std::optional<Rates> rates_of(const Value& t) {
  if (t["link_gbps"].is_null() || t["delay_ns"].is_null()) return std::nullopt;
  if (t["overhead_bytes"].is_null() || t["mpu_bytes"].is_null()) return std::nullopt;
  Rates rates;
  rates.fabric = {
      mbps(t["link_gbps"]),
      t["delay_ns"].unsigned_integer(),
      {static_cast<std::int16_t>(t["overhead_bytes"].integer()), static_cast<std::uint16_t>(t["mpu_bytes"].integer())}};
  rates.host = rates.fabric;
  if (t.has("host_link_gbps")) rates.host.rate_mbps = mbps(t["host_link_gbps"]);
  if (t.has("host_delay_ns")) rates.host.delay_ns = t["host_delay_ns"].unsigned_integer();
  return rates;
}

// A link as long as between data centres: 20 km and more.
constexpr std::uint64_t kLongLinkNs = 100'000;

bool has_long_link(const Topology& topology) {
  const auto is_long = [](const auto& end) { return end.wire.delay_ns >= kLongLinkNs; };
  const auto has = [&](const SwitchPlan& plan) { return std::any_of(plan.ports.begin(), plan.ports.end(), is_long); };
  return std::any_of(topology.switches().begin(), topology.switches().end(), has);
}

/// What is under way when a flow alone uses its path.
struct RoundTrip {
  std::uint64_t ns = 0;  ///< both ways, without serialisation
  std::uint64_t rate_mbps = UINT64_MAX;
  std::uint64_t bytes = 0;
  bool is_long = false;  ///< a link on the path is
};
RoundTrip round_trip(const std::vector<Wire>& path) {
  RoundTrip trip;
  for (const Wire& wire : path) {
    trip.ns += 2 * wire.delay_ns;
    trip.rate_mbps = std::min(trip.rate_mbps, wire.rate_mbps);
    trip.is_long = trip.is_long || wire.delay_ns >= kLongLinkNs;
  }
  constexpr std::uint64_t kNsMbpsPerByte = 8000;
  trip.bytes = trip.is_long ? trip.ns * trip.rate_mbps / kNsMbpsPerByte : 0;
  return trip;
}

bool has_stage(const Value& pipeline, std::string_view name) {
  const Value::List& stages = pipeline.list_or_empty();
  return std::any_of(stages.begin(), stages.end(), [&](const Value& stage) {
    return stage.is_map() && !stage.map().empty() && stage.map().front().first == name;
  });
}

}  // namespace

void ExperimentBuilder::build(Experiment& out) {
  out.name = source_.has("name") ? source_["name"].string() : std::filesystem::path(file_).stem().string();
  if (!source_["seed"].is_null()) out.seed = source_["seed"].unsigned_integer();
  if (!source_["mbufs"].is_null()) out.mbufs = static_cast<std::uint32_t>(source_["mbufs"].integer());
  if (!source_["time_limit_ms"].is_null()) {
    out.time_limit = static_cast<TimeNs>(std::llround(source_["time_limit_ms"].number() * 1e6));
  }
  if (!source_["rates_every_us"].is_null()) out.rates_every = from_us(source_["rates_every_us"]);
  build_topology(out);
  build_nic(out);
  if (!topology_ok_) return;
  build_switches(out);
  build_workload(out);
  if (!out.inc) out.plan.count_packets(out.qp.path_mtu);
  check_window(out);
  build_faults(out);
  build_payload(out);
}

void ExperimentBuilder::build_payload(Experiment& out) {
  const Value& payload = source_["payload"];
  if (payload.is_null() || payload.string() != "values") return;
  out.payload_values = true;
  if (out.datagrams) error(payload.mark(), "payload: datagrams of 'nic.transport: udp' have no values");
  if (out.inc) return;  // messages are made and compared one by one
  const std::uint64_t bytes = PayloadMemory::bytes_of(out.plan);
  if (bytes > PayloadMemory::kMostBytes) {
    error(payload.mark(), "payload: 'values' keeps every message twice, here " + std::to_string(bytes >> 20) +
                              " MiB; at most " + std::to_string(PayloadMemory::kMostBytes >> 20));
  }
}

void ExperimentBuilder::build_topology(Experiment& out) {
  const Value& t = source_["topology"];
  if (!t.is_map() || t["kind"].is_null()) return;
  const auto rates = rates_of(t);
  if (!rates) return;
  const std::size_t mistakes = diagnostics_.entries().size();
  const std::string& kind = t["kind"].string();
  const auto count = [&](const char* key) { return static_cast<std::uint32_t>(t[key].integer()); };
  if (kind == "leaf_spine") {
    if (t["leaves"].is_null() || t["spines"].is_null() || t["hosts_per_leaf"].is_null()) return;
    if (count("leaves") > 1 && count("spines") == 0) {
      error(t["spines"].mark(), "spines: " + std::to_string(count("leaves")) +
                                    " leaves without a spine cannot reach "
                                    "each other");
    }
    if (std::uint64_t{count("leaves")} > config::kMaxPorts) {
      error(t["leaves"].mark(), "leaves: a spine has at most " + std::to_string(config::kMaxPorts) + " ports, found " +
                                    std::to_string(count("leaves")));
    }
    if (count("spines") > config::kMaxHops) {
      error(t["spines"].mark(), "spines: an equal-cost group has at most " + std::to_string(config::kMaxHops) +
                                    " members, found " + std::to_string(count("spines")));
    }
    if (diagnostics_.entries().size() != mistakes) return;
    out.topology = Topology::leaf_spine(count("leaves"), count("spines"), count("hosts_per_leaf"), *rates);
  } else if (kind == "fat_tree") {
    if (t["k"].is_null()) return;
    if (count("k") % 2 != 0) {
      return error(t["k"].mark(), "k: expected an even number, found " + std::to_string(count("k")));
    }
    const std::uint32_t hosts = t.has("hosts_per_tor") ? count("hosts_per_tor") : count("k") / 2;
    out.topology = Topology::fat_tree(count("k"), hosts, *rates);
  } else {
    build_explicit(t, *rates, out);
  }
  topology_ok_ = diagnostics_.entries().size() == mistakes;
}

std::optional<std::uint32_t> ExperimentBuilder::switch_named(const Value& name, const Topology& topology) {
  if (name.is_null()) return std::nullopt;
  std::vector<std::string> known;
  for (std::uint32_t i = 0; i < topology.switches().size(); ++i) {
    if (topology.switches()[i].name == name.string()) return i;
    known.push_back(topology.switches()[i].name);
  }
  error(name.mark(), "unknown switch " + config::quote(name.string()) + config::suggestion(name.string(), known));
  return std::nullopt;
}

void ExperimentBuilder::build_explicit(const Value& t, const Rates& rates, Experiment& out) {
  Topology& topology = out.topology;
  for (const Value& name : t["switches"].list_or_empty()) {
    if (name.is_null()) continue;
    for (const SwitchPlan& other : topology.switches()) {
      if (other.name == name.string()) error(name.mark(), "switch '" + other.name + "' stands twice");
    }
    topology.add_switch(name.string(), 0);
  }
  for (const Value& host : t["hosts"].list_or_empty()) {
    if (!host.is_map() || host["name"].is_null() || host["count"].is_null()) continue;
    const auto tor = switch_named(host["switch"], topology);
    if (!tor) continue;
    Wire wire = rates.host;
    if (host.has("gbps")) wire.rate_mbps = mbps(host["gbps"]);
    if (host.has("delay_ns")) wire.delay_ns = host["delay_ns"].unsigned_integer();
    const auto count = static_cast<std::uint32_t>(host["count"].integer());
    for (std::uint32_t i = 0; i < count; ++i) {
      topology.add_host(host["name"].string() + (count > 1 ? std::to_string(i) : ""), *tor, wire);
    }
  }
  for (const Value& link : t["links"].list_or_empty()) {
    if (!link.is_map()) continue;
    const auto a = switch_named(link["a"], topology);
    const auto b = switch_named(link["b"], topology);
    if (!a || !b) continue;
    if (*a == *b) {
      error(link["b"].mark(), "b: a switch is not linked to itself");
      continue;
    }
    Wire wire = rates.fabric;
    if (link.has("gbps")) wire.rate_mbps = mbps(link["gbps"]);
    if (link.has("delay_ns")) wire.delay_ns = link["delay_ns"].unsigned_integer();
    topology.add_link(*a, *b, wire);
  }
  check_size(topology, t);
}

void ExperimentBuilder::check_size(const Topology& topology, const Value& at) {
  for (std::uint32_t i = 0; i < topology.switches().size(); ++i) {
    const SwitchPlan& sw = topology.switches()[i];
    if (sw.ports.empty()) error(at.mark(), "switch '" + sw.name + "' is connected to nothing");
    if (sw.host_count == 0) continue;
    for (std::uint32_t other = 0; other < i; ++other) {
      if (topology.switches()[other].host_count == 0 || !topology.next_hops(i, other).empty()) continue;
      error(at.mark(),
            "hosts of switch '" + sw.name + "' cannot reach those of '" + topology.switches()[other].name + "'");
      return;
    }
  }
}

// What a pipeline says itself must not be said beside it: one of the two would not count.
void ExperimentBuilder::build_pipelines(const Value& s, SwitchSpec& spec) {
  const auto given = [&](const char* key, std::initializer_list<const char*> shorthands, Value& out) {
    if (!s.has(key)) return;
    out = s[key];
    for (const char* shorthand : shorthands) {
      const Value& beside = s[shorthand];
      if (beside.is_null() || (beside.is_string() && beside.string() == "ecmp")) continue;
      error(beside.mark(), std::string(shorthand) + ": belongs into '" + key + "'" + config::at_line(s[key].mark()));
    }
  };
  given("pipeline", {"lb", "lb_options", "nack_filter"}, spec.pipeline);
  given("pipeline_above", {"lb_above"}, spec.pipeline_above);
}

void ExperimentBuilder::build_own_pipelines(const Value& s, const Topology& topology, SwitchSpec& spec) {
  for (const Value& own : s["pipelines"].list_or_empty()) {
    if (!own.is_map() || own["pipeline"].is_null()) continue;
    const auto index = switch_named(own["switch"], topology);
    if (!index) continue;
    if (spec.pipeline_of(*index) != nullptr) {
      error(own["switch"].mark(), "pipelines: switch '" + own["switch"].string() + "' stands twice");
    }
    spec.pipelines.emplace_back(*index, own["pipeline"]);
  }
}

void ExperimentBuilder::build_switches(Experiment& out) {
  const Value& s = source_["switch"];
  if (!s.is_map()) return;
  SwitchSpec& spec = out.switches;
  spec.seed = out.seed;
  if (!s["buffer_mb"].is_null()) spec.buffer_bytes = static_cast<std::uint64_t>(s["buffer_mb"].number() * 1e6);
  if (!s["buffer_model"].is_null()) spec.buffer_model = s["buffer_model"].string();
  if (!s["lb"].is_null()) spec.lb = s["lb"].string();
  if (!s["lb_above"].is_null()) spec.lb_above = s["lb_above"].string();
  if (!s["pfc"].is_null()) spec.pfc = s["pfc"].boolean();
  const Value& convergence = s["convergence_us"];
  if (!convergence.is_null() && !convergence.is_string()) out.convergence = from_us(convergence);
  if (s.has("lb_options")) spec.lb_options = s["lb_options"];
  if (s.has("nack_filter")) spec.nack_filter = s["nack_filter"];
  build_pipelines(s, spec);
  build_own_pipelines(s, out.topology, spec);
  // What fits a link without a tag has to fit with it.
  const bool tags = has_stage(spec.pipeline, "lb_tag") ||
                    std::any_of(spec.pipelines.begin(), spec.pipelines.end(),
                                [](const auto& own) { return has_stage(own.second, "lb_tag"); });
  if (tags) spec.max_frame_bytes += stages::kTagBytes;
  for (const Value& name : s["unlimited"].list_or_empty()) {
    if (const auto index = switch_named(name, out.topology)) spec.unlimited.push_back(*index);
  }
  for (const Value& own : s["buffers"].list_or_empty()) {
    if (!own.is_map() || own["buffer_mb"].is_null()) continue;
    const auto index = switch_named(own["switch"], out.topology);
    if (index) spec.buffers.push_back({*index, static_cast<std::uint64_t>(own["buffer_mb"].number() * 1e6)});
  }
  const Value& ecn = s["ecn"];
  if (ecn.is_string()) spec.ecn_enabled = ecn.string() != "disabled";
  if (ecn.is_map()) spec.ecn = ecn_of(ecn);
  for (const Value& own : ecn.is_string() || ecn.is_map() ? Value::List{} : ecn.list_or_empty()) {
    const auto marks = own.is_map() ? ecn_of(own) : std::nullopt;
    if (marks && !own["gbps"].is_null()) spec.ecn_by_rate.emplace_back(mbps(own["gbps"]), *marks);
  }
  for (const Value& own : s["buffer_profiles"].list_or_empty()) {
    if (own.is_map() && !own["gbps"].is_null()) spec.buffer_profiles.emplace_back(mbps(own["gbps"]), own);
  }
}

std::optional<EcnSpec> ExperimentBuilder::ecn_of(const Value& ecn) {
  if (ecn["kmin_kb"].is_null() || ecn["kmax_kb"].is_null() || ecn["pmax"].is_null()) return std::nullopt;
  if (ecn["kmin_kb"].number() > ecn["kmax_kb"].number()) {
    error(ecn["kmax_kb"].mark(), "kmax_kb: expected at least kmin_kb" + config::at_line(ecn["kmin_kb"].mark()));
  }
  return EcnSpec{static_cast<std::uint64_t>(ecn["kmin_kb"].number() * 1000),
                 static_cast<std::uint64_t>(ecn["kmax_kb"].number() * 1000), ecn["pmax"].number()};
}

void ExperimentBuilder::build_nic(Experiment& out) {
  const Value& n = source_["nic"];
  if (!n.is_map()) return;
  nic::QpConfig& qp = out.qp;
  const auto number = [&](const char* key) { return static_cast<std::uint32_t>(n[key].integer()); };
  if (!n["transport"].is_null()) {
    out.datagrams = n["transport"].string() == "udp";
    if (!out.datagrams) qp.loss_recovery = *nic::loss_recovery_from_name(n["transport"].string());
  }
  if (!n["renack"].is_null()) qp.renack = *nic::renack_from_name(n["renack"].string());
  if (!n["nack_is_cnp"].is_null()) qp.nack_is_cnp = n["nack_is_cnp"].boolean();
  if (!n["mtu"].is_null()) qp.path_mtu = number("mtu");
  const bool hpcc = n["cc"].is_map() && n["cc"]["kind"].is_string() && n["cc"]["kind"].string() == "hpcc";
  const std::uint32_t options = hpcc ? std::uint32_t{wire::kIntOptionBytes} : 0;
  // What fits a port is what headroom is made for.
  out.switches.max_frame_bytes = std::max(qp.path_mtu + kRoceHeaders + options, kLeastMtu);
  if (!n["window"].is_null()) {
    qp.max_inflight_packets = number("window");
    qp.reorder_window = std::bit_ceil(qp.max_inflight_packets);
    const bool fits = qp.reorder_window == qp.max_inflight_packets && qp.reorder_window <= nic::kMaxReorderWindow;
    if (qp.loss_recovery == nic::LossRecovery::gbn) {
      qp.reorder_window = 1;
    } else if (!fits) {
      error(n["window"].mark(), "window: expected a power of two up to " + std::to_string(nic::kMaxReorderWindow) +
                                    " with transport " + std::string(nic::name(qp.loss_recovery)) + ", found " +
                                    std::to_string(qp.max_inflight_packets));
    }
  }
  if (!n["max_inflight_bytes"].is_null()) qp.max_inflight_bytes = n["max_inflight_bytes"].unsigned_integer();
  if (!n["ack_every"].is_null()) qp.ack_interval = number("ack_every");
  if (!n["rto_us"].is_null()) qp.rto_ns = static_cast<nic::Time>(from_us(n["rto_us"]));
  if (!n["ack_dscp"].is_null()) qp.ack_dscp = static_cast<std::uint8_t>(number("ack_dscp"));
  if (!n["cnp_dscp"].is_null()) qp.cnp_dscp = static_cast<std::uint8_t>(number("cnp_dscp"));
  qp.dscp = 3;
  if (n["cc"].is_map() && !n["cc"]["kind"].is_null()) build_congestion_control(n["cc"], out);
}

void ExperimentBuilder::check_window(const Experiment& out) {
  const Value& n = source_["nic"];
  if (!n.is_map() || n["window"].is_null() || out.datagrams) return;
  if (n["window_below_bdp"].is_null() || n["window_below_bdp"].boolean()) return;
  if (!has_long_link(out.topology)) return;
  std::uint64_t window = std::uint64_t{out.qp.max_inflight_packets} * out.qp.path_mtu;
  if (out.qp.max_inflight_bytes != 0) window = std::min(window, out.qp.max_inflight_bytes);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  // pairs of ToRs, between which all hosts are as far apart
  for (const Channel& channel : out.plan.channels) {
    const HostPlan &from = out.topology.hosts()[channel.from], &to = out.topology.hosts()[channel.to];
    if (!seen.insert({from.tor, to.tor}).second) continue;
    const RoundTrip trip = round_trip(out.topology.path(channel.from, channel.to));
    if (!trip.is_long || window >= trip.bytes) continue;
    char text[256];
    std::snprintf(text, sizeof text,
                  "window: from %s to %s and back takes %.4g ms, and %.4g Gbit/s carry %.4g MB meanwhile: a window of "
                  "%.4g MB would be all that is measured; give at least %llu packets of %u bytes, or say "
                  "window_below_bdp: true",
                  from.name.c_str(), to.name.c_str(), static_cast<double>(trip.ns) / 1e6,
                  static_cast<double>(trip.rate_mbps) / 1e3, static_cast<double>(trip.bytes) / 1e6,
                  static_cast<double>(window) / 1e6,
                  static_cast<unsigned long long>((trip.bytes + out.qp.path_mtu - 1) / out.qp.path_mtu),
                  out.qp.path_mtu);
    return error(n["window"].mark(), text);
  }
}

void ExperimentBuilder::build_congestion_control(const Value& cc, Experiment& out) {
  out.qp.congestion_control = *nic::congestion_control_from_name(cc["kind"].string());
  out.switches.telemetry = out.qp.congestion_control == nic::CongestionControl::hpcc;
  if (cc.has("preset")) {
    out.cc_preset = cc["preset"].string();
    if (out.qp.congestion_control != nic::CongestionControl::dcqcn) {
      error(cc["preset"].mark(), "preset: of dcqcn, not of " + cc["kind"].string());
    }
  }
  // What is right for the first host is right for all, which differ in nothing but their rate.
  nic::QpConfig tried = out.qp;
  if (!out.topology.hosts().empty()) tried.line_bps = out.topology.hosts().front().wire.rate_mbps * 1'000'000;
  const Value* last = &cc;
  for (const auto& [key, value] : cc.map()) {
    if (key == "kind" || key == "preset" || value.is_null()) continue;
    const std::string mistake = nic::set_cc_constant(tried, key, value.number());
    if (!mistake.empty()) error(value.mark(), mistake);
    out.cc_constants.emplace_back(key, value.number());
    last = &value;
  }
  const std::string mistake = nic::cc_mistake(tried);
  if (!mistake.empty()) error(last->mark(), mistake);
}

Groups ExperimentBuilder::groups_of(const Value& w, const Experiment& out) {
  const auto all = static_cast<std::uint32_t>(out.topology.hosts().size());
  const auto hosts = w.has("hosts") ? static_cast<std::uint32_t>(w["hosts"].integer()) : all;
  if (hosts > all) {
    error(w["hosts"].mark(), "hosts: there are " + std::to_string(all));
    return {};
  }
  const auto groups = static_cast<std::uint32_t>(w["groups"].integer());
  if (hosts % groups != 0 || hosts / groups < 2) {
    const auto& mark = w["groups"].mark().line > 0 ? w["groups"].mark() : w.mark();
    error(mark, "groups: " + std::to_string(hosts) + " hosts do not make " + std::to_string(groups) +
                    " groups of equal size with at least two each");
    return {};
  }
  return interleaved_groups(hosts, groups);
}

void ExperimentBuilder::build_workload(Experiment& out) {
  const Value& w = source_["workload"];
  if (!w.is_map() || w["kind"].is_null()) return;
  const std::string& kind = w["kind"].string();
  if (kind == "flows") return build_flows(w, out);
  if (kind == "poisson") return build_poisson(w, out);
  if (kind == "inc") return build_inc(w, out);
  if (w["groups"].is_null()) return;
  const Groups groups = groups_of(w, out);
  if (groups.empty()) return;
  if (kind == "barrier_rank0") out.plan = barrier_rank0(groups);
  if (kind == "barrier_rank0" || w["bytes"].is_null()) return;
  const std::uint64_t bytes = w["bytes"].unsigned_integer();
  if (kind == "ring") out.plan = ring_permutation(groups, bytes);
  if (kind == "ring_allreduce") out.plan = ring_allreduce(groups, bytes);
  if (kind == "ring_reducescatter" || kind == "ring_allgather") out.plan = ring_reducescatter(groups, bytes);
  if (kind == "incast") out.plan = incast(groups, bytes);
  if (kind == "alltoall" && !w["schedule"].is_null()) {
    out.plan = alltoall(groups, bytes, w["schedule"].string() == "rotated");
  }
  if (kind != "halving_doubling_allreduce") return;
  if (!std::has_single_bit(groups[0].size())) {
    return error(w.mark(), "workload: halving and doubling takes groups whose size is a power of two, found " +
                               std::to_string(groups[0].size()));
  }
  out.plan = halving_doubling_allreduce(groups, bytes);
}

void ExperimentBuilder::build_faults(Experiment& out) {
  for (const Value& f : source_["faults"].list_or_empty()) {
    if (!f.is_map() || f["link"].is_null() || f["loss"].is_null()) continue;
    Fault fault;
    fault.loss = f["loss"].number();
    if (f.has("down_at_us")) fault.down_at = from_us(f["down_at_us"]);
    if (f.has("up_at_us")) fault.up_at = from_us(f["up_at_us"]);
    if (fault.up_at && (!fault.down_at || *fault.up_at <= *fault.down_at)) {
      error(f["up_at_us"].mark(), "up_at_us: expected a time after down_at_us");
    }
    const std::string& link = f["link"].string();
    fault.scope = link == "fabric" ? Fault::Scope::fabric : link == "all" ? Fault::Scope::all : Fault::Scope::one;
    if (fault.scope == Fault::Scope::one && !find_link(f["link"], out.topology, fault)) continue;
    out.faults.push_back(fault);
  }
}

// "leaf0/spine1" or "host3/leaf0", in either order.
bool ExperimentBuilder::find_link(const Value& name, const Topology& topology, Fault& fault) {
  const std::string& text = name.string();
  const std::size_t slash = text.find('/');
  const std::string ends[2] = {text.substr(0, slash), slash == text.npos ? "" : text.substr(slash + 1)};
  for (const bool swapped : {false, true}) {
    const std::string& a = ends[swapped ? 1 : 0];
    const std::string& b = ends[swapped ? 0 : 1];
    for (std::uint32_t s = 0; s < topology.switches().size(); ++s) {
      if (topology.switches()[s].name != b) continue;
      for (std::size_t p = 0; p < topology.switches()[s].ports.size(); ++p) {
        const PortPlan& port = topology.switches()[s].ports[p];
        const std::string& peer = port.to_host ? topology.hosts()[port.peer].name : topology.switches()[port.peer].name;
        if (peer != a) continue;
        fault.at_switch = s;
        fault.port = static_cast<PortIndex>(p);
        return true;
      }
    }
  }
  error(name.mark(),
        "link: expected fabric, all, or two nodes that are linked, as leaf0/spine1, found " + config::quote(text));
  return false;
}

}  // namespace weft::sim
