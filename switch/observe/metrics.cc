// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/metrics.h"

#include <prometheus/metric_family.h>
#include <rte_cycles.h>
#include <rte_version.h>

#include <utility>

#include "switch/observe/latency.h"
#include "switch/observe/metric_families.h"
#include "switch/observe/qos_metrics.h"

namespace weft {
namespace {

using pipeline::FlowTotals;
using pipeline::Pipeline;
using pipeline::PortInfo;
using pipeline::PortTotals;
using pipeline::StageTotals;
using prometheus::MetricFamily;
using Labels = MetricLabels;
using Families = MetricFamilies;
using Pipelines = std::span<const std::unique_ptr<Pipeline>>;

template <typename ValueOf>
std::uint64_t sum_of(Pipelines pipelines, ValueOf&& value_of) {
  std::uint64_t sum = 0;
  for (const auto& p : pipelines) sum += value_of(*p);
  return sum;
}

void add_totals(Families& out, const Labels& labels, Pipelines pipelines) {
  const auto total = [&](const char* name, const char* help, auto member) {
    out.counter(name, help, labels, sum_of(pipelines, [&](const Pipeline& p) { return (p.totals().*member).value(); }));
  };
  const std::uint64_t inside = count_inside(
      [&] { return sum_of(pipelines, [](const Pipeline& p) { return p.totals().tx.value() + p.totals().ended(); }); },
      [&] { return sum_of(pipelines, [](const Pipeline& p) { return p.totals().rx.value() + p.totals().made(); }); });
  total("weft_switch_rx_packets_total", "Packets received on all ports.", &FlowTotals::rx);
  total("weft_switch_rx_bytes_total", "Bytes received on all ports, without frame check sequence.",
        &FlowTotals::rx_bytes);
  total("weft_switch_tx_packets_total", "Packets sent on all ports.", &FlowTotals::tx);
  total("weft_switch_tx_bytes_total", "Bytes sent on all ports, without frame check sequence.", &FlowTotals::tx_bytes);
  total("weft_switch_generated_packets_total", "Packets that the switch itself made.", &FlowTotals::generated);
  total("weft_switch_replicated_packets_total", "Copies made for flooding and duplication.", &FlowTotals::replicated);
  total("weft_switch_consumed_packets_total", "Packets whose destination was the switch itself.",
        &FlowTotals::consumed);
  out.gauge("weft_switch_held_packets", "Packets inside: in stages, egress queues and rings between workers.", labels,
            static_cast<double>(inside));
}

void add_drops(Families& out, const std::string& name, const pipeline::DropReasons& reasons, Pipelines pipelines) {
  for (const pipeline::DropReason value : reasons.all()) {
    const auto i = static_cast<std::size_t>(value);
    const auto& reason = reasons[value];
    out.counter(
        "weft_drops_total", "Packets that ended in the switch, by reason.",
        {{"switch", name}, {"reason", std::string(reason.name)}, {"severity", std::string(to_string(reason.severity))}},
        sum_of(pipelines, [&](const Pipeline& p) { return p.totals().dropped[i].value(); }));
  }
}

void add_port(Families& out, const Labels& labels, const PortInfo& port, Pipelines pipelines) {
  const auto total = [&](const char* name, const char* help, auto member) {
    out.counter(name, help, labels,
                sum_of(pipelines, [&](const Pipeline& p) { return (p.port_totals(port.index).*member).value(); }));
  };
  total("weft_port_rx_packets_total", "Packets received on the port.", &PortTotals::rx);
  total("weft_port_rx_bytes_total", "Bytes received on the port, without frame check sequence.", &PortTotals::rx_bytes);
  total("weft_port_tx_packets_total", "Packets sent on the port.", &PortTotals::tx);
  total("weft_port_tx_bytes_total", "Bytes sent on the port, without frame check sequence.", &PortTotals::tx_bytes);
  total("weft_port_drops_total", "Packets that were to leave through the port and were dropped.", &PortTotals::dropped);
}

void add_device(Families& out, const Labels& labels, const ports::Port& device) {
  const ports::DeviceStats stats = device.device_stats();
  out.counter("weft_port_rx_missed_total", "Packets lost by the device because weft was too slow.", labels,
              stats.rx_missed);
  out.counter("weft_port_rx_errors_total", "Broken or truncated frames that the device refused.", labels,
              stats.rx_errors);
  out.counter("weft_port_rx_no_mbuf_total", "Packets lost by the device because no packet buffer was left.", labels,
              stats.rx_no_mbuf);
  out.counter("weft_port_kernel_rx_dropped_total", "Packets that the kernel dropped before the port had them.", labels,
              stats.kernel_rx_dropped);
  out.counter("weft_port_kernel_tx_dropped_total", "Packets of the port that the kernel did not send.", labels,
              stats.kernel_tx_dropped);
  out.counter("weft_port_tx_errors_total", "Packets that the device took and did not send.", labels, stats.tx_errors);
}

template <typename TotalsOf>
void add_stage(Families& out, const std::string& switch_name, const std::string& stage, const char* half,
               Pipelines pipelines, TotalsOf&& totals_of) {
  const Labels labels{{"switch", switch_name}, {"stage", stage}, {"half", half}};
  const auto total = [&](const char* name, const char* help, auto member) {
    out.counter(name, help, labels,
                sum_of(pipelines, [&](const Pipeline& p) { return (totals_of(p).*member).value(); }));
  };
  total("weft_stage_packets_total", "Packets that went through the stage.", &StageTotals::packets);
  total("weft_stage_bursts_total", "Bursts in which they came.", &StageTotals::bursts);
  total("weft_stage_cycles_total", "Cycles of the time stamp counter that the stage took (weft_tsc_hertz of a second).",
        &StageTotals::cycles);
}

void add_stages(Families& out, const std::string& name, const pipeline::SwitchState& state, Pipelines pipelines) {
  const auto& types = state.types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i]->has_ingress) {
      add_stage(out, name, types[i]->name, "ingress", pipelines,
                [i](const Pipeline& p) -> const StageTotals& { return p.ingress_totals(i); });
    }
    if (types[i]->has_egress) {
      add_stage(out, name, types[i]->name, "egress", pipelines,
                [i](const Pipeline& p) -> const StageTotals& { return p.egress_totals(i); });
    }
  }
  add_stage(out, name, "admission", "ingress", pipelines,
            [](const Pipeline& p) -> const StageTotals& { return p.admission_totals(); });
  add_stage(out, name, "tx", "egress", pipelines,
            [](const Pipeline& p) -> const StageTotals& { return p.tx_totals(); });
}

// A stage's own counters, as it declares them: weft_STAGE_COUNTER_total, gauges without _total.
void add_stage_counters(Families& out, const Labels& labels, const pipeline::SwitchState& state, Pipelines pipelines) {
  for (std::size_t i = 0; i < state.types().size(); ++i) {
    const pipeline::StageType& type = *state.types()[i];
    for (std::size_t k = 0; k < type.counters.size(); ++k) {
      const pipeline::CounterInfo& counter = type.counters[k];
      const std::string name = "weft_" + type.name + "_" + counter.name;
      const std::uint64_t value =
          sum_of(pipelines, [&](const Pipeline& p) { return p.stage(i).counters()[k].value(); });
      if (counter.kind == pipeline::CounterKind::gauge) {
        out.gauge(name, counter.help, labels, static_cast<double>(value));
      } else {
        out.counter(name + "_total", counter.help, labels, value);
      }
    }
  }
}

}  // namespace

std::vector<MetricFamily> metrics_of(const RunningProcess& process, std::span<const RunningWorker> workers,
                                     std::span<const RunningSwitch> switches) {
  Families out;
  out.gauge("weft_build_info", "Always 1; the labels say which program this is.",
            {{"version", WEFT_VERSION}, {"dpdk", rte_version()}}, 1);
  out.gauge("weft_uptime_seconds", "Time since forwarding began.", {}, static_cast<double>(process.uptime) / 1e9);
  const auto tsc_hz = static_cast<double>(rte_get_tsc_hz());
  out.gauge("weft_tsc_hertz", "Cycles of the time stamp counter in a second.", {}, tsc_hz);
  out.gauge("weft_packet_buffers", "Packet buffers of the process.", {}, process.packet_buffers);
  out.gauge("weft_packet_buffers_free", "Packet buffers that hold no packet.", {}, process.packet_buffers_free);
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const WorkerUsage& usage = workers[w].usage;
    const Labels labels{{"worker", std::to_string(w)}, {"cpu", std::to_string(workers[w].cpu)}};
    out.seconds("weft_worker_seconds_total", "Time that the worker has run.", labels,
                static_cast<double>(usage.cycles) / tsc_hz);
    out.seconds("weft_worker_busy_seconds_total", "Time of loops in which the worker found packets.", labels,
                static_cast<double>(usage.busy_cycles) / tsc_hz);
    out.counter("weft_worker_loops_total", "Loops of the worker.", labels, usage.loops);
    out.counter("weft_worker_sleeps_total", "Times that the worker gave its CPU away.", labels, usage.sleeps);
    out.counter("weft_worker_rx_packets_total", "Packets from the ports that the worker polls.", labels,
                usage.received);
    out.counter("weft_worker_handed_in_packets_total", "Packets that other workers brought.", labels, usage.handed_in);
    out.counter("weft_worker_handed_out_packets_total", "Packets brought to other workers.", labels, usage.handed_out);
    out.counter("weft_worker_rings_full_total", "Times that the ring to another worker could not take a burst whole.",
                labels, usage.rings_full);
  }
  for (const RunningSwitch& s : switches) {
    const std::string& name = s.state.info().name;
    const Labels labels{{"switch", name}};
    add_totals(out, labels, s.pipelines);
    add_drops(out, name, s.state.drop_reasons(), s.pipelines);
    for (const PortInfo& port : s.state.info().ports) {
      const Labels of_port{{"switch", name}, {"port", port.name}};
      std::uint64_t depth = 0;
      for (const auto& p : s.pipelines) depth += p->queue_depth(port.index);
      out.gauge("weft_port_up", "1 when the port's link is up.", of_port, s.state.link_up(port.index) ? 1 : 0);
      add_port(out, of_port, port, s.pipelines);
      out.gauge("weft_port_queue_packets", "Packets in the port's egress queue.", of_port, depth);
      out.gauge("weft_port_queue_capacity_packets", "Packets that the port's egress queue can hold.", of_port,
                port.queue_packets);
      add_device(out, of_port, *s.ports[port.index]);
    }
    add_latency(out, s);
    add_qos(out, name, s.state, s.pipelines);
    add_stages(out, name, s.state, s.pipelines);
    add_stage_counters(out, labels, s.state, s.pipelines);
  }
  return out.take();
}

}  // namespace weft
