// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/qos_metrics.h"

#include "switch/pipeline/class_queues.h"

namespace weft {
namespace {

using pipeline::ClassQueues;
using pipeline::QueueCounters;
using qos::kClasses;
using qos::SharedBuffer;

double number(const qos::Gauge& gauge) {
  return static_cast<double>(gauge.value());
}
double seconds(const Counter& ns) {
  return static_cast<double>(ns.value()) / 1e9;
}

void add_queue(MetricFamilies& out, const MetricLabels& labels, const SharedBuffer::Queue& queue,
               const QueueCounters& c) {
  out.gauge("weft_queue_bytes", "Bytes in the class queue.", labels, number(queue.bytes));
  out.gauge("weft_queue_packets", "Packets in the class queue.", labels, number(queue.packets));
  out.gauge("weft_queue_peak_bytes", "Most bytes that the class queue ever held.", labels, number(queue.peak_bytes));
  out.counter("weft_queue_tx_packets_total", "Packets that left the class queue.", labels, c.packets.value());
  out.counter("weft_queue_tx_bytes_total", "Bytes that left the class queue.", labels, c.bytes.value());
  out.counter("weft_queue_ecn_marked_total", "Packets that the queue marked with CE.", labels, c.ecn_marked.value());
  out.counter("weft_queue_ecn_ce_total", "Packets that came with CE.", labels, c.ecn_ce.value());
  const auto drops = [&](const char* reason, const Counter& counter) {
    MetricLabels with_reason = labels;
    with_reason.push_back({"reason", reason});
    out.counter("weft_queue_drops_total", "Packets for the class queue that were dropped.", with_reason,
                counter.value());
  };
  drops("buffer_egress", c.dropped_queue);
  drops("buffer_ingress", c.dropped_group);
  drops("headroom_full", c.dropped_headroom);
  drops("wred", c.dropped_wred);
  drops("pfc_watchdog", c.dropped_watchdog);
}

void add_group(MetricFamilies& out, const MetricLabels& labels, const SharedBuffer::Group& group) {
  out.gauge("weft_priority_group_bytes", "Bytes of the priority group, without headroom.", labels, number(group.bytes));
  out.gauge("weft_priority_group_headroom_bytes", "Bytes in the headroom of the priority group.", labels,
            number(group.headroom));
  out.gauge("weft_priority_group_peak_headroom_bytes", "Most bytes that were ever in the headroom.", labels,
            number(group.peak_headroom));
  out.counter("weft_priority_group_drops_total", "Packets that found no room.", labels, group.drops.value());
}

void add_priority(MetricFamilies& out, const MetricLabels& labels, const ClassQueues& queues, unsigned i) {
  const auto& tx = queues.sender().counters();
  const auto& rx = queues.receiver().counters();
  const auto& dog = queues.watchdog().counters();
  out.counter("weft_pfc_tx_xoff_total", "Times that the peer was told to pause.", labels, tx.xoff[i].value());
  out.counter("weft_pfc_tx_xon_total", "Times that the peer was told to go on.", labels, tx.xon[i].value());
  out.seconds("weft_pfc_tx_paused_seconds_total", "Time for which the peer was told to pause.", labels,
              seconds(tx.paused_ns[i]));
  out.counter("weft_pfc_rx_xoff_total", "Pauses received for the class.", labels, rx.xoff[i].value());
  out.counter("weft_pfc_rx_xon_total", "Ends of pauses received for the class.", labels, rx.xon[i].value());
  out.seconds("weft_pfc_rx_paused_seconds_total", "Time for which the peer paused the class.", labels,
              seconds(rx.paused_ns[i]));
  out.counter("weft_pfc_storms_total", "Storms that the PFC watchdog saw.", labels, dog.detected[i].value());
  out.counter("weft_pfc_storms_restored_total", "Storms that were over.", labels, dog.restored[i].value());
}

void add_frames(MetricFamilies& out, const MetricLabels& labels, const ClassQueues& queues) {
  const auto& rx = queues.receiver().counters();
  out.counter("weft_pause_tx_frames_total", "PAUSE and PFC frames sent.", labels,
              queues.sender().counters().frames.value());
  out.counter("weft_pause_rx_frames_total", "PAUSE and PFC frames that were heeded.", labels,
              rx.pfc.value() + rx.pause.value());
  out.counter("weft_pause_rx_malformed_total", "MAC control frames that mean nothing.", labels, rx.malformed.value());
  out.counter("weft_pause_rx_ignored_total", "PAUSE and PFC frames for what is not enabled.", labels,
              rx.ignored.value());
}

}  // namespace

void add_qos(MetricFamilies& out, const std::string& switch_name, const pipeline::SwitchState& state,
             QosPipelines pipelines) {
  const SharedBuffer* buffer = state.buffer();
  if (buffer == nullptr) return;
  const MetricLabels of_switch{{"switch", switch_name}};
  out.gauge("weft_buffer_shared_bytes", "Bytes in use of the shared part of the buffer.", of_switch,
            static_cast<double>(buffer->shared_used()));
  out.gauge("weft_buffer_shared_size_bytes", "Bytes of the shared part of the buffer.", of_switch,
            static_cast<double>(buffer->shared_size()));
  out.gauge("weft_buffer_shared_peak_bytes", "Most bytes of the shared part that were ever in use.", of_switch,
            static_cast<double>(buffer->shared_peak()));
  for (const pipeline::PortInfo& port : state.info().ports) {
    const MetricLabels of_port{{"switch", switch_name}, {"port", port.name}};
    const ClassQueues& queues = *pipelines[state.owner_of_port(port.index)]->class_queues(port.index);
    const qos::PortSettings& settings = state.info().qos->ports[port.index];
    add_frames(out, of_port, queues);
    for (unsigned i = 0; i < kClasses; ++i) {
      const auto labelled = [&](const char* name) {
        MetricLabels labels = of_port;
        labels.push_back({name, std::to_string(i)});
        return labels;
      };
      add_queue(out, labelled("queue"), buffer->queue(port.index, i), queues.counters(i));
      add_group(out, labelled("group"), buffer->group(port.index, i));
      const bool pauses = settings.flow_control ? i == 0 : (settings.pfc_enable >> i & 1) != 0;
      if (pauses) add_priority(out, labelled("priority"), queues, i);
    }
  }
}

}  // namespace weft
