// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/experiment.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "nic/rnic/reorder_buffer.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/schema/validate.h"
#include "switch/config/switch_builder.h"
#include "switch/config/yaml_reader.h"
#include "switch/stages/lb/gemma_report.h"
#include "tools/sim/experiment_builder.h"
#include "tools/sim/packet_memory.h"
#include "tools/sim/payload.h"

namespace weft::sim {
namespace {

using config::Diagnostics;
using config::Value;

// What the switches' own loader says of their configurations: those with a pipeline of their own, and one of each kind
// of the others, because these differ in the number of their ports alone.
void check_switches(const Experiment& experiment, const pipeline::Registry& registry, Diagnostics& diagnostics) {
  std::set<std::pair<bool, unsigned>> seen;
  const auto& switches = experiment.topology.switches();
  for (std::uint32_t i = 0; i < switches.size(); ++i) {
    const bool own = experiment.switches.pipeline_of(i) != nullptr;
    if (!own && !seen.emplace(switches[i].host_count != 0, switches[i].tier).second) continue;
    const Value document = switch_document(experiment.topology, i, experiment.switches, {});
    if (!load_switch_document(experiment.topology, i, document, registry, diagnostics)) return;
  }
}

bool reports_queues(const Value& pipeline) {
  const Value::List& stages = pipeline.list_or_empty();
  return std::any_of(stages.begin(), stages.end(), [](const Value& stage) {
    return stage.is_map() && stage.has("lb_tag") && stage["lb_tag"].has("gemma");
  });
}

// Buffers hold headers alone, but a report of Gemma's tells of all leaves, and there may be many.
std::uint16_t buffer_room(const Experiment& experiment) {
  const auto& switches = experiment.topology.switches();
  const SwitchSpec& spec = experiment.switches;
  const std::uint16_t room = experiment.payload_values ? frame_room(experiment.qp.path_mtu) : kHeaderRoom;
  const bool reports = reports_queues(spec.pipeline) || reports_queues(spec.pipeline_above) ||
                       std::any_of(spec.pipelines.begin(), spec.pipelines.end(),
                                   [](const auto& own) { return reports_queues(own.second); });
  if (!reports) return room;
  const auto leaves = std::count_if(switches.begin(), switches.end(), [](const auto& s) { return s.host_count != 0; });
  return std::max(
      room, static_cast<std::uint16_t>(RTE_PKTMBUF_HEADROOM + stages::report_bytes(static_cast<std::size_t>(leaves))));
}

}  // namespace

std::optional<Experiment> load_experiment(std::string_view text, const std::string& file,
                                          const std::vector<Override>& overrides, const pipeline::Registry& registry,
                                          Diagnostics& diagnostics) {
  auto document = config::read_yaml(text, file, diagnostics);
  if (!document) return std::nullopt;
  for (const Override& change : overrides) experiment::apply(change, *document, diagnostics);
  const Value source = config::validate(experiment_schema(registry), *document, "", &registry, diagnostics);
  // What a file says wrongly in one place need not keep mistakes in others from being found; but what refers to
  // something wrong cannot be looked at.
  Experiment experiment;
  experiment.source = source;
  if (source.is_map()) ExperimentBuilder(source, file, registry, diagnostics).build(experiment);
  if (diagnostics.ok()) check_switches(experiment, registry, diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  return experiment;
}

std::uint32_t reorder_window(const nic::QpConfig& qp, std::uint64_t packets) noexcept {
  // Beyond this a smaller window saves nothing: senders keep a word of 64 bits of what has arrived.
  constexpr std::uint64_t kLeast = 64;
  std::uint64_t under_way = packets;
  if (qp.max_inflight_bytes != 0) under_way = std::min(under_way, qp.max_inflight_bytes / qp.path_mtu + 1);
  // One more than there are, so that no sender waits for its receiver's window.
  const std::uint64_t enough = std::max(under_way + 1, kLeast);
  return static_cast<std::uint32_t>(std::bit_ceil(std::min<std::uint64_t>(enough, qp.reorder_window)));
}

MemoryEstimate estimate_memory(const Experiment& experiment) {
  MemoryEstimate m;
  // A queue pair has as many packets under way as its window, and as many ACKs; but no host has more than a few busy
  // queue pairs whose packets all wait in the network at once, and nothing waits beyond the buffers of the switches.
  const std::uint64_t window = experiment.qp.max_inflight_packets;
  const std::uint64_t busy =
      std::min<std::uint64_t>(experiment.plan.channels.size(), experiment.topology.hosts().size() * 32);
  std::uint64_t buffers = 0;
  for (std::uint32_t i = 0; i < experiment.topology.switches().size(); ++i) {
    buffers += experiment.switches.buffer_of(i) / (experiment.qp.path_mtu / 2 + 64);
  }
  const bool unlimited = !experiment.switches.unlimited.empty();
  std::uint64_t packets = unlimited ? busy * window : std::min(busy * window, buffers);
  // Datagrams have no window: all of them may wait at once, and buffers leave out what travels on links.
  if (experiment.datagrams)
    packets = experiment.plan.bytes() / experiment.qp.path_mtu + experiment.plan.transfers.size();
  // A rank's window is on its way up, and as much down.
  if (experiment.inc) {
    std::uint64_t ranks = 0;
    for (const IncGroup& g : experiment.inc->groups) ranks += g.hosts.size();
    packets = 2 * ranks * experiment.inc->window * experiment.inc->message_packets;
    // After losses, senders repeat more than is missing, and a switch that forwards again sends it to everyone.
    const bool loses = std::any_of(experiment.faults.begin(), experiment.faults.end(),
                                   [](const Fault& fault) { return fault.loss > 0; });
    if (loses) packets = std::max(packets, std::min(buffers, 16 * packets));
  }
  packets += experiment.background.size() * window;
  // An RNIC may have as many ACKs under way as packets.
  const std::uint64_t mbufs =
      std::clamp<std::uint64_t>((experiment.datagrams ? 1 : 2) * packets + 4096, 16'384, 1u << 23);
  m.mbufs = experiment.mbufs != 0 ? experiment.mbufs : static_cast<std::uint32_t>(mbufs);
  constexpr std::uint64_t kBuffer = 576;
  constexpr std::uint64_t kQueueItem = 16;
  constexpr std::uint64_t kQp = 6'000;
  constexpr std::uint64_t kReordered = 160;
  // Receivers take memory for what is out of order (ReorderBuffer). Beyond a few pages of it something is lost, or
  // paths differ by more than their queues.
  constexpr std::uint32_t kPages = 4;
  const bool reorders = experiment.qp.loss_recovery != nic::LossRecovery::gbn;
  std::uint64_t slots = 0;
  for (const Channel& channel : experiment.plan.channels) {
    const std::uint32_t own = reorder_window(experiment.qp, channel.packets);
    slots += reorders ? std::min(own, kPages * nic::ReorderBuffer::kPageSlots) : 0;
  }
  m.room = buffer_room(experiment);
  m.bytes = m.mbufs * (kBuffer + m.room - kHeaderRoom);
  m.bytes += std::uint64_t{m.mbufs} * kQueueItem * experiment.topology.switches().size();
  if (!experiment.datagrams) {
    m.bytes += experiment.plan.channels.size() * 2 * kQp + slots * kReordered;
  }
  if (experiment.payload_values) {
    if (!experiment.inc) m.bytes += PayloadMemory::bytes_of(experiment.plan);
    m.bytes += slots * experiment.qp.path_mtu;
  }
  m.bytes += experiment.plan.transfers.size() * (sizeof(Transfer) + 64) + 64'000'000;
  return m;
}

bool is_large(const Experiment& experiment) {
  // A packet passes about three switches, and so does its acknowledgement; a minute has about so many of these.
  constexpr std::uint64_t kPacketsOfAMinute = 10'000'000;
  return experiment.plan.bytes() / experiment.qp.path_mtu + experiment.plan.transfers.size() >= kPacketsOfAMinute;
}

}  // namespace weft::sim
