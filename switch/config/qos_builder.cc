// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The `qos` section of a switch: what its tables say of every port, and whether it can be.
#include <algorithm>
#include <charconv>
#include <functional>

#include "switch/base/time.h"
#include "switch/config/config_schema.h"
#include "switch/config/qos_speed.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/switch_builder.h"
#include "switch/pipeline/find.h"
#include "switch/qos/defaults.h"
#include "switch/qos/shaper.h"

namespace weft::config {
namespace {

using qos::kClasses;
using qos::PortSettings;

struct Range {
  unsigned first, last;
};

// "5" or "3-6", nothing beyond `most`.
std::optional<Range> parse_range(std::string_view text, unsigned most) {
  Range range{};
  const char* const end = text.data() + text.size();
  auto at = std::from_chars(text.data(), end, range.first);
  if (at.ec != std::errc{}) return std::nullopt;
  range.last = range.first;
  if (at.ptr != end) {
    if (*at.ptr != '-') return std::nullopt;
    at = std::from_chars(at.ptr + 1, end, range.last);
    if (at.ec != std::errc{} || at.ptr != end) return std::nullopt;
  }
  if (range.first > range.last || range.last > most) return std::nullopt;
  return range;
}

std::vector<std::string> keys_of(const Value& map) {
  std::vector<std::string> keys;
  if (!map.is_map()) return keys;
  for (const auto& child : map.map()) keys.push_back(child.first);
  return keys;
}

class QosBuilder {
 public:
  /// @param devices  without speeds while nobody knows them
  QosBuilder(SwitchScope& scope, const Value& source, const DeviceFacts& devices)
      : scope_(scope), source_(source), devices_(devices) {}

  qos::Settings build() {
    for (const char* table : {"DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"}) {
      check_maps(table);
    }
    check_profiles();
    qos::Settings settings;
    for (const pipeline::PortInfo& port : scope_.info.ports) settings.ports.push_back(port_settings(port));
    check_port_keys();
    const Value& pool = source_["BUFFER_POOL"];
    const bool hpcc = pool.is_map() && !pool["model"].is_null() && pool["model"].string() == "hpcc";
    settings.model = hpcc ? qos::BufferModel::hpcc : qos::BufferModel::conweave;
    settings.pool_bytes = qos::default_pool_bytes(settings);
    if (pool.is_map() && pool.has("size")) check_pool(pool["size"], settings);
    return settings;
  }

 private:
  void error(const Mark& mark, std::string text) { scope_.diagnostics.error(mark, std::move(text)); }

  // --- what the tables hold ---------------------------------------------------------------------------------------

  static bool of_dscp(std::string_view table) { return table == "DSCP_TO_TC_MAP"; }

  // Calls f(number, value) for everything that a map names.
  template <typename F>
  void for_each_entry(std::string_view table, const Value& map, F&& f) {
    for (const auto& [key, value] : map.map()) {
      const auto range = parse_range(key, of_dscp(table) ? 63 : 7);
      for (unsigned i = range ? range->first : 1; range && i <= range->last; ++i) f(i, value);
    }
  }

  void check_maps(const char* table) {
    if (!source_[table].is_map()) return;
    const unsigned size = of_dscp(table) ? 64 : 8;
    for (const auto& [name, map] : source_[table].map()) {
      const std::string what = std::string(table) + ": " + name + ": ";
      for (const auto& [key, value] : map.map()) {
        if (parse_range(key, size - 1)) continue;
        error(value.mark(), what + "expected keys from 0 to " + std::to_string(size - 1) +
                                ", or ranges such as \"2-5\", found " + quote(key));
      }
      std::vector<int> seen(size);
      for_each_entry(table, map, [&](unsigned i, const Value& value) {
        if (++seen[i] == 2) error(value.mark(), what + std::to_string(i) + " is mapped twice");
      });
      std::vector<std::string> holes;
      for (unsigned i = 0; i < size; ++i) {
        if (seen[i] == 0) holes.push_back(std::to_string(i));
      }
      if (!holes.empty()) {
        error(map.mark(), what + "expected all of 0 to " + std::to_string(size - 1) + ", found nothing for " +
                              quote(joined(holes)));
      }
    }
  }

  void check_profiles() {
    for_each_in("SCHEDULER", [&](const std::string& name, const Value& s) {
      const auto pir = s["pir"].is_null() ? 0 : s["pir"].unsigned_integer();
      if (pir != 0 && pir < qos::Shaper::kMinBytesPerSecond) {
        error(s["pir"].mark(), "SCHEDULER: " + name + ": pir: expected 0, or at least " +
                                   std::to_string(qos::Shaper::kMinBytesPerSecond) + " bytes a second, found " +
                                   std::to_string(pir));
      }
    });
    for_each_in("WRED_PROFILE", [&](const std::string& name, const Value& w) {
      check_order("WRED_PROFILE: " + name + ": ", w, "green_min_threshold", "green_max_threshold");
      const bool drops = !w["not_ect"].is_null() && w["not_ect"].string() == "drop_by_curve";
      for (const char* key : {"drop_min_threshold", "drop_max_threshold", "drop_probability"}) {
        if (w.has(key) && !drops) {
          error(w[key].mark(), "WRED_PROFILE: " + name + ": " + key + ": only with not_ect: drop_by_curve");
        }
      }
      if (!drops) return;
      if (!w.has("drop_min_threshold") && !w.has("drop_max_threshold")) return;
      check_order("WRED_PROFILE: " + name + ": ", w,
                  w.has("drop_min_threshold") ? "drop_min_threshold" : "green_min_threshold",
                  w.has("drop_max_threshold") ? "drop_max_threshold" : "green_max_threshold");
    });
    for_each_in("BUFFER_PROFILE", [&](const std::string& name, const Value& p) {
      if (!p.has("dynamic_th") || !p.has("static_th")) return;
      error(p["static_th"].mark(), "BUFFER_PROFILE: " + name + ": static_th: there is a dynamic_th" +
                                       at_line(p["dynamic_th"].mark()) + "; a profile has one or the other");
    });
  }

  // Points at the maximum, unless only the minimum is the profile's own.
  void check_order(const std::string& what, const Value& w, const std::string& low, const std::string& high) {
    const Value& from = w[low];
    const Value& to = w[high];
    if (from.is_null() || to.is_null() || from.integer() <= to.integer()) return;
    if (low.starts_with("drop") && !high.starts_with("drop")) {
      error(from.mark(), what + low + ": expected at most the maximum of " + std::to_string(to.integer()) +
                             at_line(to.mark()) + ", found " + std::to_string(from.integer()));
    } else {
      error(to.mark(), what + high + ": expected at least the minimum of " + std::to_string(from.integer()) +
                           at_line(from.mark()) + ", found " + std::to_string(to.integer()));
    }
  }

  template <typename F>
  void for_each_in(const char* table, F&& f) {
    if (!source_[table].is_map()) return;
    for (const auto& [name, value] : source_[table].map()) {
      if (value.is_map()) f(name, value);
    }
  }

  // --- one port ---------------------------------------------------------------------------------------------------

  // The item of a table that `name` (a string or null) names; reports an unknown one.
  const Value* find(const char* table, const Value& name, const char* key) {
    if (name.is_null()) return nullptr;
    const Value& items = source_[table];
    if (items.is_map() && items.has(name.string())) return &items[name.string()];
    const auto known = keys_of(items);
    report_once(name.mark(),
                std::string(key) + ": " + table + " has no " + quote(name.string()) + suggestion(name.string(), known));
    return nullptr;
  }
  // A wrong name in an `all` entry is reported once, not for every port.
  void report_once(const Mark& mark, const std::string& text) {
    const auto at = std::pair(mark.line, mark.column);
    if (std::find(reported_.begin(), reported_.end(), at) != reported_.end()) return;
    reported_.push_back(at);
    error(mark, text);
  }

  // Items of a table that apply to a port: those of `all`, then its own.
  template <typename F>
  void for_port(const char* table, const std::string& port, F&& f) {
    for (const std::string& name : {std::string("all"), port}) {
      for_each_in(table, [&](const std::string& key, const Value& value) {
        if (key.substr(0, key.find('|')) == name) f(key, value);
      });
    }
  }
  // The same for tables by port and number.
  template <typename F>
  void for_port_range(const char* table, const std::string& port, F&& f) {
    for_port(table, port, [&](const std::string& key, const Value& value) {
      const auto bar = key.find('|');
      const auto range = bar == key.npos ? std::nullopt : parse_range(key.substr(bar + 1), kClasses - 1);
      for (unsigned i = range ? range->first : 1; range && i <= range->last; ++i) f(i, value);
    });
  }

  PortSettings port_settings(const pipeline::PortInfo& port) {
    const std::uint64_t of_device = port.index < devices_.speeds_mbps.size() ? devices_.speeds_mbps[port.index] : 0;
    const std::uint64_t known = port.rate_mbps != 0 ? port.rate_mbps : of_device;
    qos::PortFacts facts{.speed_mbps = known != 0 ? known : 100'000,
                         .delay_ns = port.delay_ns,
                         .mtu_bytes = port.mtu_bytes != 0 ? port.mtu_bytes : kDefaultMtu,
                         .workers = devices_.workers,
                         .away_ns = devices_.away_ns,
                         .rx_packets = devices_.rx_packets};
    std::uint16_t quanta = 0xffff;
    for_port("PORT", port.name, [&](const std::string&, const Value& v) {
      if (v.has("speed")) facts.speed_mbps = v["speed"].unsigned_integer();
      if (v.has("pause_quanta")) quanta = static_cast<std::uint16_t>(v["pause_quanta"].integer());
    });
    PortSettings s = qos::default_port(facts);
    s.pause_quanta = quanta;
    const std::uint8_t lossless = apply_port_map(port.name, s);
    qos::set_shares(s, facts, lossless);
    for_port_range("QUEUE", port.name, [&](unsigned queue, const Value& v) { apply_queue(v, s, queue); });
    const auto share = [&](const char* table, auto& shares) {
      for_port_range(table, port.name, [&](unsigned i, const Value& v) {
        if (const Value* profile = find("BUFFER_PROFILE", v["profile"], "profile")) shares[i] = read_share(*profile);
      });
    };
    share("BUFFER_PG", s.group);
    share("BUFFER_QUEUE", s.queue);
    for_port("PFC_WD", port.name, [&](const std::string&, const Value& v) { apply_watchdog(v, s.watchdog); });
    check_lossless(port, s, lossless);
    return s;
  }

  // Returns the lossless traffic classes.
  std::uint8_t apply_port_map(const std::string& port, PortSettings& s) {
    std::uint8_t lossless = qos::kLosslessClasses;
    for_port("PORT_QOS_MAP", port, [&](const std::string&, const Value& v) {
      const Value* dscp = find("DSCP_TO_TC_MAP", v["dscp_to_tc_map"], "dscp_to_tc_map");
      const Value* dot1p = find("DOT1P_TO_TC_MAP", v["dot1p_to_tc_map"], "dot1p_to_tc_map");
      if (dscp != nullptr || dot1p != nullptr) s.map.trust_dscp = dscp != nullptr;
      read_map("DSCP_TO_TC_MAP", dscp, s.map.dscp_to_tc);
      read_map("DOT1P_TO_TC_MAP", dot1p, s.map.dot1p_to_tc);
      read_map("TC_TO_QUEUE_MAP", find("TC_TO_QUEUE_MAP", v["tc_to_queue_map"], "tc_to_queue_map"), s.map.tc_to_queue);
      read_map("TC_TO_PRIORITY_GROUP_MAP", find("TC_TO_PRIORITY_GROUP_MAP", v["tc_to_pg_map"], "tc_to_pg_map"),
               s.map.tc_to_group);
      if (v.has("pfc_enable")) {
        lossless = 0;
        for (const Value& tc : v["pfc_enable"].list()) {
          if (!tc.is_null()) lossless |= static_cast<std::uint8_t>(1u << tc.integer());
        }
      }
      if (!v["flow_control"].is_null()) s.flow_control = v["flow_control"].boolean();
      if (s.flow_control && v.has("pfc_enable") && lossless != 0) {
        report_once(v["pfc_enable"].mark(), "pfc_enable: expected [] with flow_control: a port has PFC or PAUSE");
      }
      if (const Value* scheduler = find("SCHEDULER", v["scheduler"], "scheduler")) {
        const qos::SchedulerSettings shaper = read_scheduler(*scheduler);
        s.pir_bytes_s = shaper.pir_bytes_s;
        s.pbs_bytes = shaper.pbs_bytes;
      }
    });
    if (s.flow_control && lossless == 0) lossless = qos::kLosslessClasses;
    s.pfc_enable = s.flow_control ? 0 : lossless;
    return lossless;
  }

  template <std::size_t N>
  void read_map(const char* table, const Value* map, std::array<std::uint8_t, N>& to) {
    if (map == nullptr || !map->is_map()) return;
    for_each_entry(table, *map, [&](unsigned i, const Value& v) { to[i] = static_cast<std::uint8_t>(v.integer()); });
  }

  static qos::SchedulerSettings read_scheduler(const Value& v) {
    qos::SchedulerSettings s;
    if (!v["type"].is_null() && v["type"].string() == "STRICT") s.type = qos::SchedulerSettings::Type::strict;
    if (!v["weight"].is_null()) s.weight = static_cast<std::uint32_t>(v["weight"].integer());
    if (!v["pir"].is_null()) s.pir_bytes_s = v["pir"].unsigned_integer();
    if (!v["pbs"].is_null()) s.pbs_bytes = v["pbs"].unsigned_integer();
    return s;
  }

  static qos::WredSettings read_wred(const Value& v) {
    const auto bytes = [&](const char* key, const char* other) {
      const Value& value = v[v.has(key) ? key : other];
      return value.is_null() ? 0 : value.unsigned_integer();
    };
    const auto probability = [&](const char* key, const char* other) {
      const Value& value = v[v.has(key) ? key : other];
      return value.is_null() ? 0.0 : value.number() / 100;
    };
    const auto is = [&](const char* key, const char* word) { return !v[key].is_null() && v[key].string() == word; };
    constexpr const char* kMin = "green_min_threshold";
    constexpr const char* kMax = "green_max_threshold";
    constexpr const char* kProbability = "green_drop_probability";
    qos::WredSettings w;
    w.ecn = !is("ecn", "ecn_none");
    w.mark = {bytes(kMin, kMin), bytes(kMax, kMax), probability(kProbability, kProbability)};
    w.mark_at = is("mark_at", "enqueue") ? qos::WredSettings::Point::enqueue : qos::WredSettings::Point::dequeue;
    w.drop_by_curve = is("not_ect", "drop_by_curve");
    w.drop = {bytes("drop_min_threshold", kMin), bytes("drop_max_threshold", kMax),
              probability("drop_probability", kProbability)};
    return w;
  }

  static qos::BufferShare read_share(const Value& v) {
    qos::BufferShare share;
    if (!v["size"].is_null()) share.reserve_bytes = v["size"].unsigned_integer();
    if (v.has("dynamic_th")) share.dynamic_th = static_cast<int>(v["dynamic_th"].integer());
    if (v.has("static_th")) share.static_th_bytes = v["static_th"].unsigned_integer();
    if (!v["xoff"].is_null()) share.headroom_bytes = v["xoff"].unsigned_integer();
    if (!v["xon_offset"].is_null()) share.xon_offset_bytes = v["xon_offset"].unsigned_integer();
    return share;
  }

  void apply_queue(const Value& v, PortSettings& s, unsigned queue) {
    if (const Value* scheduler = find("SCHEDULER", v["scheduler"], "scheduler")) {
      s.scheduler[queue] = read_scheduler(*scheduler);
    }
    if (v["wred_profile"].is_null()) return;
    s.wred[queue].reset();
    if (v["wred_profile"].string() == "none") return;
    if (const Value* wred = find("WRED_PROFILE", v["wred_profile"], "wred_profile")) s.wred[queue] = read_wred(*wred);
  }

  static void apply_watchdog(const Value& v, qos::WatchdogSettings& w) {
    if (!v["action"].is_null()) {
      w.enabled = v["action"].string() != "off";
      w.action = v["action"].string() == "forward" ? qos::WatchdogSettings::Action::forward
                                                   : qos::WatchdogSettings::Action::drop;
    }
    if (!v["detection_time"].is_null()) w.detection_ns = v["detection_time"].unsigned_integer() * kMs;
    if (!v["restoration_time"].is_null()) w.restoration_ns = v["restoration_time"].unsigned_integer() * kMs;
  }

  // --- whether it can be ------------------------------------------------------------------------------------------

  void check_lossless(const pipeline::PortInfo& port, const PortSettings& s, std::uint8_t lossless) {
    for (unsigned tc = 0; tc < kClasses; ++tc) {
      if ((lossless >> tc & 1) == 0) continue;
      const std::string what = "port '" + port.name + "': the lossless class " + std::to_string(tc) + " ";
      const unsigned group = s.map.tc_to_group[tc];
      if (s.group[group].headroom_bytes == 0) {
        report_once(mark_of("BUFFER_PG"),
                    what + "needs headroom: expected a profile with xoff for priority group " + std::to_string(group));
      }
      for (unsigned other = 0; other < kClasses; ++other) {
        if ((lossless >> other & 1) != 0) continue;
        if (s.map.tc_to_group[other] != group && s.map.tc_to_queue[other] != s.map.tc_to_queue[tc]) continue;
        report_once(mark_of("PORT_QOS_MAP"), what + "shares its priority group or queue with class " +
                                                 std::to_string(other) + ", which is not lossless");
        return;
      }
    }
  }
  const Mark& mark_of(const char* table) const {
    return source_[table].is_map() ? source_[table].mark() : source_.mark();
  }

  void check_pool(const Value& size, qos::Settings& settings) {
    settings.pool_bytes = size.unsigned_integer();
    const std::uint64_t own = qos::own_bytes(settings);
    if (settings.pool_bytes > own) return;
    error(size.mark(), "size: expected more than the reserves and headroom of all ports, " + std::to_string(own) +
                           " bytes, found " + std::to_string(settings.pool_bytes));
  }

  void check_port_keys() {
    if (!scope_.ports_complete) return;
    const std::vector<std::string> names = pipeline::port_names(scope_.info);
    for (const char* table : {"PORT_QOS_MAP", "PFC_WD", "PORT", "QUEUE", "BUFFER_PG", "BUFFER_QUEUE"}) {
      const std::string_view t = table;
      const bool ranged = t == "QUEUE" || t == "BUFFER_PG" || t == "BUFFER_QUEUE";
      for_each_in(table, [&](const std::string& key, const Value& value) {
        const auto bar = key.find('|');
        const std::string port = key.substr(0, bar);
        if (port != "all" && std::find(names.begin(), names.end(), port) == names.end()) {
          error(value.mark(), std::string(table) + ": unknown port " + quote(port) + suggestion(port, names));
        } else if (ranged && (bar == key.npos || !parse_range(key.substr(bar + 1), kClasses - 1))) {
          error(value.mark(), std::string(table) + ": expected a port and numbers from 0 to 7, such as " + port +
                                  "|3-4, found " + quote(key));
        } else if (!ranged && bar != key.npos) {
          error(value.mark(), std::string(table) + ": expected the name of a port, found " + quote(key));
        }
      });
    }
  }

  SwitchScope& scope_;
  const Value& source_;
  const DeviceFacts& devices_;
  std::vector<std::pair<int, int>> reported_;
};

// The map of the switch of this name; null without one.
const Value& switch_of(const Value& file, const std::string& name) {
  static const Value kNone;
  for (const Value& s : file["switches"].list_or_empty()) {
    if (s.is_map() && s["name"].string() == name) return s;
  }
  return kNone;
}

}  // namespace

std::string set_device_facts(pipeline::SwitchInfo& info, const Value& file, const pipeline::Registry& registry,
                             const DeviceFacts& facts) {
  const Value& source = switch_of(file, info.name);
  if (!info.qos || !source.is_map()) return "";
  Diagnostics diagnostics;
  SwitchScope scope{source, registry, diagnostics, info};
  qos::Settings settings = QosBuilder(scope, source["qos"], facts).build();
  if (!diagnostics.ok()) return diagnostics.entries().front().text;
  info.qos = std::move(settings);
  return "";
}

void build_qos(SwitchScope& scope) {
  const Value& source = scope.source["qos"];
  if (!source.is_map()) return;
  for (const Value& port : scope.source["ports"].list_or_empty()) {
    if (!port.is_map() || port["queue_packets"].mark().line == 0) continue;
    scope.diagnostics.error(port["queue_packets"].mark(),
                            "queue_packets: with 'qos' the shared buffer decides; expected no such key");
  }
  const DeviceFacts unknown;
  scope.info.qos = QosBuilder(scope, source, unknown).build();
}

}  // namespace weft::config
