// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/switch_document.h"

#include <algorithm>
#include <type_traits>

#include "switch/config/config_schema.h"
#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "switch/config/switch_builder.h"
#include "switch/qos/defaults.h"
#include "tools/sim/seeds.h"

namespace weft::sim {
namespace {

using config::Value;
using Map = Value::Map;
using List = Value::List;

// The data class: DSCP 3 is traffic class 3 in the switch's own default maps.
constexpr const char* kDataQueue = "|3";

std::string port_name(const Topology& t, const PortPlan& port, std::size_t index) {
  return (port.to_host ? t.hosts()[port.peer].name : t.switches()[port.peer].name) + "." + std::to_string(index);
}

Value ports(const Topology& t, const SwitchPlan& sw, const SwitchSpec& spec) {
  List list;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    const PortPlan& port = sw.ports[i];
    list.emplace_back(Map{{"name", Value(port_name(t, port, i))},
                          {"type", Value("link")},
                          {"peer", Value("elsewhere/p" + std::to_string(i))},
                          {"mac", Value(port.mac.to_string())},
                          {"mtu_bytes", Value(spec.max_frame_bytes)},
                          {"rate_mbps", Value(port.wire.rate_mbps)},
                          {"delay_ns", Value(port.wire.delay_ns)},
                          {"overhead_bytes", Value(port.wire.framing.overhead_bytes)},
                          {"mpu_bytes", Value(port.wire.framing.mpu_bytes)}});
  }
  return Value(std::move(list));
}

Value addresses(const Topology& t, const SwitchPlan& sw) {
  List list;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    list.emplace_back(Map{{"port", Value(port_name(t, sw.ports[i], i))},
                          {"address", Value(sw.ports[i].address.to_string() + "/31")}});
  }
  return Value(std::move(list));
}

Value neighbours(const Topology& t, const SwitchPlan& sw) {
  List list;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    const PortPlan& port = sw.ports[i];
    const wire::MacAddress mac =
        port.to_host ? t.hosts()[port.peer].mac : t.switches()[port.peer].ports[port.peer_port].mac;
    list.emplace_back(Map{{"port", Value(port_name(t, port, i))},
                          {"address", Value(port.peer_address.to_string())},
                          {"mac", Value(mac.to_string())}});
  }
  return Value(std::move(list));
}

Value routes(const Topology& t, std::uint32_t index) {
  List list;
  for (std::uint32_t tor = 0; tor < t.switches().size(); ++tor) {
    const SwitchPlan& to = t.switches()[tor];
    if (to.host_count == 0 || tor == index) continue;
    List via;
    for (const PortIndex p : t.next_hops(index, tor)) {
      via.emplace_back(t.switches()[index].ports[p].peer_address.to_string());
    }
    if (via.empty()) continue;
    list.emplace_back(Map{{"prefix", Value(to.subnet.network().to_string())}, {"via", Value(std::move(via))}});
  }
  return Value(std::move(list));
}

// What an experiment says of the priority group of the data class, by the rates of ports.
void buffer_profiles(const Topology& t, const SwitchPlan& sw, const SwitchSpec& spec, Map& qos) {
  if (spec.buffer_profiles.empty() || !spec.pfc) return;
  Map profiles;
  Map groups;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    const Wire& wire = sw.ports[i].wire;
    for (const auto& [mbps, own] : spec.buffer_profiles) {
      if (mbps != wire.rate_mbps) continue;
      const auto share = qos::lossless_group(
          {.speed_mbps = mbps, .delay_ns = wire.delay_ns, .mtu_bytes = spec.max_frame_bytes, .workers = 1});
      const auto value = [&](const char* key, std::uint64_t usual) { return own.has(key) ? own[key] : Value(usual); };
      const std::string name = "of_" + port_name(t, sw.ports[i], i);
      const Value threshold = own.has("dynamic_th") ? own["dynamic_th"] : Value(*share.dynamic_th);
      profiles.emplace_back(name, Value(Map{{"size", value("size", share.reserve_bytes)},
                                            {"dynamic_th", threshold},
                                            {"xoff", value("xoff", share.headroom_bytes)}}));
      groups.emplace_back(port_name(t, sw.ports[i], i) + kDataQueue, Value(Map{{"profile", Value(name)}}));
    }
  }
  qos.emplace_back("BUFFER_PROFILE", Value(std::move(profiles)));
  qos.emplace_back("BUFFER_PG", Value(std::move(groups)));
}

Value qos(const Topology& t, const SwitchPlan& sw, const SwitchSpec& spec, std::uint64_t buffer_bytes) {
  Map qos;
  List lossless;
  if (spec.pfc) lossless.emplace_back(3);
  qos.emplace_back("PORT_QOS_MAP", Value(Map{{"all", Value(Map{{"pfc_enable", Value(std::move(lossless))}})}}));
  Map profiles;
  Map queues;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    const std::uint64_t rate = sw.ports[i].wire.rate_mbps;
    const std::string profile = spec.ecn_enabled ? "at_" + std::to_string(rate) : "none";
    queues.emplace_back(port_name(t, sw.ports[i], i) + kDataQueue, Value(Map{{"wred_profile", Value(profile)}}));
    const auto same = [&](const auto& known) { return known.first == profile; };
    if (!spec.ecn_enabled || std::any_of(profiles.begin(), profiles.end(), same)) continue;
    const auto mark = qos::default_wred(rate).mark;
    EcnSpec ecn = spec.ecn.value_or(EcnSpec{mark.min_bytes, mark.max_bytes, mark.probability});
    for (const auto& [mbps, own] : spec.ecn_by_rate) {
      if (mbps == rate) ecn = own;
    }
    profiles.emplace_back(profile, Value(Map{{"green_min_threshold", Value(ecn.kmin_bytes)},
                                             {"green_max_threshold", Value(ecn.kmax_bytes)},
                                             {"green_drop_probability", Value(ecn.pmax * 100)}}));
  }
  buffer_profiles(t, sw, spec, qos);
  qos.emplace_back("WRED_PROFILE", Value(std::move(profiles)));
  qos.emplace_back("QUEUE", Value(std::move(queues)));
  qos.emplace_back("BUFFER_POOL", Value(Map{{"size", Value(buffer_bytes)}, {"model", Value(spec.buffer_model)}}));
  // A watchdog that empties paused queues would hide what pauses do.
  qos.emplace_back("PFC_WD", Value(Map{{"all", Value(Map{{"action", Value("off")}})}}));
  return Value(std::move(qos));
}

Value tracked(const Topology& t, std::uint32_t index, const std::vector<QpPairPlan>& qps) {
  List list;
  const auto end = [&](std::uint32_t host, std::uint32_t qpn) {
    return Value(Map{{"address", Value(t.hosts()[host].address.to_string())}, {"qpn", Value(qpn)}});
  };
  for (const QpPairPlan& qp : qps) {
    // A queue pair inside of the rack takes no state (Themis, section 4). Above, any may come by.
    if (t.switches()[index].host_count != 0 && (t.hosts()[qp.a].tor == index) == (t.hosts()[qp.b].tor == index))
      continue;
    list.emplace_back(Map{{"a", end(qp.a, qp.qpn_a)}, {"b", end(qp.b, qp.qpn_b)}});
  }
  const std::size_t room = std::max<std::size_t>(1024, list.size() * 4);
  return Value(Map{{"max_qps", Value(static_cast<std::int64_t>(room))}, {"qps", Value(std::move(list))}});
}

// Options of stage lb on ToRs; null: none.
const Value& lb_options_of(const SwitchSpec& spec) {
  for (const Value& stage : spec.pipeline.list_or_empty()) {
    if (stage.is_map() && stage.has("lb")) return stage["lb"];
  }
  return spec.lb_options;
}

// What `psn` on the ToRs knows of the hashes above them must be so.
Value hash_seed_of(const SwitchPlan& sw, const SwitchSpec& spec) {
  const Value& lb = lb_options_of(spec);
  if (sw.tier > 0 && lb.is_map() && lb.has("tiers_above")) {
    const List& tiers = lb["tiers_above"].list_or_empty();
    if (sw.tier <= tiers.size()) return tiers[sw.tier - 1]["seed"];
  }
  return Value(seed_of(spec.seed, RandomUse::switch_hash, sw.name));
}

Value with_options(const char* stage, Value options) {
  return Value(Map{{stage, std::move(options)}});
}

List uplinks_of(const Topology& t, const SwitchPlan& sw) {
  List uplinks;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    if (!sw.ports[i].to_host) uplinks.emplace_back(port_name(t, sw.ports[i], i));
  }
  return uplinks;
}

// The options of a stage with the switch's own ports in the place of kUplinks.
Value with_ports(const Topology& t, const SwitchPlan& sw, const Value& options) {
  if (!options.is_map()) return options;
  Value out = options;
  for (const auto& [key, value] : options.map()) {
    const bool is_list = value.visit([](const auto& v) { return std::is_same_v<std::decay_t<decltype(v)>, List>; });
    if (!is_list) continue;
    List list;
    for (const Value& item : value.list()) {
      if (item.is_string() && item.string() == kUplinks) {
        for (Value& port : uplinks_of(t, sw)) list.push_back(std::move(port));
      } else {
        list.push_back(item);
      }
    }
    Value replaced(std::move(list));
    replaced.set_mark(value.mark());
    out.set(key, std::move(replaced));
  }
  return out;
}

// Every ToR is a leaf.
Value leaves_of(const Topology& t) {
  List leaves;
  for (std::size_t tor = 0; tor < t.switches().size(); ++tor) {
    const SwitchPlan& sw = t.switches()[tor];
    if (sw.host_count == 0) continue;
    leaves.emplace_back(Map{{"id", Value(tor + 1)}, {"prefixes", Value(List{Value(sw.subnet.network().to_string())})}});
  }
  return Value(std::move(leaves));
}

// Of a switch above the ToRs, with Gemma: the leaves behind each port that leads down, and the ports that lead up.
void add_downlinks(const Topology& t, std::uint32_t index, Value& lb_tag) {
  const SwitchPlan& sw = t.switches()[index];
  List downlinks, uplinks;
  for (std::size_t i = 0; i < sw.ports.size(); ++i) {
    if (sw.ports[i].to_host) continue;
    const Value name(port_name(t, sw.ports[i], i));
    if (t.switches()[sw.ports[i].peer].tier > sw.tier) {
      uplinks.push_back(name);
      continue;
    }
    List leaves;
    for (std::uint32_t tor = 0; tor < t.switches().size(); ++tor) {
      const auto hops = t.next_hops(index, tor);
      const bool behind = std::find(hops.begin(), hops.end(), static_cast<PortIndex>(i)) != hops.end();
      if (behind && t.switches()[tor].host_count != 0) leaves.emplace_back(tor + 1);
    }
    if (!leaves.empty()) downlinks.emplace_back(Map{{"port", name}, {"leaves", Value(std::move(leaves))}});
  }
  Value gemma = lb_tag["gemma"];
  gemma.set("downlinks", Value(std::move(downlinks)));
  if (!uplinks.empty()) lb_tag.set("leaves", leaves_of(t));
  lb_tag.set("uplinks", Value(std::move(uplinks)));
  lb_tag.set("gemma", std::move(gemma));
}

// What lb_tag says of the fabric, unless the experiment does.
void add_fabric(const Topology& t, std::uint32_t index, Value& lb_tag) {
  if (t.switches()[index].host_count != 0) {
    if (!lb_tag["leaves"].list_or_empty().empty()) return;
    lb_tag.set("leaf", Value(index + 1));
    lb_tag.set("leaves", leaves_of(t));
  } else if (lb_tag.has("gemma") && lb_tag["gemma"]["downlinks"].list_or_empty().empty()) {
    add_downlinks(t, index, lb_tag);
  }
}

// A pipeline of the experiment. What nobody can know before the run is filled in: the queue pairs, and the leaves,
// unless it names some.
Value given_pipeline(const Topology& t, std::uint32_t index, const Value& pipeline,
                     const std::vector<QpPairPlan>& qps) {
  List stages;
  for (const Value& stage : pipeline.list()) {
    for (const auto& [name, options] : stage.map()) {
      Value own = with_ports(t, t.switches()[index], options);
      if (name == "rdma_track" && own["qps"].list_or_empty().empty()) {
        const Value all = tracked(t, index, qps);
        own.set("qps", all["qps"]);
        if (own["max_qps"].integer() < all["max_qps"].integer()) own.set("max_qps", all["max_qps"]);
      }
      if (name == "lb_tag") add_fabric(t, index, own);
      stages.emplace_back(Map{{name, std::move(own)}});
      stages.back().set_mark(stage.mark());
    }
  }
  return Value(std::move(stages));
}

// More than the groups need, in KiB: both pipes with sums of twice the width, and room for each child where
// contributions are kept apart.
std::uint64_t inc_memory_kb(const List& groups) {
  std::uint64_t bytes = 0;
  for (const Value& g : groups) {
    const std::uint64_t packets = g.has("slots") && !g["slots"].is_null()
                                      ? g["slots"].unsigned_integer()
                                      : 2 * g["window"].unsigned_integer() * g["message_packets"].unsigned_integer();
    const bool apart =
        (g.has("reproducible") && g["reproducible"].boolean()) || (g.has("mode") && g["mode"].string() == "i");
    const std::uint64_t wide = apart ? std::max<std::uint64_t>(2, g["endpoints"].list().size()) : 2;
    bytes += (packets + 4) * g["mtu"].unsigned_integer() * (wide + 1) + 65536;
  }
  return bytes / 1024 + 1;
}

// Adds the groups to the stage inc of a pipeline, which is put in front of l3 where there is none.
Value with_groups(Value pipeline, const List& groups) {
  if (groups.empty()) return pipeline;
  Value options(Map{{"memory_kb", Value(inc_memory_kb(groups))}, {"groups", Value(groups)}});
  List stages;
  bool there = false;
  for (const Value& stage : pipeline.list()) {
    const bool own = stage.is_map() && stage.has("inc");
    const bool is_l3 = stage.is_map() ? stage.has("l3") : stage.string() == "l3";
    if (is_l3 && !there) stages.push_back(Value(Map{{"inc", options}}));
    there |= own;
    stages.push_back(own ? Value(Map{{"inc", options}}) : stage);
  }
  return Value(std::move(stages));
}

// RNICs with HPCC would find nothing to go by where a switch says nothing.
Value with_telemetry(Value pipeline, const SwitchSpec& spec) {
  if (!spec.telemetry) return pipeline;
  List stages;
  for (const Value& stage : pipeline.list()) {
    if (stage.is_map() ? stage.has("telemetry") : stage.string() == "telemetry") return pipeline;
    stages.push_back(stage);
  }
  stages.emplace_back("telemetry");
  return Value(std::move(stages));
}

Value pipeline_of(const Topology& t, std::uint32_t index, const SwitchSpec& spec, const std::vector<QpPairPlan>& qps) {
  const SwitchPlan& sw = t.switches()[index];
  const bool is_tor = sw.host_count != 0;
  const Value* own = spec.pipeline_of(index);
  const Value& given = own != nullptr ? *own : is_tor ? spec.pipeline : spec.pipeline_above;
  if (!given.is_null()) return given_pipeline(t, index, given, qps);
  List stages{Value("parse")};
  if (is_tor && (spec.nack_filter || spec.lb == "psn")) {
    stages.push_back(with_options("rdma_track", tracked(t, index, qps)));
  }
  if (is_tor && spec.nack_filter) {
    Value options = *spec.nack_filter;
    options.set("uplinks", Value(uplinks_of(t, sw)));
    stages.push_back(with_options("nack_filter", std::move(options)));
  }
  stages.emplace_back("l3");
  // What sprays by the PSN needs the first switch alone.
  Value lb = is_tor && spec.lb_options.is_map() ? spec.lb_options : Value(Map{});
  lb.set("policy", Value(is_tor ? spec.lb : spec.lb_above));
  stages.push_back(with_options("lb", std::move(lb)));
  return Value(std::move(stages));
}

}  // namespace

const Value* SwitchSpec::pipeline_of(std::uint32_t index) const noexcept {
  const auto own = std::find_if(pipelines.begin(), pipelines.end(), [&](const auto& p) { return p.first == index; });
  return own == pipelines.end() ? nullptr : &own->second;
}

std::uint64_t SwitchSpec::buffer_of(std::uint32_t index) const noexcept {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 38;
  if (std::find(unlimited.begin(), unlimited.end(), index) != unlimited.end()) return kUnlimited;
  for (const Buffer& own : buffers) {
    if (own.index == index) return own.bytes;
  }
  return buffer_bytes;
}

Value switch_document(const Topology& topology, std::uint32_t index, const SwitchSpec& spec,
                      const std::vector<QpPairPlan>& qps, const List& inc_groups) {
  const SwitchPlan& sw = topology.switches()[index];
  return Value(
      Map{{"name", Value(sw.name)},
          {"seed", hash_seed_of(sw, spec)},
          {"ports", ports(topology, sw, spec)},
          {"addresses", addresses(topology, sw)},
          {"neighbours", neighbours(topology, sw)},
          {"routes", routes(topology, index)},
          {"qos", qos(topology, sw, spec, spec.buffer_of(index))},
          {"pipeline", with_telemetry(with_groups(pipeline_of(topology, index, spec, qps), inc_groups), spec)}});
}

std::optional<pipeline::SwitchInfo> load_switch_document(const Topology& topology, std::uint32_t index,
                                                         const Value& document, const pipeline::Registry& registry,
                                                         config::Diagnostics& diagnostics) {
  static const config::Schema kSchema = config::switch_schema();
  const Value source =
      config::validate(kSchema, config::to_document(document), topology.switches()[index].name, &registry, diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  // Nothing of a packet names its switch by number here: every switch has rings of its own.
  auto info = config::build_switch(source, 0, registry, diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  for (std::size_t p = 0; p < info.ports.size(); ++p) {
    info.ports[p].mac = topology.switches()[index].ports[p].mac;
    // Packets travel on the simulation's links. What follows from the delay, as headroom, has been worked out.
    info.ports[p].delay_ns = 0;
  }
  return info;
}

}  // namespace weft::sim
