// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/qos_rows.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "switch/pipeline/class_queues.h"
#include "switch/qos/defaults.h"

namespace weft {
namespace {

using nlohmann::ordered_json;
using pipeline::PortInfo;
using pipeline::QueueCounters;
using pipeline::SwitchState;
using qos::kClasses;
using qos::SharedBuffer;

std::uint64_t drops_of(const QueueCounters& c) {
  return c.dropped_queue.value() + c.dropped_group.value() + c.dropped_headroom.value() + c.dropped_wred.value() +
         c.dropped_watchdog.value();
}

std::string name_of(const qos::SchedulerSettings& s) {
  return s.type == qos::SchedulerSettings::Type::strict ? "STRICT" : "DWRR " + std::to_string(s.weight);
}

// Bytes that a threshold stands for, or null where it is no limit.
ordered_json threshold_of(const SharedBuffer& buffer, const SharedBuffer::Limit& limit) {
  const std::uint64_t bytes = buffer.threshold(limit);
  return bytes > buffer.shared_size() ? ordered_json() : ordered_json(limit.reserve + bytes);
}

ordered_json queue_row(const SwitchState& state, const pipeline::ClassQueues& queues, const PortInfo& port,
                       unsigned queue) {
  const SharedBuffer& buffer = *state.buffer();
  const SharedBuffer::Queue& q = buffer.queue(port.index, queue);
  const QueueCounters& c = queues.counters(queue);
  return {{"port", port.name},
          {"queue", queue},
          {"scheduler", name_of(state.info().qos->ports[port.index].scheduler[queue])},
          {"packets", q.packets.value()},
          {"bytes", q.bytes.value()},
          {"peak_bytes", q.peak_bytes.value()},
          {"threshold_bytes", threshold_of(buffer, q.limit)},
          {"tx_packets", c.packets.value()},
          {"tx_bytes", c.bytes.value()},
          {"ecn_marked", c.ecn_marked.value()},
          {"ecn_ce", c.ecn_ce.value()},
          {"dropped", drops_of(c)},
          {"dropped_queue", c.dropped_queue.value()},
          {"dropped_group", c.dropped_group.value()},
          {"dropped_headroom", c.dropped_headroom.value()},
          {"dropped_wred", c.dropped_wred.value()},
          {"dropped_watchdog", c.dropped_watchdog.value()}};
}

// True for a group that has never held a byte and has no headroom: its row would hold zeros only.
bool idle(const SharedBuffer::Group& g) {
  return g.peak_bytes.value() == 0 && g.headroom_limit == 0 && g.drops.value() == 0;
}

ordered_json buffer_rows(const SwitchState& state) {
  const SharedBuffer& buffer = *state.buffer();
  ordered_json rows = ordered_json::array();
  rows.push_back({{"port", "all"},
                  {"group", "shared"},
                  {"bytes", buffer.shared_used()},
                  {"peak_bytes", buffer.shared_peak()},
                  {"threshold_bytes", buffer.shared_size()},
                  {"headroom", nullptr},
                  {"peak_headroom", nullptr},
                  {"headroom_size", nullptr},
                  {"reserve", nullptr},
                  {"drops", nullptr}});
  for (const PortInfo& port : state.info().ports) {
    for (unsigned i = 0; i < kClasses; ++i) {
      const SharedBuffer::Group& g = buffer.group(port.index, i);
      if (idle(g)) continue;
      rows.push_back({{"port", port.name},
                      {"group", std::to_string(i)},
                      {"bytes", g.bytes.value()},
                      {"peak_bytes", g.peak_bytes.value()},
                      {"threshold_bytes", threshold_of(buffer, g.limit)},
                      {"headroom", g.headroom.value()},
                      {"peak_headroom", g.peak_headroom.value()},
                      {"headroom_size", g.headroom_limit},
                      {"reserve", g.limit.reserve},
                      {"drops", g.drops.value()}});
    }
  }
  return rows;
}

// What a lossless group has headroom for. Its bytes are what the configuration made of it: what is more than the parts
// that are known here is what a device keeps while its worker naps, or what a profile gives besides; less than 0: a
// profile gives too little.
ordered_json headroom_rows(const SwitchState& state) {
  constexpr std::uint32_t kUnknownMtu = 4200;  // of a device that has not said: what its headroom was made for
  ordered_json rows = ordered_json::array();
  for (const PortInfo& port : state.info().ports) {
    const qos::PortFacts facts{.speed_mbps = state.info().qos->ports[port.index].speed_mbps,
                               .delay_ns = port.delay_ns,
                               .mtu_bytes = port.mtu_bytes != 0 ? port.mtu_bytes : kUnknownMtu,
                               .workers = state.workers()};
    const qos::HeadroomParts parts = qos::headroom_parts(facts);
    for (unsigned i = 0; i < kClasses; ++i) {
      const std::uint64_t headroom = state.buffer()->group(port.index, i).headroom_limit;
      if (headroom == 0) continue;
      rows.push_back({{"port", port.name},
                      {"group", i},
                      {"speed_mbps", facts.speed_mbps},
                      {"delay_us", static_cast<double>(facts.delay_ns) / 1000},
                      {"mtu_bytes", facts.mtu_bytes},
                      {"on_the_link", parts.on_the_link},
                      {"frames", parts.frames},
                      {"bursts", parts.bursts},
                      {"rest", static_cast<std::int64_t>(headroom) - static_cast<std::int64_t>(parts.sum())},
                      {"headroom_size", headroom}});
    }
  }
  return rows;
}

ordered_json wred_row(const PortInfo& port, unsigned queue, const qos::WredSettings& w, const SharedBuffer::Queue& q,
                      const QueueCounters& c) {
  const std::uint64_t depth = q.bytes.value();
  const double now = w.ecn ? static_cast<double>(qos::Curve(w.mark).at(depth)) / 18446744073709551616.0 : 0;
  return {{"port", port.name},
          {"queue", queue},
          {"ecn", w.ecn ? "ecn_all" : "ecn_none"},
          {"green_min_threshold", w.mark.min_bytes},
          {"green_max_threshold", w.mark.max_bytes},
          {"green_drop_probability", w.mark.probability * 100},
          {"mark_at", w.mark_at == qos::WredSettings::Point::dequeue ? "dequeue" : "enqueue"},
          {"not_ect", w.drop_by_curve ? "drop_by_curve" : "limit"},
          {"bytes", depth},
          {"mark_percent", std::round(now * 10000) / 100},
          {"ecn_marked", c.ecn_marked.value()},
          {"ecn_ce", c.ecn_ce.value()},
          {"dropped_wred", c.dropped_wred.value()}};
}

ordered_json pfc_row(const PortInfo& port, const char* priority) {
  ordered_json row{{"port", port.name}, {"priority", priority}};
  for (const char* column :
       {"sent", "received", "tx_xoff", "tx_xon", "tx_paused_us", "rx_xoff", "rx_xon", "rx_paused_us", "tx_frames",
        "rx_frames", "rx_malformed", "rx_ignored", "rx_clamped", "storms", "restored"}) {
    row[column] = nullptr;
  }
  return row;
}

}  // namespace

const std::vector<api::TableInfo>& qos_tables() {
  static const std::vector<api::TableInfo> kTables{
      {"queues", "What waits in every class queue, and what became of what came."},
      {"buffers", "Who holds how much of the shared buffer: priority groups, headroom, watermarks."},
      {"headroom", "What the headroom of every lossless priority group is made of."},
      {"wred", "ECN and WRED curves, and what they do now."},
      {"pfc", "PAUSE and PFC sent and received, by port and class; storms."},
  };
  return kTables;
}

bool is_qos_table(const std::string& table) {
  return std::any_of(qos_tables().begin(), qos_tables().end(), [&](const auto& t) { return t.name == table; });
}

ordered_json qos_rows(const std::string& table, const SwitchState& state, QosPipelines pipelines) {
  ordered_json rows = ordered_json::array();
  if (state.buffer() == nullptr) return rows;
  if (table == "buffers") return buffer_rows(state);
  if (table == "headroom") return headroom_rows(state);
  for (const PortInfo& port : state.info().ports) {
    const auto& queues = *pipelines[state.owner_of_port(port.index)]->class_queues(port.index);
    for (unsigned i = 0; i < kClasses; ++i) {
      if (table == "queues") {
        rows.push_back(queue_row(state, queues, port, i));
      } else if (const auto& wred = state.info().qos->ports[port.index].wred[i]) {
        rows.push_back(wred_row(port, i, *wred, state.buffer()->queue(port.index, i), queues.counters(i)));
      }
    }
  }
  return rows;
}

ordered_json pfc_rows(const pipeline::Pipeline& owner, pipeline::PortIndex index) {
  ordered_json rows = ordered_json::array();
  const pipeline::ClassQueues* queues = owner.class_queues(index);
  if (queues == nullptr) return rows;
  const PortInfo& port = owner.state().info().ports[index];
  const auto& settings = owner.state().info().qos->ports[index];
  const auto& tx = queues->sender().counters();
  const auto& rx = queues->receiver().counters();
  const auto& dog = queues->watchdog().counters();
  ordered_json row = pfc_row(port, "all");
  row["tx_frames"] = tx.frames.value();
  row["rx_frames"] = rx.pfc.value() + rx.pause.value();
  row["rx_malformed"] = rx.malformed.value();
  row["rx_ignored"] = rx.ignored.value();
  row["rx_clamped"] = rx.clamped.value();
  rows.push_back(row);
  const std::uint8_t shown = settings.flow_control ? 1 : settings.pfc_enable;
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((shown >> i & 1) == 0) continue;
    row = pfc_row(port, settings.flow_control ? "802.3x" : std::to_string(i).c_str());
    row["sent"] = (queues->sender().paused() >> i & 1) != 0 ? "XOFF" : "XON";
    row["received"] = (queues->watchdog().storm() >> i & 1) != 0         ? "storm"
                      : (queues->receiver().last_paused() >> i & 1) != 0 ? "XOFF"
                                                                         : "XON";
    row["tx_xoff"] = tx.xoff[i].value();
    row["tx_xon"] = tx.xon[i].value();
    row["tx_paused_us"] = tx.paused_ns[i].value() / 1000;
    row["rx_xoff"] = rx.xoff[i].value();
    row["rx_xon"] = rx.xon[i].value();
    row["rx_paused_us"] = rx.paused_ns[i].value() / 1000;
    row["storms"] = dog.detected[i].value();
    row["restored"] = dog.restored[i].value();
    rows.push_back(row);
  }
  return rows;
}

}  // namespace weft
