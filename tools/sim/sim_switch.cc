// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/sim_switch.h"

#include <algorithm>
#include <bit>

#include "switch/stages/l3/shared.h"
#include "switch/wire/headers.h"

namespace weft::sim {
namespace {

using pipeline::Batch;

// Calls f(port) for every bit that is set, and clears it before.
template <typename F>
void take_bits(std::vector<std::uint64_t>& bits, F&& f) {
  for (std::size_t word = 0; word < bits.size(); ++word) {
    while (bits[word] != 0) {
      const auto bit = static_cast<unsigned>(std::countr_zero(bits[word]));
      bits[word] &= bits[word] - 1;
      f(static_cast<PortIndex>(word * 64 + bit));
    }
  }
}

void set_bit(std::vector<std::uint64_t>& bits, PortIndex port, bool on = true) {
  const std::uint64_t bit = std::uint64_t{1} << port % 64;
  bits[port / 64] = on ? bits[port / 64] | bit : bits[port / 64] & ~bit;
}

}  // namespace

SimSwitch::SimSwitch(const pipeline::Registry& registry, pipeline::SwitchInfo info, rte_mempool* pool,
                     std::uint32_t device, std::uint64_t seed, const std::vector<Link*>& links, Partition& partition)
    : Receiver(device),
      events_(partition.events()),
      tap_(partition.witness(), device),
      inbox_event_(*this, device),
      timer_event_(*this, device) {
  const std::size_t ports = info.ports.size();
  const std::size_t words = (ports + 63) / 64;
  admitted_.resize(words);
  arrived_.resize(words);
  pausing_.resize(words);
  paused_.resize(words);
  pauses_.resize(ports);
  pfc_ = info.qos && std::any_of(info.qos->ports.begin(), info.qos->ports.end(),
                                 [](const qos::PortSettings& port) { return port.pfc_enable != 0; });
  state_ = std::make_unique<pipeline::SwitchState>(registry, std::move(info), std::vector<std::uint16_t>(ports), 1);
  pipeline::PipelineHost host;
  host.pool = pool;
  host.meter = false;
  host.seed = seed;
  host.admitted = admitted_.data();
  for (Link* link : links) host.ports.push_back(link);
  pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
  static_cast<void>(pipeline_->add_tap(tap_));
  port_events_ = std::make_unique<PortEvent[]>(ports);
  for (std::size_t p = 0; p < ports; ++p) port_events_[p].belong_to(*this, device, static_cast<PortIndex>(p));
  events_.schedule(timer_event_, pipeline_->stage_deadline());
}

SimSwitch::~SimSwitch() = default;

void SimSwitch::receive(TimeNs /*now*/, PortIndex port, rte_mbuf* m) {
  pipeline::meta(m).in_port = port;
  inbox_.push_back(m);
}

void SimSwitch::run_inbox(TimeNs now) {
  for (std::size_t first = 0; first < inbox_.size(); first += Batch::kCapacity) {
    const auto count = static_cast<std::uint16_t>(std::min<std::size_t>(Batch::kCapacity, inbox_.size() - first));
    if (pfc_) {
      for (std::uint16_t i = 0; i < count; ++i) note_arrival(inbox_[first + i]);
    }
    pipeline_->receive_mixed(now, inbox_.data() + first, count);
  }
  inbox_.clear();
  serve_admitted(now);
  if (pfc_) {
    // A group that fills up asks its port to send a pause; a pause that came in concerns the port's own queues.
    take_bits(arrived_, [&](PortIndex port) {
      if (pipeline_->class_queues(port)->pause_due(now)) serve(now, port);
    });
    take_bits(paused_, [&](PortIndex port) { serve(now, port); });
  }
  events_.schedule(timer_event_, pipeline_->stage_deadline());
}

void SimSwitch::run_timers(TimeNs now) {
  pipeline_->run_timers(now);
  serve_admitted(now);
  events_.schedule(timer_event_, pipeline_->stage_deadline());
}

void SimSwitch::note_arrival(const rte_mbuf* m) {
  const auto& ethernet = wire::header_at<wire::EthernetHeader>(pipeline::frame(m));
  const bool pause = ethernet.ethertype.value() == wire::EtherType::mac_control;
  set_bit(pause ? paused_ : arrived_, pipeline::meta(m).in_port);
}

// Where packets waited before, the port's event has the time at which its wire is free.
void SimSwitch::serve_admitted(TimeNs now) {
  take_bits(admitted_, [&](PortIndex port) {
    if (port_events_[port].idle) serve(now, port);
  });
}

void SimSwitch::serve(TimeNs now, PortIndex port) {
  pipeline_->serve_port(now, port);
  reschedule(port);
  if (pfc_) {
    note_pauses(now, port);
    look_at_pauses(now);
  }
  // The egress half of a stage may have sent packets elsewhere.
  take_bits(admitted_, [&](PortIndex other) { reschedule(other); });
}

void SimSwitch::note_pauses(TimeNs now, PortIndex port) {
  const std::uint8_t told = pipeline_->class_queues(port)->sender().paused();
  Pauses& pauses = pauses_[port];
  if (told == pauses.told) return;
  const int began = std::popcount(static_cast<std::uint8_t>(told & ~pauses.told));
  pauses.told = told;
  set_bit(pausing_, port, told != 0);
  if (began == 0) return;
  const auto ms = static_cast<std::uint32_t>(now / 1'000'000);
  if (pauses.by_ms.empty() || pauses.by_ms.back().first != ms) pauses.by_ms.emplace_back(ms, 0);
  pauses.by_ms.back().second += static_cast<std::uint32_t>(began);
}

// What left may have freed the room that a paused port waits for.
void SimSwitch::look_at_pauses(TimeNs now) {
  for (std::size_t word = 0; word < pausing_.size(); ++word) {
    for (std::uint64_t left = pausing_[word]; left != 0; left &= left - 1) {
      const auto port = static_cast<PortIndex>(word * 64 + static_cast<unsigned>(std::countr_zero(left)));
      if (pipeline_->class_queues(port)->pause_due(now)) reschedule(port);
    }
  }
}

void SimSwitch::set_link(TimeNs now, PortIndex port, bool up) {
  state_->set_link(port, up);
  run_timers(now);
  serve(now, port);
}

void SimSwitch::set_routes(TimeNs now, std::vector<pipeline::RouteInfo> routes) {
  auto* routing = state_->capability<stages::L3Shared>();
  if (routing == nullptr) return;
  routing->set_routes(std::move(routes));
  run_timers(now);
  // The worker has let go of the old table.
  routing->housekeeping(now);
}

bool SimSwitch::balanced() const noexcept {
  const pipeline::FlowTotals& t = pipeline_->totals();
  return t.rx.value() + t.made() == t.tx.value() + t.ended() + pipeline_->held();
}

void SimSwitch::drop_all(TimeNs now) {
  for (rte_mbuf* m : inbox_) rte_pktmbuf_free(m);
  inbox_.clear();
  for (int round = 0; round < 16 && pipeline_->held() != 0; ++round) {
    pipeline_->flush_stages(now);
    pipeline_->drop_queued(now);
  }
}

}  // namespace weft::sim
