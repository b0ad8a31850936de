// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The engine that moves bursts through the stages, from reception to a port's device. One Pipeline per worker and
// switch; the DPDK worker, the simulator and the tests are its hosts: they bring packets, time and devices.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "switch/base/timer_heap.h"
#include "switch/pipeline/batch.h"
#include "switch/pipeline/egress_queue.h"
#include "switch/pipeline/handoff.h"
#include "switch/pipeline/port_view.h"
#include "switch/pipeline/residence.h"
#include "switch/pipeline/switch_state.h"
#include "switch/pipeline/tap.h"
#include "switch/pipeline/totals.h"

namespace weft::pipeline {

/// What a device did with the packets that it was offered.
struct TxResult {
  std::uint16_t taken = 0;     ///< packets from the front that are no longer the caller's
  std::uint16_t rejected = 0;  ///< of those, packets that the device cannot carry and has freed
  std::uint32_t rejected_bytes = 0;
};

/// The sending side of a device.
class PortTx {
 public:
  virtual ~PortTx() = default;
  /// Takes up to `count` packets from the front. What it does not take is offered again later. It may replace a packet
  /// that it does not take by an equal one in the array.
  [[nodiscard]] virtual TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept = 0;
};

class Pipeline;
class ClassQueues;
struct PipelineQos;

/// What the host of a pipeline provides.
struct PipelineHost {
  std::uint16_t worker = 0;
  rte_mempool* pool = nullptr;   ///< for packets that this worker makes
  std::uint32_t buffers = 0;     ///< most packets that there can be, from other pools too; 0: as many as `pool` has
  std::vector<PortTx*> ports{};  ///< by PortIndex; nullptr where this worker does not send
  Handoff* handoff = nullptr;    ///< nullptr with one worker
  bool meter = true;             ///< count cycles per stage
  std::uint64_t seed = 1;        ///< of the random source
  const Pipeline* previous = nullptr;  ///< a reload: the pipeline whose place the new one will take by adopt()
  /// One bit per port that is set when packets were put into its queue, for a host that does not ask every port all the
  /// time; nullptr: nobody wants to know.
  std::uint64_t* admitted = nullptr;
  /// What time it is now, which `now` of the calls below may be behind by a loop. Where a host has it, the engine
  /// samples how long packets stay.
  const std::function<TimeNs()>* clock = nullptr;
};

class Pipeline {
 public:
  /// Reading the cycle counter between stages costs as much as a small stage: one received burst of this many is
  /// metered, and counts for all of them. A prime, so that ports that take turns are all metered.
  static constexpr std::uint32_t kMeterEvery = 13;

  Pipeline(SwitchState& state, PipelineHost host);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Packets that arrived at `port`; takes ownership. At most Batch::kCapacity.
  void receive(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count) noexcept;

  /// The same for packets of several ports at once: PacketRoute::in_port says where each arrived.
  void receive_mixed(TimeNs now, rte_mbuf** packets, std::uint16_t count) noexcept;

  /// Packets that another worker handed over, at most Batch::kCapacity.
  void take_handoff(TimeNs now, rte_mbuf** packets, std::uint16_t count) noexcept;

  /// Whether serve_port() of some port has more to do than before: packets have come into a queue since the last call.
  [[nodiscard]] bool queued() noexcept { return std::exchange(queued_, false) || qos_ != nullptr; }
  /// Whether serving a port through which this worker sends is worth its while before the end of a loop: with qos,
  /// which costs as much for one packet as for a burst, when there is a burst.
  [[nodiscard]] bool worth_serving(PortIndex port) const noexcept;

  /// Serves the egress queue of an owned port once: one burst through the egress half to the device.
  /// @return packets that made progress; 0 means there was nothing to do, or the device is busy.
  std::uint32_t serve_port(TimeNs now, PortIndex port) noexcept;

  /// Calls on_mail() of stages that have mail, and on_timer() once for every timer whose time has come, in the order of
  /// their times; those of one time in the order of stages and tokens.
  void run_timers(TimeNs now) noexcept;

  /// Earliest time at which run_timers() or serve_port() has something to do; kNever when nothing is held.
  [[nodiscard]] TimeNs next_deadline() const noexcept;
  /// The same for run_timers() alone, and for serve_port() alone. A port's deadline stays in the past while its device
  /// takes nothing.
  [[nodiscard]] TimeNs stage_deadline() const noexcept;
  [[nodiscard]] TimeNs port_deadline(PortIndex port) const noexcept;

  /// Makes stages give up what they hold (it goes on or is dropped as shutdown).
  void flush_stages(TimeNs now) noexcept;
  /// Drops whatever queues and links still hold, as shutdown.
  void drop_queued(TimeNs now) noexcept;

  /// Takes the place of `old`, the host's `previous`, while no worker runs: stages' state, held packets, egress queues
  /// and counters. The states have been adopted before. `old` holds nothing afterwards.
  void adopt(TimeNs now, Pipeline& old, const PortMap& ports);
  /// Takes a packet out of a ring to this worker and drops it: a reload removed what it was on its way to.
  void refuse_handoff(TimeNs now, rte_mbuf* m, DropReason reason) noexcept;
  /// A packet stays in a ring to a worker of this switch, which a reload has described anew: its room is taken from the
  /// new packet memory.
  void keep_handoff(rte_mbuf* m) noexcept;
  /// Something has to happen now and not after a nap: packets wait for room in a ring, or the peer of an owned port
  /// must be told to stop or may go on.
  [[nodiscard]] bool urgent() const noexcept;

  /// Lets the owner of a port do all of the sending, which every worker has done itself: what waits in the queue of
  /// this worker goes there, and all that comes later. On the worker.
  void leave_to_owner(TimeNs now, PortIndex port) noexcept;

  /// Puts `wire` in the place of an owned port's queue, with what that holds; gives the old one back in `wire`. On the
  /// worker.
  void exchange_wire(TimeNs now, PortIndex port, std::unique_ptr<EgressQueue>& wire) noexcept;

  /// Puts `stage`, of the same type but with other options, in the place of an instance that holds no packets; gives
  /// the old one back in `stage`. On the worker.
  /// @param ports  of the switch, which stay as they are
  void exchange_stage(TimeNs now, std::size_t i, std::shared_ptr<Stage>& stage, const PortMap& ports) noexcept;
  /// Calls `change` with an instance, which may want its timers at other times afterwards. On the worker, between two
  /// bursts.
  void change_stage(std::size_t i, const std::function<void(Stage&)>& change);

  /// Packets inside: stages, egress queues, links, and those that wait for room in a ring to another worker.
  [[nodiscard]] std::uint64_t held() const noexcept;
  /// Packets in the FIFO or the class queues through which this worker sends to a port; 0 where it does not. Any
  /// thread.
  [[nodiscard]] std::uint32_t queue_depth(PortIndex port) const noexcept;
  /// The class queues of an owned port, of which other threads may read counters and state; nullptr without qos.
  [[nodiscard]] const ClassQueues* class_queues(PortIndex port) const noexcept;
  /// Packets leave through a port from this worker: it is the port's owner, or every worker sends there.
  [[nodiscard]] bool sends(PortIndex port) const noexcept { return egress_[port] != nullptr; }

  /// Most taps at the same time.
  static constexpr std::size_t kMaxTaps = 8;
  /// Attaches something that looks on; on the worker, between bursts. False when there are kMaxTaps.
  [[nodiscard]] bool add_tap(Tap& tap) noexcept;
  /// Does nothing when it is not attached.
  void remove_tap(const Tap& tap) noexcept;
  /// The tracer is attached as a tap as well. nullptr: nothing is traced.
  void set_tracer(Tracer* tracer) noexcept { tracer_ = tracer; }
  [[nodiscard]] const Tracer* tracer() const noexcept { return tracer_; }

  [[nodiscard]] SwitchState& state() const noexcept { return state_; }
  [[nodiscard]] std::uint16_t worker() const noexcept { return host_.worker; }
  [[nodiscard]] const FlowTotals& totals() const noexcept { return totals_; }
  [[nodiscard]] const PortTotals& port_totals(PortIndex port) const noexcept { return port_totals_[port]; }
  /// How long packets stayed that left through a queue of a port from this worker; without qos a port has queue 0
  /// alone. nullptr where the host has no clock. Any thread.
  [[nodiscard]] const Residence* residence(PortIndex port, unsigned queue) const noexcept {
    return residence_ == nullptr ? nullptr : &residence_[port * residence_queues_ + queue];
  }
  [[nodiscard]] const StageTotals& ingress_totals(std::size_t stage) const noexcept { return slots_[stage].ingress; }
  [[nodiscard]] const StageTotals& egress_totals(std::size_t stage) const noexcept { return slots_[stage].egress; }
  /// Cycles and packets of admission and of transmission, the parts that are no stage.
  [[nodiscard]] const StageTotals& admission_totals() const noexcept { return admission_; }
  [[nodiscard]] const StageTotals& tx_totals() const noexcept { return tx_; }
  [[nodiscard]] Stage& stage(std::size_t i) const noexcept { return *slots_[i].stage; }
  [[nodiscard]] std::size_t stage_count() const noexcept { return slot_count_; }

 private:
  friend class Context;
  friend class QueuedBytes;
  // Packets that a stage gave back, on their way to the next stage: as many as there are buffers, so they are linked
  // through scratch().
  struct Resumed {
    rte_mbuf* first = nullptr;
    rte_mbuf* last = nullptr;
    std::uint32_t count = 0;
  };
  struct TimerInfo {
    std::uint8_t stage;
    bool due;  ///< it is about to be called
  };
  // Its worker counts in it for every burst: no other worker's memory may lie in its lines.
  struct alignas(64) Slot {
    std::shared_ptr<Stage> stage;   ///< shared for the moment of a reload only
    std::uint32_t first_timer = 0;  ///< number of its first timer in timers_
    std::uint32_t timers = 0;       ///< how many it has
    Resumed resumed;
    StageTotals ingress, egress;
  };
  // What most packets have to pass to leave through a port: closed where the link is down or the owner another worker.
  struct Gate {
    EgressQueue* queue = nullptr;
    std::uint32_t too_large = 0;  ///< first length that does not fit; 0 fits none
    bool direct = false;          ///< an empty queue may be passed by
  };
  // PacketMeta::stage of packets handed to the owner of a port: a MAC control frame that came in there, and one that is
  // to leave there, behind all ingress stages.
  static constexpr std::uint8_t kToOwner = 0xfe;
  static constexpr std::uint8_t kToEgress = 0xff;
  // Whether a dropped packet had been through the ingress stages, so that stages may want to know.
  enum class Half : std::uint8_t { ingress, egress };

  void run_ingress(TimeNs now, Batch& batch, std::size_t first) noexcept;
  void run_stages(TimeNs now, Batch& batch, std::size_t first) noexcept;
  void resume(std::size_t stage, rte_mbuf* m) noexcept;
  void take_resumed(TimeNs now, std::size_t stage, Batch& batch) noexcept;
  void run_resumed(TimeNs now, std::size_t stage) noexcept;
  void run_all_resumed(TimeNs now) noexcept;
  void steer(TimeNs now, Batch& batch) noexcept;
  void admit(TimeNs now, Batch& batch, std::uint64_t before) noexcept;
  static void add_up(Batch& batch) noexcept;
  void admit_all(TimeNs now, rte_mbuf** packets, std::uint32_t size, const Departure& departure) noexcept;
  void admit_mixed(TimeNs now, rte_mbuf** packets, std::uint32_t size) noexcept;
  void pass_through(TimeNs now, EgressQueue& queue, PortIndex port, rte_mbuf** packets, std::uint16_t size,
                    std::uint64_t bytes) noexcept;
  void set_gates() noexcept;
  void tell_links(TimeNs now) noexcept;
  void make_timers();
  void list_mail_takers() noexcept;
  void set_timer(std::size_t i, std::uint32_t token, TimeNs time) noexcept;
  void arm_timer(std::size_t i, std::uint32_t token, TimeNs time) noexcept;
  void ask_deadlines(std::size_t i) noexcept;
  void call_due(TimeNs now) noexcept;
  void admit_one(TimeNs now, rte_mbuf* m) noexcept;
  // For stages; see pipeline_context.cc.
  [[nodiscard]] PortView view(TimeNs now, PortIndex port) const noexcept;
  [[nodiscard]] std::uint32_t depth_of_all(PortIndex port) const noexcept;
  [[nodiscard]] std::uint64_t bytes_of_all(PortIndex port) const noexcept;
  [[nodiscard]] const qos::Gauge* gauge_of(PortIndex port) const noexcept;
  void add_told(PortView& view, PortIndex port, std::uint16_t worker) const noexcept;
  void tell_port(TimeNs now, PortIndex port) noexcept;
  void note_admitted(PortIndex port) noexcept {
    if (host_.admitted != nullptr) host_.admitted[port / 64] |= std::uint64_t{1} << port % 64;
  }
  void hand_over(TimeNs now, std::uint16_t worker, rte_mbuf* m, std::uint8_t stage) noexcept;
  void flush_outbox() noexcept;
  void settle(TimeNs now) noexcept;
  std::uint32_t serve_fifo(TimeNs now, PortIndex port) noexcept;
  std::uint32_t serve_direct(TimeNs now, PortIndex port) noexcept;
  std::uint32_t serve_emulated(TimeNs now, PortIndex port) noexcept;
  void drop_at_port(TimeNs now, PortIndex port, rte_mbuf* m, DropReason reason) noexcept;
  std::uint32_t drain_port(TimeNs now, PortIndex port, DropReason reason) noexcept;
  // Returns the cycle counter at its end.
  std::uint64_t run_egress(TimeNs now, PortIndex port, Batch& batch) noexcept;
  std::uint16_t send_to_device(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count) noexcept;
  /// The same for packets of so many bytes together.
  std::uint16_t send_to_device(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count,
                               std::uint64_t bytes) noexcept;
  void drop(TimeNs now, rte_mbuf* m, DropReason reason, Half half) noexcept;
  void tell_listeners(TimeNs now, const rte_mbuf* m, DropReason reason) noexcept;
  struct Sample;
  void take_sample(rte_mbuf* const* packets, std::uint16_t count, Sample& sample) const noexcept;
  void note_residence(PortIndex port, std::uint16_t count, const Sample& sample) noexcept;
  [[nodiscard]] std::uint64_t cycles() const noexcept;
  void adopt_counters(const Pipeline& old, const PortMap& ports);
  void adopt_queues(TimeNs now, Pipeline& old, const PortMap& ports);
  void hand_over_queue(TimeNs now, PortIndex port, EgressQueue& queue) noexcept;
  void adopt_outbox(TimeNs now, Pipeline& old, const PortMap& ports);
  void charge_held(const Pipeline& old);
  void adopt_stages(TimeNs now, Pipeline& old, const PortMap& ports);
  void adopt_rest(TimeNs now, Pipeline& old, const PortMap& ports);

  // With qos; see pipeline_qos.cc.
  void make_qos();
  void admit_classes(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint32_t count) noexcept;
  void admit_handed(TimeNs now, rte_mbuf** packets, std::uint32_t count) noexcept;
  void admit_handed_to(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint32_t count) noexcept;
  void charge_all_handoffs(TimeNs now) noexcept;
  void charge_handoffs(TimeNs now) noexcept;
  [[nodiscard]] bool charge_handoff(TimeNs now, rte_mbuf* m) noexcept;
  void push_handoff(TimeNs now, std::uint16_t worker, rte_mbuf* m) noexcept;
  void charge_group(rte_mbuf* m) noexcept;
  void release_group(const rte_mbuf* m) noexcept;
  void release_groups(rte_mbuf* const* packets, std::uint32_t count) noexcept;
  void wake_owners(rte_mbuf* const* packets, std::uint32_t count) noexcept;
  void wake_owner(std::uint16_t group) noexcept;
  std::uint32_t serve_classes(TimeNs now, PortIndex port) noexcept;
  std::uint32_t serve_classes_direct(TimeNs now, PortIndex port) noexcept;
  std::uint32_t serve_leftovers(TimeNs now, PortIndex port) noexcept;
  [[nodiscard]] bool device_is_busy(PortIndex port) const noexcept;
  std::uint32_t transmit_refused(TimeNs now, PortIndex port) noexcept;
  std::uint32_t serve_classes_emulated(TimeNs now, PortIndex port) noexcept;
  void count_tx(std::uint16_t packets, std::uint64_t before) noexcept;
  std::uint32_t serve_line(TimeNs now, PortIndex port) noexcept;
  std::uint32_t send_pause(TimeNs now, PortIndex port) noexcept;
  std::uint32_t empty_stormed(TimeNs now, PortIndex port) noexcept;
  void take_mac_control(TimeNs now, rte_mbuf* m) noexcept;
  rte_mbuf* take_from_port(PortIndex port) noexcept;
  [[nodiscard]] std::uint32_t held_at(PortIndex port) const noexcept;
  [[nodiscard]] TimeNs class_deadline(PortIndex port) const noexcept;
  void adopt_classes(TimeNs now, Pipeline& old, const PortMap& ports, PortIndex from, PortIndex to);

  // With a tracer; see pipeline_traced.cc.
  struct TraceBefore;
  void run_ingress_traced(TimeNs now, Batch& batch, std::size_t first) noexcept;
  void run_traced_packet(TimeNs now, rte_mbuf* m, int handle, std::size_t first) noexcept;
  void judge(int handle, const TraceBefore& before, const Batch& batch, TraceEvent event) noexcept;
  void admit_traced(TimeNs now, Batch& batch, int handle) noexcept;
  void run_egress_traced(TimeNs now, PortIndex port, Batch& batch) noexcept;

  SwitchState& state_;
  PipelineHost host_;
  Rng rng_;
  std::size_t slot_count_;
  std::unique_ptr<Slot[]> slots_;                     ///< in the order of the pipeline
  std::vector<std::uint8_t> egress_stages_;           ///< positions of stages with an egress half
  std::vector<std::uint8_t> drop_listeners_;          ///< positions of stages that want drops
  std::vector<std::uint8_t> mail_takers_;             ///< positions of stages that take mail
  TimerHeap<TimeNs, kNever> timers_;                  ///< of all stages, in the order of these
  std::vector<TimerInfo> timer_info_;                 ///< by number in timers_
  bool adopting_ = false;                             ///< timers are asked for afterwards
  std::vector<std::uint32_t> due_;                    ///< timers that run_timers() has taken out to call them
  std::vector<std::unique_ptr<EgressQueue>> egress_;  ///< by PortIndex; nullptr where this worker does not send
  std::unique_ptr<PipelineQos> qos_;                  ///< nullptr: one FIFO per port
  std::unique_ptr<Outbox> outbox_;                    ///< nullptr with one worker
  std::uint32_t outbox_most_ = 0;                     ///< packets for one worker that may wait there without qos
  std::vector<std::uint32_t> max_frame_;              ///< by PortIndex
  std::vector<Gate> gates_;                           ///< by PortIndex; behind them one that is closed
  /// By PortIndex, for QueuedBytes.
  std::vector<const qos::Gauge*> queue_bytes_ = std::vector<const qos::Gauge*>(state_.info().ports.size());
  std::uint32_t gates_generation_ = 0;   ///< SwitchState::link_generation() when they were set
  std::uint32_t stages_generation_ = 0;  ///< the same when stages last heard of a change
  std::unique_ptr<PortTotals[]> port_totals_;
  FlowTotals totals_;
  StageTotals admission_, tx_;
  std::unique_ptr<Residence[]> residence_;  ///< by PortIndex, then by queue
  std::size_t residence_queues_ = 0;        ///< of a port
  std::uint32_t tx_bursts_ = 0;             ///< offered to devices
  std::uint32_t bursts_ = 0;                ///< received
  std::uint64_t passing_through_ = 0;       ///< cycles of the admission that goes on which are counted as transmission
  bool metering_ = false;                   ///< whether this burst's cycles are counted, until the next one comes in
  std::uint32_t resumed_count_ = 0;         ///< packets in all Slot::resumed
  bool queued_ = false;                     ///< a packet has come into a queue
  bool telling_ = false;                    ///< stages are being told of a drop
  std::size_t tap_count_ = 0;
  std::size_t traffic_taps_ = 0;  ///< the first of them, which see packets that pass
  std::array<Tap*, kMaxTaps> taps_{};
  Tracer* tracer_ = nullptr;
};

}  // namespace weft::pipeline
