// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A production pipeline in virtual time: its ports are served exactly when their deadlines come, and packets that
// arrive at the same instant go through it as one burst.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/switch_state.h"
#include "switch/stages/nack_filter/drops.h"
#include "tools/sim/link.h"

namespace weft::sim {

class SimSwitch final : public Receiver {
 public:
  /// @param device  its number among all devices
  /// @param links   out of each port, by PortIndex
  SimSwitch(const pipeline::Registry& registry, pipeline::SwitchInfo info, rte_mempool* pool, std::uint32_t device,
            std::uint64_t seed, const std::vector<Link*>& links, Partition& partition);
  ~SimSwitch() override;

  void receive(TimeNs now, PortIndex port, rte_mbuf* m) override;
  void received_all() override {
    if (!inbox_.empty()) events_.fire_now(inbox_event_);
  }
  /// The link of a port goes down or comes back.
  void set_link(TimeNs now, PortIndex port, bool up);
  /// Replaces the routes, as the control plane of a running switch does.
  void set_routes(TimeNs now, std::vector<pipeline::RouteInfo> routes);

  [[nodiscard]] pipeline::SwitchState& state() noexcept { return *state_; }
  [[nodiscard]] pipeline::Pipeline& pipeline() noexcept { return *pipeline_; }
  [[nodiscard]] const pipeline::Pipeline& pipeline() const noexcept { return *pipeline_; }
  /// Packets inside, those that have just arrived included.
  [[nodiscard]] std::uint64_t held() const noexcept { return pipeline_->held() + inbox_.size(); }
  /// How many pauses a port has told its peer: (millisecond of the run, pauses that began in it), in order, without
  /// those that had none.
  using PausesByMs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  [[nodiscard]] const PausesByMs& pauses_by_ms(PortIndex port) const noexcept { return pauses_[port].by_ms; }
  /// Everything that came in went somewhere.
  [[nodiscard]] bool balanced() const noexcept;
  /// Drops what is still inside, as shutdown.
  void drop_all(TimeNs now);

 private:
  // Tells the witness of losses, wherever in the switch they happen.
  class LossTap : public pipeline::Tap {
   public:
    LossTap(Witness& witness, std::uint32_t device) : witness_(witness), device_(device) {}
    [[nodiscard]] bool sees_traffic() const noexcept override { return false; }
    void received(TimeNs, PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
    void sending(TimeNs, PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
    void sent(std::uint16_t, std::uint16_t) noexcept override {}
    void dropped(TimeNs now, const rte_mbuf* m, pipeline::DropReason reason) noexcept override {
      if (reason != stages::NackDrop::nack_blocked) witness_.lost(now, device_, m);
    }

   private:
    Witness& witness_;
    std::uint32_t device_;
  };
  struct PortEvent : Event {
    PortEvent() : Event(EventOrder(EventOrder::Phase::traffic, 0, EventOrder::Kind::port)) {}
    void belong_to(SimSwitch& sw, std::uint32_t device, PortIndex index) {
      owner = &sw;
      port = index;
      set_order(EventOrder(EventOrder::Phase::traffic, device, EventOrder::Kind::port, index));
    }
    void fire(TimeNs now) override { owner->serve(now, port); }
    SimSwitch* owner = nullptr;
    PortIndex port = 0;
    bool idle = true;  ///< nothing waits in its queues: what is admitted may leave at once
  };
  struct InboxEvent : Event {
    InboxEvent(SimSwitch& sw, std::uint32_t device)
        : Event(EventOrder(EventOrder::Phase::traffic, device, EventOrder::Kind::inbox)), owner(sw) {}
    void fire(TimeNs now) override { owner.run_inbox(now); }
    SimSwitch& owner;
  };
  struct TimerEvent : Event {
    TimerEvent(SimSwitch& sw, std::uint32_t device)
        : Event(EventOrder(EventOrder::Phase::traffic, device, EventOrder::Kind::timers)), owner(sw) {}
    void fire(TimeNs now) override { owner.run_timers(now); }
    SimSwitch& owner;
  };

  void run_inbox(TimeNs now);
  void run_timers(TimeNs now);
  void serve(TimeNs now, PortIndex port);
  void note_arrival(const rte_mbuf* m);
  void serve_admitted(TimeNs now);
  void look_at_pauses(TimeNs now);
  void note_pauses(TimeNs now, PortIndex port);
  void reschedule(PortIndex port) {
    PortEvent& event = port_events_[port];
    event.idle = pipeline_->class_queues(port)->empty();
    events_.schedule(event, pipeline_->port_deadline(port));
  }

  EventQueue& events_;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  LossTap tap_;
  std::unique_ptr<PortEvent[]> port_events_;
  InboxEvent inbox_event_;
  TimerEvent timer_event_;
  std::vector<rte_mbuf*> inbox_;
  std::vector<std::uint64_t> admitted_;  ///< one bit per port
  std::vector<std::uint64_t> arrived_;   ///< the same, with PFC: where packets of this instant came in
  std::vector<std::uint64_t> paused_;    ///< the same: where pauses came in
  std::vector<std::uint64_t> pausing_;   ///< the same: ports whose peer has been told to pause
  struct Pauses {
    std::uint8_t told = 0;  ///< priorities that the peer was told to pause when this was last looked at
    PausesByMs by_ms;
  };
  std::vector<Pauses> pauses_;  ///< by port
  bool pfc_ = false;
};

}  // namespace weft::sim
