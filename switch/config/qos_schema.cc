// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The `qos` section of a switch: tables and fields with the names that SONiC's CONFIG_DB has for them.
#include "switch/config/config_schema.h"

namespace weft::config {
namespace {

using Key = Schema::Key;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostBytesPerSecond = std::int64_t{1} << 40;

Schema bytes() {
  return Schema::integer(0, kMostBytes);
}

Key class_map(const char* name, const char* doc) {
  return Key::optional_key(name, Schema::dictionary(Schema::dictionary(Schema::integer(0, 7))), doc);
}

Schema scheduler() {
  return Schema::map({
      Key::with_default("type", Schema::one_of({"DWRR", "STRICT"}), Value("DWRR"),
                        "STRICT: before all queues with lower numbers and all that are DWRR."),
      Key::with_default("weight", Schema::integer(1, 100), Value(1), "DWRR: share of what strict queues leave."),
      Key::with_default("pir", Schema::integer(0, kMostBytesPerSecond), Value(0),
                        "Peak rate in bytes of frames a second, at least 1000; 0: none."),
      Key::with_default("pbs", bytes(), Value(0), "Bytes that may exceed the peak rate at once."),
  });
}

Schema percent() {
  return Schema::number(0, 100);
}

Schema wred_profile() {
  return Schema::map({
      Key::with_default("ecn", Schema::one_of({"ecn_all", "ecn_none"}), Value("ecn_all"),
                        "ecn_none: packets are not marked, and ECN-capable ones are treated as all others."),
      Key::required_key("green_min_threshold", bytes(), "Kmin: bytes in the queue from which on packets are marked."),
      Key::required_key("green_max_threshold", bytes(), "Kmax: bytes beyond which every packet is marked."),
      Key::with_default("green_drop_probability", percent(), Value(20.0),
                        "Pmax in percent: the probability at green_max_threshold. SONiC's name; it is of marks."),
      Key::with_default("mark_at", Schema::one_of({"dequeue", "enqueue"}), Value("dequeue"),
                        "Where packets are marked, by the bytes in the queue at that moment."),
      Key::with_default("not_ect", Schema::one_of({"limit", "drop_by_curve"}), Value("limit"),
                        "Packets that are not ECN-capable are dropped at the queue's limit only, or by a curve."),
      Key::optional_key("drop_min_threshold", bytes(), "drop_by_curve: where it begins; default: green_min_threshold."),
      Key::optional_key("drop_max_threshold", bytes(), "drop_by_curve: where it ends; default: green_max_threshold."),
      Key::optional_key("drop_probability", percent(),
                        "drop_by_curve: percent at its end; default: green_drop_probability."),
  });
}

Schema port_qos_map() {
  return Schema::map({
      Key::optional_key("dscp_to_tc_map", Schema::string(), "DSCP_TO_TC_MAP of IP packets that come in here."),
      Key::optional_key("dot1p_to_tc_map", Schema::string(),
                        "DOT1P_TO_TC_MAP of tagged frames; of IP packets too when there is no dscp_to_tc_map."),
      Key::optional_key("tc_to_queue_map", Schema::string(), "TC_TO_QUEUE_MAP."),
      Key::optional_key("tc_to_pg_map", Schema::string(), "TC_TO_PRIORITY_GROUP_MAP."),
      Key::optional_key("pfc_enable", Schema::list(Schema::integer(0, 7)),
                        "Traffic classes that are lossless by PFC; default: 3 and 4."),
      Key::with_default("flow_control", Schema::boolean(), Value(false),
                        "802.3x PAUSE in both directions, in the place of PFC."),
      Key::optional_key("scheduler", Schema::string(), "SCHEDULER whose pir and pbs shape the port."),
  });
}

Schema buffer_profile() {
  return Schema::map({
      Key::with_default("size", bytes(), Value(0), "Bytes reserved."),
      Key::optional_key("dynamic_th", Schema::integer(-8, 8),
                        "Threshold: free bytes of the shared buffer times two to this power (alpha)."),
      Key::optional_key("static_th", bytes(), "Threshold in bytes; default: none."),
      Key::with_default("xoff", bytes(), Value(0),
                        "Headroom in bytes, for what arrives between XOFF and its effect (priority groups)."),
      Key::with_default("xon_offset", Schema::integer(0, 1 << 30), Value(3072),
                        "Bytes below the threshold at which the sender may go on (priority groups)."),
  });
}

Schema with_profile() {
  return Schema::dictionary(Schema::map({
      Key::required_key("profile", Schema::string(), "Name of a BUFFER_PROFILE."),
  }));
}

}  // namespace

Schema qos_schema() {
  const Schema pool = Schema::map({
      Key::optional_key("size", Schema::integer(1, kMostBytes),
                        "Bytes of all packets; default: 12000000, and all reserves and headroom."),
      Key::with_default("model", Schema::one_of({"conweave", "hpcc"}), Value("conweave"),
                        "Admission as in the simulators of HPCC (ingress thresholds) or ConWeave (egress, too)."),
  });
  const Schema queue = Schema::map({
      Key::optional_key("scheduler", Schema::string(), "Name of a SCHEDULER."),
      Key::optional_key("wred_profile", Schema::string(), "Name of a WRED_PROFILE; \"none\": none."),
  });
  const Schema watchdog = Schema::map({
      Key::with_default("action", Schema::one_of({"drop", "forward", "off"}), Value("drop"),
                        "What is done with a class that the peer pauses without end."),
      Key::with_default("detection_time", Schema::integer(1, 60'000), Value(200), "Milliseconds until it is a storm."),
      Key::with_default("restoration_time", Schema::integer(1, 60'000), Value(200),
                        "Milliseconds without a pause until it is over."),
  });
  const Schema port = Schema::map({
      Key::optional_key("speed", Schema::integer(1, kMaxRateMbps),
                        "Mbit/s that pause quanta, headroom and ECN thresholds are made for; default: rate_mbps, or "
                        "what a pci device says, or 100000."),
      Key::with_default("pause_quanta", Schema::integer(1, 65535), Value(65535), "Of XOFF frames that are sent."),
  });
  return Schema::map({
      class_map("DSCP_TO_TC_MAP", "Maps by name: DSCP, or a range such as 8-15, to traffic class; all 64."),
      class_map("DOT1P_TO_TC_MAP", "Maps by name: 802.1p priority to traffic class; all 8."),
      class_map("TC_TO_QUEUE_MAP", "Maps by name: traffic class to queue; all 8."),
      class_map("TC_TO_PRIORITY_GROUP_MAP", "Maps by name: traffic class to priority group; all 8."),
      Key::optional_key("SCHEDULER", Schema::dictionary(scheduler()), "Schedulers by name."),
      Key::optional_key("WRED_PROFILE", Schema::dictionary(wred_profile()), "WRED and ECN profiles by name."),
      Key::optional_key("PORT_QOS_MAP", Schema::dictionary(port_qos_map()), "By port, or `all`."),
      Key::optional_key("QUEUE", Schema::dictionary(queue), "By port|queue, as p1|3 or all|3-4."),
      Key::with_default("BUFFER_POOL", pool, Value(Value::Map{}), "The packet memory of the switch."),
      Key::optional_key("BUFFER_PROFILE", Schema::dictionary(buffer_profile()), "Buffer profiles by name."),
      Key::optional_key("BUFFER_PG", with_profile(), "Profiles by port|priority group, as p1|3 or all|3-4."),
      Key::optional_key("BUFFER_QUEUE", with_profile(), "Profiles by port|queue, as p1|3 or all|0-2."),
      Key::optional_key("PFC_WD", Schema::dictionary(watchdog), "The PFC watchdog, by port, or `all`."),
      Key::optional_key("PORT", Schema::dictionary(port), "By port, or `all`."),
  });
}

}  // namespace weft::config
