// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/summary_rows.h"

#include "tools/experiment/line_chart.h"

namespace weft::sim {

using experiment::readable;

const std::array<SummaryRow, 27>& summary_rows() noexcept {
  static constexpr std::array<SummaryRow, 27> kRows{{
      {"complete", "All transfers ended", Unit::word,
       "No: the run was ended before, or what was lost is never sent again."},
      {"completion_ms", "Completion", Unit::milliseconds,
       "When the last byte of the slowest group of hosts had arrived."},
      {"goodput_gbps", "Goodput of a host", Unit::gbps,
       "Payload per time of a sending host, from its first byte to its last; the mean of these hosts."},
      {"mean_rate_gbps", "Rate of a queue pair", Unit::gbps,
       "What congestion control allowed queue pairs that had work; the mean over them and over time."},
      {"retransmit_ratio", "Sent again", Unit::share, "Request packets that were sent again, of all."},
      {"spurious_retransmit_ratio", "Sent again in vain", Unit::share,
       "Request packets that had arrived before, of all."},
      {"out_of_order", "Packets out of order", Unit::count,
       "Request packets that reached their receiver before one that was sent earlier, which was late or lost."},
      {"nacks_sent", "NACKs sent", Unit::count, "By receiving RNICs, about packets that they miss."},
      {"nacks_false", "False NACKs", Unit::count, "That arrived at a sender about a packet that was not lost."},
      {"nacks_missed_valid", "Missed NACKs", Unit::count,
       "Lost packets that a receiver asked for, by a NACK that was not lost, and whose sender was never told."},
      {"timeouts", "Timeouts", Unit::count, "Senders that sent again because nothing came back."},
      {"drops", "Packets lost", Unit::count, "Anywhere, for any reason; blocked NACKs do not count."},
      {"ecn_marks", "ECN marks", Unit::count, "Packets that a switch marked because its queue was long."},
      {"cnps", "CNPs", Unit::count, "Congestion notifications that arrived at senders."},
      {"pfc_pauses", "Pauses", Unit::count, "PFC frames by which switches stopped those who send to them."},
      {"pfc_paused_ms", "Paused", Unit::milliseconds,
       "How long these pauses lasted until they were lifted, all links and priorities together."},
      {"fct_slowdown_mean", "Slowdown, mean", Unit::factor,
       "Time of a transfer, its acknowledgement included, by the time that it takes alone."},
      {"fct_slowdown_p50", "Slowdown, median", Unit::factor, "Half of the transfers were slowed down less."},
      {"fct_slowdown_p99", "Slowdown, 99 %", Unit::factor, "99 of 100 transfers were slowed down less."},
      {"fct_slowdown_p999", "Slowdown, 99.9 %", Unit::factor, "999 of 1000 transfers were slowed down less."},
      {"packets", "Packets", Unit::count, "Request packets that hosts sent, those sent again included."},
      {"packet_hops", "Packets at switches", Unit::count, "Each packet as often as a switch received it."},
      {"events", "Events", Unit::count, "Steps of virtual time."},
      {"wall_s", "Time of the run", Unit::seconds, "On this machine."},
      {"cpu_s", "CPU time", Unit::seconds, "Of the same; less when the machine did other work."},
      {"packet_hops_per_s", "Packets at switches, speed", Unit::per_second, "Of the simulator."},
      {"events_per_s", "Events, speed", Unit::per_second, "Of the simulator."},
  }};
  return kRows;
}

std::string shown_with_unit(const nlohmann::ordered_json& value, Unit unit) {
  if (value.is_null()) return "unknown";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_number()) return value.is_string() ? value.get<std::string>() : value.dump();
  const double number = value.get<double>();
  switch (unit) {
    case Unit::milliseconds:
      return readable(number) + " ms";
    case Unit::gbps:
      return readable(number) + " Gbit/s";
    case Unit::share:
      return readable(number * 100) + " %";
    case Unit::seconds:
      return readable(number) + " s";
    case Unit::per_second:
      return readable(number) + " per s";
    case Unit::word:
    case Unit::count:
    case Unit::factor:
      break;
  }
  return readable(number);
}

}  // namespace weft::sim
