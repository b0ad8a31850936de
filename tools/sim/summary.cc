// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/summary.h"
#include "switch/stages/nack_filter/drops.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "switch/config/schema/value_json.h"

namespace weft::sim {
namespace {

using config::Value;
using nlohmann::ordered_json;

// Ethernet, IPv4, UDP, BTH and ICRC around the payload of a middle packet; AETH in an ACK.
constexpr std::uint64_t kDataOverhead = 14 + 20 + 8 + 12 + 4;
constexpr std::uint64_t kAckBytes = kDataOverhead + 4;

double serialise_ns(std::uint64_t frame_bytes, const Wire& wire) {
  const std::uint64_t bytes = wire.framing.bytes_of(static_cast<std::uint32_t>(frame_bytes));
  return static_cast<double>(bytes * 8000) / static_cast<double>(wire.rate_mbps);
}

// How long a message of datagrams takes that is alone: the first one's way, and the others behind it on the slowest
// link.
double datagrams_alone_ns(const std::vector<Wire>& path, std::uint64_t packets, std::uint64_t mtu, std::uint64_t last) {
  const auto on = [](const Wire& wire, std::uint64_t payload) {
    return serialise_ns(DatagramHost::frame_bytes(payload), wire);
  };
  double ns = 0;
  const Wire* slowest = &path.front();
  for (const Wire& wire : path) {
    ns += static_cast<double>(wire.delay_ns) + on(wire, packets > 1 ? mtu : last);
    if (wire.rate_mbps < slowest->rate_mbps) slowest = &wire;
  }
  return packets > 1 ? ns + on(*slowest, mtu) * static_cast<double>(packets - 2) + on(*slowest, last) : ns;
}

// Null where there is nothing to divide by: no number would be true.
ordered_json ratio(double part, double whole) {
  return whole > 0 ? ordered_json(part / whole) : ordered_json();
}

ordered_json mean(const std::vector<double>& values) {
  return ratio(std::accumulate(values.begin(), values.end(), 0.0), static_cast<double>(values.size()));
}

ordered_json percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return {};
  const auto at = static_cast<std::size_t>(std::lround(p * static_cast<double>(sorted.size() - 1)));
  return sorted[at];
}

struct Sums {
  std::uint64_t packets = 0, retransmitted = 0, duplicates = 0, timeouts = 0, naks_received = 0, naks_sent = 0;
  std::uint64_t cnps = 0, out_of_order = 0;
};

Sums sum_of(const Simulation& s) {
  Sums sums;
  for (const auto& c : s.channels()) {
    const auto& q = c.sender->requester().counters();
    const auto& r = c.receiver->responder().counters();
    sums.packets += q.packets;
    sums.retransmitted += q.retransmitted;
    sums.timeouts += q.timeouts;
    sums.naks_received += q.naks_sequence;
    sums.duplicates += r.duplicates;
    sums.naks_sent += r.naks_sent;
    sums.out_of_order += r.out_of_order;
    sums.cnps += c.sender->counters().cnps_received;
  }
  return sums;
}

struct QueueSums {
  std::uint64_t marks = 0, pauses = 0, paused_ns = 0, drops = 0;
};

QueueSums queue_sums(const Simulation& s) {
  QueueSums sums;
  for (const auto& sw : s.switches()) {
    const auto& p = sw->pipeline();
    // What nack_filter blocks is counted by it, and was not lost.
    sums.drops += p.totals().all_dropped();
    sums.drops -= p.totals().dropped[static_cast<std::size_t>(stages::NackDrop::nack_blocked)].value();
    const auto ports = static_cast<PortIndex>(p.state().info().ports.size());
    for (PortIndex port = 0; port < ports; ++port) {
      const auto* queues = p.class_queues(port);
      if (queues == nullptr) continue;
      for (unsigned q = 0; q < qos::kClasses; ++q) {
        sums.marks += queues->counters(q).ecn_marked.value();
        sums.pauses += queues->sender().counters().xoff[q].value();
        sums.paused_ns += queues->sender().counters().paused_ns[q].value();
      }
    }
  }
  for (const auto& link : s.links()) sums.drops += link->counters().lost + link->counters().cut;
  return sums;
}

// Null while a transfer is under way.
ordered_json completion_ms(const Simulation& s) {
  TimeNs last = 0;
  for (const TransferTimes& t : s.times()) {
    if (t.received == kNever) return {};
    last = std::max(last, t.received);
  }
  return static_cast<double>(last) / 1e6;
}

// Of the transfers that have ended.
struct Slowdowns {
  std::vector<double> all;                                // sorted
  std::map<std::uint64_t, std::vector<double>> by_bytes;  // of those of at most so many bytes and more than a tenth
};

Slowdowns slowdowns(const Simulation& s) {
  Slowdowns found;
  for (std::size_t i = 0; i < s.times().size(); ++i) {
    const TransferTimes& t = s.times()[i];
    if (t.acked == kNever || s.inc() != nullptr) continue;
    const Transfer& transfer = s.experiment().plan.transfers[i];
    const auto alone = static_cast<double>(standalone_ns(s.experiment(), transfer));
    const double slowdown = std::max(1.0, static_cast<double>(t.acked - t.started) / alone);
    found.all.push_back(slowdown);
    std::uint64_t bound = 1000;
    while (transfer.bytes > bound) bound *= 10;
    found.by_bytes[bound].push_back(slowdown);
  }
  std::sort(found.all.begin(), found.all.end());
  for (auto& [bound, values] : found.by_bytes) std::sort(values.begin(), values.end());
  return found;
}

ordered_json by_bytes(const Slowdowns& slow) {
  ordered_json rows = ordered_json::array();
  for (const auto& [bound, values] : slow.by_bytes) {
    rows.push_back({{"at_most_bytes", bound},
                    {"transfers", values.size()},
                    {"mean", mean(values)},
                    {"p50", percentile(values, 0.5)},
                    {"p99", percentile(values, 0.99)},
                    {"p999", percentile(values, 0.999)}});
  }
  return rows;
}

// Payload per time of a sending host, over those that send: each until its last byte has arrived.
ordered_json goodput_gbps(const Simulation& s) {
  const std::size_t hosts = s.experiment().topology.hosts().size();
  std::vector<std::uint64_t> bytes(hosts);
  std::vector<TimeNs> first(hosts, kNever), last(hosts);
  for (std::size_t i = 0; i < s.times().size(); ++i) {
    const TransferTimes& t = s.times()[i];
    const Transfer& transfer = s.experiment().plan.transfers[i];
    if (t.received == kNever) continue;
    bytes[transfer.from] += transfer.bytes;
    first[transfer.from] = std::min(first[transfer.from], t.started);
    last[transfer.from] = std::max(last[transfer.from], t.received);
  }
  double sum = 0;
  int senders = 0;
  for (std::size_t h = 0; h < hosts; ++h) {
    if (bytes[h] == 0) continue;
    sum += static_cast<double>(bytes[h]) * 8 / static_cast<double>(std::max<TimeNs>(last[h] - first[h], 1));
    ++senders;
  }
  return ratio(sum, senders);
}

ordered_json mean_rate_gbps(const Simulation& s) {
  double sum = 0;
  double weight = 0;
  for (const Sample& sample : s.samples()) {
    const double w = static_cast<double>(sample.busy) * static_cast<double>(sample.interval);
    sum += sample.rate_bps * w;
    weight += w;
  }
  return ratio(sum / 1e9, weight);
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

ordered_json drops_of(const Simulation& s) {
  ordered_json drops = ordered_json::object();
  const pipeline::DropReasons& reasons = s.switches().front()->state().drop_reasons();
  for (std::size_t r = 0; r < pipeline::kDropReasonSlots; ++r) {
    std::uint64_t sum = 0;
    for (const auto& sw : s.switches()) sum += sw->pipeline().totals().dropped[r].value();
    if (sum != 0) drops[std::string(reasons[r].name)] = sum;
  }
  std::uint64_t lost = 0, cut = 0;
  for (const auto& link : s.links()) {
    lost += link->counters().lost;
    cut += link->counters().cut;
  }
  if (lost != 0) drops["link_loss"] = lost;
  if (cut != 0) drops["link_down"] = cut;
  return drops;
}

// Who was told to pause by whom, and how often; those that never were are left out.
ordered_json pauses_of(const Simulation& s) {
  ordered_json pauses = ordered_json::array();
  const Topology& t = s.experiment().topology;
  for (std::size_t i = 0; i < s.switches().size(); ++i) {
    const auto& ports = t.switches()[i].ports;
    for (PortIndex p = 0; p < ports.size(); ++p) {
      const auto* queues = s.switches()[i]->pipeline().class_queues(p);
      if (queues == nullptr) continue;
      std::uint64_t sent = 0;
      for (unsigned q = 0; q < qos::kClasses; ++q) sent += queues->sender().counters().xoff[q].value();
      if (sent == 0) continue;
      const PortPlan& port = ports[p];
      pauses.push_back({{"by", t.switches()[i].name},
                        {"told", port.to_host ? t.hosts()[port.peer].name : t.switches()[port.peer].name},
                        {"pauses", sent},
                        {"by_ms", s.switches()[i]->pauses_by_ms(p)}});
    }
  }
  return pauses;
}

ordered_json curves_of(const Simulation& s) {
  ordered_json curves = ordered_json::array();
  for (const Sample& sample : s.samples()) {
    const auto interval = static_cast<double>(sample.interval);
    curves.push_back({{"at_us", static_cast<double>(sample.at) / 1e3},
                      {"goodput_gbps", static_cast<double>(sample.received_bytes) * 8 / interval},
                      {"rate_gbps", sample.rate_bps / 1e9},
                      {"nacks", sample.nacks}});
  }
  return curves;
}

ordered_json rate_changes_of(const Simulation& s) {
  ordered_json changes = ordered_json::array();
  for (const RateChange& change : s.rate_changes()) {
    const Channel& channel = s.experiment().plan.channels[change.channel];
    changes.push_back({{"at_us", static_cast<double>(change.at) / 1e3},
                       {"from", channel.from},
                       {"to", channel.to},
                       {"gbps", change.rate_bps / 1e9}});
  }
  return changes;
}

// Calls `each` with the type of every stage of every switch, and the values of its counters.
template <typename Each>
void for_each_stage(const Simulation& s, Each&& each) {
  for (const auto& sw : s.switches()) {
    const auto& types = sw->state().types();
    for (std::size_t position = 0; position < types.size(); ++position) {
      const auto values = sw->pipeline().stage(position).counters();
      each(*types[position], values.first(std::min(values.size(), types[position]->counters.size())));
    }
  }
}

// What the stages of all switches counted, summed up: `stages.<name>.<counter>`.
ordered_json stages_of(const Simulation& s) {
  ordered_json stages = ordered_json::object();
  for_each_stage(s, [&](const pipeline::StageType& type, std::span<const Counter> values) {
    ordered_json& counters = stages[type.name];
    if (counters.is_null()) counters = ordered_json::object();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ordered_json& sum = counters[type.counters[i].name];
      sum = (sum.is_null() ? 0 : sum.get<std::uint64_t>()) + values[i].value();
    }
  });
  return stages;
}

// Gauges of the stages, of the switch that has the largest: `stages_most.<name>.<gauge>`. A sum over switches says
// nothing of the room that each of them needs.
ordered_json stages_most_of(const Simulation& s) {
  ordered_json stages = ordered_json::object();
  for_each_stage(s, [&](const pipeline::StageType& type, std::span<const Counter> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type.counters[i].kind != pipeline::CounterKind::gauge) continue;
      ordered_json& most = stages[type.name][type.counters[i].name];
      most = std::max(most.is_null() ? 0 : most.get<std::uint64_t>(), values[i].value());
    }
  });
  return stages;
}

// What arrived over each link between switches, from the lower tier upwards.
ordered_json paths_of(const Simulation& s) {
  ordered_json paths = ordered_json::array();
  const Topology& t = s.experiment().topology;
  for (std::size_t i = 0; i < t.switches().size(); ++i) {
    for (std::size_t p = 0; p < t.switches()[i].ports.size(); ++p) {
      const PortPlan& port = t.switches()[i].ports[p];
      if (port.to_host) continue;
      const LinkCounters& arrived = s.link_out_of(static_cast<std::uint32_t>(i), static_cast<PortIndex>(p)).counters();
      paths.push_back({{"from", t.switches()[i].name},
                       {"to", t.switches()[port.peer].name},
                       {"packets", arrived.packets},
                       {"bytes", arrived.bytes}});
    }
  }
  return paths;
}

ordered_json transfers_of(const Simulation& s) {
  constexpr std::size_t kMost = 100'000;
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < std::min(s.times().size(), kMost); ++i) {
    const TransferTimes& t = s.times()[i];
    const Transfer& transfer = s.experiment().plan.transfers[i];
    ordered_json row{{"from", transfer.from}, {"to", transfer.to}, {"bytes", transfer.bytes}};
    if (t.started != kNever) row["start_ns"] = t.started;
    if (t.received != kNever) row["received_ns"] = t.received;
    if (t.acked != kNever) {
      row["fct_ns"] = t.acked - t.started;
      if (s.inc() == nullptr) row["standalone_ns"] = standalone_ns(s.experiment(), transfer);
    }
    list.push_back(std::move(row));
  }
  return list;
}

// Runs of one file are told apart by what replaced its values.
std::string title_of(const Experiment& experiment, const RunFacts& facts) {
  std::string title = experiment.name;
  for (std::size_t i = 0; i < facts.sets.size(); ++i) title += (i == 0 ? ": " : ", ") + facts.sets[i];
  return title;
}

}  // namespace

TimeNs standalone_ns(const Experiment& experiment, const Transfer& transfer) {
  const std::vector<Wire> path = experiment.topology.path(transfer.from, transfer.to);
  const std::uint64_t mtu = experiment.qp.path_mtu;
  const std::uint64_t packets = std::max<std::uint64_t>(1, (transfer.bytes + mtu - 1) / mtu);
  const std::uint64_t last = transfer.bytes - (packets - 1) * mtu;
  if (experiment.datagrams) return static_cast<TimeNs>(datagrams_alone_ns(path, packets, mtu, last));
  double ns = 0;
  double slowest = 0;
  for (const Wire& wire : path) {
    const std::uint64_t size = packets > 1 ? mtu : last;
    ns += 2 * static_cast<double>(wire.delay_ns) + serialise_ns(size + kDataOverhead, wire) +
          serialise_ns(kAckBytes, wire);
    slowest = std::max(slowest, serialise_ns(mtu + kDataOverhead, wire));
  }
  ns += slowest * static_cast<double>(packets - 1);
  return std::max<TimeNs>(1, static_cast<TimeNs>(ns));
}

ordered_json summary_of(const Simulation& s, const RunFacts& facts) {
  const Sums sums = sum_of(s);
  const QueueSums queues = queue_sums(s);
  const Slowdowns slow = slowdowns(s);
  const ObserverCounters& seen = s.observer().counters();
  std::uint64_t hops = 0;
  for (const auto& sw : s.switches()) hops += sw->pipeline().totals().rx.value();
  ordered_json out;
  out["complete"] = facts.complete;
  out["completion_ms"] = completion_ms(s);
  out["goodput_gbps"] = goodput_gbps(s);
  out["mean_rate_gbps"] = mean_rate_gbps(s);
  out["retransmit_ratio"] = ratio(static_cast<double>(sums.retransmitted), static_cast<double>(sums.packets));
  out["spurious_retransmit_ratio"] = ratio(static_cast<double>(sums.duplicates), static_cast<double>(sums.packets));
  out["out_of_order"] = sums.out_of_order;
  out["nacks_sent"] = sums.naks_sent;
  out["nacks_false"] = seen.nacks_false;
  out["nacks_missed_valid"] = seen.nacks_missed;
  out["timeouts"] = sums.timeouts;
  out["drops"] = queues.drops;
  out["ecn_marks"] = queues.marks;
  out["cnps"] = sums.cnps;
  out["pfc_pauses"] = queues.pauses;
  out["pfc_paused_ms"] = static_cast<double>(queues.paused_ns) / 1e6;
  out["fct_slowdown_mean"] = mean(slow.all);
  out["fct_slowdown_p50"] = percentile(slow.all, 0.5);
  out["fct_slowdown_p99"] = percentile(slow.all, 0.99);
  out["fct_slowdown_p999"] = percentile(slow.all, 0.999);
  out["packets"] = s.experiment().datagrams ? s.datagrams_sent() : sums.packets;
  out["packet_hops"] = hops;
  out["events"] = s.fired();
  out["wall_s"] = facts.wall_s;
  out["cpu_s"] = facts.cpu_s;
  out["packet_hops_per_s"] = ratio(static_cast<double>(hops), facts.wall_s);
  out["events_per_s"] = ratio(static_cast<double>(s.fired()), facts.wall_s);
  out["fct_slowdown_by_bytes"] = by_bytes(slow);
  out["stages"] = stages_of(s);
  out["stages_most"] = stages_most_of(s);
  return out;
}

ordered_json report_of(const Simulation& s, const RunFacts& facts) {
  ordered_json out;
  out["name"] = s.experiment().name;
  out["title"] = title_of(s.experiment(), facts);
  if (!facts.version.empty()) {
    out["run"] = {{"file", facts.file},
                  {"set", facts.sets},
                  {"threads", s.threads()},
                  {"version", facts.version},
                  {"date", facts.date}};
  }
  out["interrupted"] = facts.interrupted;
  out["seed"] = s.experiment().seed;
  out["trace_hash"] = hex(s.trace_hash());
  out["summary"] = summary_of(s, facts);
  if (s.payload() != nullptr) out["payload"] = {{"messages_compared", s.payload()->checked()}};
  for (std::size_t b = 0; b < s.background().size(); ++b) {
    const BackgroundFlow& flow = s.experiment().background[b];
    out["background"].push_back({{"from", flow.from},
                                 {"to", flow.to},
                                 {"bytes", s.background()[b].receiver->responder().counters().bytes_placed}});
  }
  if (s.inc() != nullptr && s.experiment().payload_values) {
    out["payload"] = {{"messages_compared", s.inc()->compared()}};
  }
  out["drops_by_reason"] = drops_of(s);
  out["pauses"] = pauses_of(s);
  out["curves"] = curves_of(s);
  if (s.experiment().rates_every != 0) out["rate_changes"] = rate_changes_of(s);
  out["paths"] = paths_of(s);
  out["transfers"] = transfers_of(s);
  out["experiment"] = to_json(s.experiment().source);
  return out;
}

}  // namespace weft::sim
