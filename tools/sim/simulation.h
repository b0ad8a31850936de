// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One run of an experiment: switches, hosts and links in virtual time, and the transfers that they carry.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "switch/pipeline/pool.h"
#include "tools/sim/crew.h"
#include "tools/sim/datagram_host.h"
#include "tools/sim/experiment.h"
#include "tools/sim/fabric_routes.h"
#include "tools/sim/host.h"
#include "tools/sim/inc_run.h"
#include "tools/sim/link.h"
#include "tools/sim/link_capture.h"
#include "tools/sim/observer.h"
#include "tools/sim/partition.h"
#include "tools/sim/partition_plan.h"
#include "tools/sim/payload.h"
#include "tools/sim/sim_switch.h"

namespace weft::sim {

/// What became of a transfer.
struct TransferTimes {
  TimeNs started = kNever;   ///< posted
  TimeNs received = kNever;  ///< its last byte has arrived, in order
  TimeNs acked = kNever;     ///< the sender knows
};

/// One point of the curves of a report.
struct Sample {
  TimeNs at = 0;  ///< end of the interval
  TimeNs interval = 0;
  std::uint64_t received_bytes = 0;  ///< payload that was placed at all hosts
  std::uint64_t nacks = 0;           ///< that arrived at senders
  double rate_bps = 0;               ///< mean of the busy queue pairs' rates
  std::uint32_t busy = 0;            ///< queue pairs with work
};

/// A queue pair has another rate than when it was looked at before.
struct RateChange {
  TimeNs at = 0;
  std::uint32_t channel = 0;  ///< of the plan
  double rate_bps = 0;
};

/// How a run is done, which changes nothing of what happens in it.
struct RunOptions {
  unsigned threads = 1;          ///< at least 1
  std::uint32_t partitions = 0;  ///< at most so many; 0: one for each switch, where there may be
};

class Simulation final : public CompletionSink, public DatagramSink, public IncListener {
 public:
  /// Builds everything. Mistakes in what switches are configured to do are reported; then nothing else may be called.
  Simulation(const Experiment& experiment, const pipeline::Registry& registry, rte_mempool* pool,
             config::Diagnostics& diagnostics, RunOptions options = {});
  ~Simulation() override;

  /// Runs until all transfers have ended, and to the end of the window of their end; or until the time limit, or
  /// `stop`, which is asked now and then.
  /// @return true when all transfers have ended
  bool run(const std::function<bool()>& stop);
  /// Everything that is still under way is dropped. "" when every packet is accounted for and every buffer is back,
  /// otherwise what is wrong.
  [[nodiscard]] std::string settle();

  void completed(TimeNs now, Host& host, const nic::Wc& wc) override;
  void datagram_arrived(TimeNs now, std::uint32_t index) override;
  void operation_started(TimeNs now, std::uint32_t transfer) override { times_[transfer].started = now; }
  void operation_received(TimeNs now, std::uint32_t transfer) override { times_[transfer].received = now; }
  void operation_ended(TimeNs now, std::uint32_t transfer) override;
  void rank_failed(std::uint32_t transfer) override;

  [[nodiscard]] const Experiment& experiment() const noexcept { return experiment_; }
  /// All up to this time has happened.
  [[nodiscard]] TimeNs now() const noexcept { return now_; }
  /// Events so far.
  [[nodiscard]] std::uint64_t fired() const noexcept;
  [[nodiscard]] unsigned threads() const noexcept { return options_.threads; }
  [[nodiscard]] std::size_t partitions() const noexcept { return partitions_.size(); }
  /// Of all that has happened: what arrived at each device, in the order of the devices.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept;
  [[nodiscard]] const Observer& observer() const noexcept { return observer_; }
  /// The capture of one link.
  [[nodiscard]] LinkCapture& capture() noexcept { return capture_; }
  [[nodiscard]] const std::vector<std::unique_ptr<SimSwitch>>& switches() const noexcept { return switches_; }
  /// Those with RNICs: none where transfers are datagrams.
  [[nodiscard]] const std::vector<std::unique_ptr<Host>>& hosts() const noexcept { return hosts_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Link>>& links() const noexcept { return links_; }
  /// What leaves a switch by a port.
  [[nodiscard]] const Link& link_out_of(std::uint32_t sw, PortIndex port) const noexcept {
    return *switch_links_[sw][port];
  }
  [[nodiscard]] const std::vector<TransferTimes>& times() const noexcept { return times_; }
  [[nodiscard]] const std::vector<Sample>& samples() const noexcept { return samples_; }
  /// In the order of time, where the experiment asks for them; no more than kMostRateChanges.
  static constexpr std::size_t kMostRateChanges = 1'000'000;
  [[nodiscard]] const std::vector<RateChange>& rate_changes() const noexcept { return rate_changes_; }
  /// Sending and receiving queue pair of each channel.
  struct ChannelQps {
    nic::Qp* sender;
    nic::Qp* receiver;
  };
  [[nodiscard]] const std::vector<ChannelQps>& channels() const noexcept { return channels_; }
  [[nodiscard]] const std::vector<ChannelQps>& background() const noexcept { return background_; }
  /// Payload that has arrived in order.
  [[nodiscard]] std::uint64_t placed_bytes() const noexcept {
    std::uint64_t sum = counted().datagrams * experiment_.qp.path_mtu;
    for (const ChannelQps& c : channels_) sum += c.receiver->responder().counters().bytes_placed;
    return sum;
  }
  [[nodiscard]] std::uint64_t datagrams_sent() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& host : datagram_hosts_) sum += host->counters().sent;
    return sum;
  }
  /// What transfers carry; nullptr where it is elided.
  [[nodiscard]] PayloadMemory* payload() noexcept { return payload_.get(); }
  [[nodiscard]] const PayloadMemory* payload() const noexcept { return payload_.get(); }
  /// Collectives that switches add up; nullptr where there are none.
  [[nodiscard]] const IncRun* inc() const noexcept { return inc_.get(); }
  /// Transfers that a queue pair gave up.
  [[nodiscard]] std::uint64_t failed() const noexcept { return counted().failed; }
  [[nodiscard]] Link* link_named(const std::string& name) noexcept;

 private:
  struct Call : Event {
    Call(EventOrder order, std::function<void(TimeNs)> what) : Event(order), action(std::move(what)) {}
    void fire(TimeNs now) override { action(now); }
    std::function<void(TimeNs)> action;
  };
  /// The transfers of a host that wait for nothing but their time.
  struct Starts : Event {
    Starts(Simulation& simulation, std::uint32_t device)
        : Event(EventOrder(EventOrder::Phase::change, device, EventOrder::Kind::start)), owner(simulation) {}
    void fire(TimeNs now) override { owner.start_due(now, *this); }
    Simulation& owner;
    std::vector<std::uint32_t> transfers{};  ///< by their times
    std::size_t next = 0;
  };

  /// The number of a host among all devices: behind the switches.
  [[nodiscard]] std::uint32_t host_device(std::uint32_t host) const noexcept {
    return static_cast<std::uint32_t>(experiment_.topology.switches().size()) + host;
  }
  /// Where a device runs.
  [[nodiscard]] Partition& home(std::uint32_t device) noexcept { return *home_[device]; }
  [[nodiscard]] Partition& home_of_host(std::uint32_t host) noexcept { return *home_[host_device(host)]; }
  /// The sums of all partitions.
  [[nodiscard]] PartitionCounters counted() const noexcept;
  void make_partitions();
  bool advance();
  void change(TimeNs now);
  void run_partitions(TimeNs until);
  void make_links();
  void make_hosts(rte_mempool* pool);
  void make_datagram_hosts();
  void make_ranks();
  [[nodiscard]] std::vector<QpPairPlan> make_channels();
  [[nodiscard]] ChannelQps make_channel(const Channel& channel, std::vector<QpPairPlan>& pairs);
  void post_background(TimeNs now, std::uint32_t flow);
  nic::QpConfig qp_config(std::uint32_t host, std::uint32_t transfers) const;
  bool make_switches(const pipeline::Registry& registry, rte_mempool* pool, const std::vector<QpPairPlan>& qps,
                     config::Diagnostics& diagnostics);
  void make_faults();
  template <typename F>
  void for_each_link(const Fault& fault, F&& f);
  void spread(TimeNs now, const Fault& fault, bool up);
  void make_starts();
  void start_due(TimeNs now, Starts& starts);
  void start_inc(TimeNs now);
  void post(TimeNs now, std::uint32_t transfer);
  void post_datagrams(TimeNs now, std::uint32_t transfer);
  [[nodiscard]] bool datagrams_stopped() const;
  void release(TimeNs now, const std::vector<std::uint32_t>& waiting);
  void sample(TimeNs now);
  void look_at_rates(TimeNs now);

  const Experiment& experiment_;
  rte_mempool* pool_;
  const RunOptions options_;
  std::uint32_t free_before_;  ///< buffers of the pool
  PartitionPlan partition_plan_;
  std::vector<std::unique_ptr<Partition>> partitions_;
  std::vector<Partition*> home_;       ///< by device
  std::vector<Witness*> witnesses_;    ///< by partition
  std::vector<std::uint32_t> due_;     ///< partitions with something to do
  std::uint64_t fired_ = 0;            ///< fired() when a window last ended
  std::uint64_t fired_in_window_ = 0;  ///< the last one that was not cut short
  std::unique_ptr<Crew> crew_;         ///< nullptr: one thread
  EventQueue changes_;                 ///< what happens to the network as a whole, before packets move
  EventQueue looks_;                   ///< what looks at it, when they have moved
  TimeNs now_ = 0;
  Observer observer_;
  LinkCapture capture_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> host_up_, host_down_;        ///< by host
  std::vector<std::vector<Link*>> switch_links_;  ///< by switch and port: outwards
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<DatagramHost>> datagram_hosts_;
  std::vector<HostWire*> ends_;                ///< all hosts of either kind
  std::vector<std::uint64_t> datagrams_left_;  ///< by transfer: those that have not arrived
  std::vector<std::unique_ptr<SimSwitch>> switches_;
  std::vector<ChannelQps> channels_;
  std::vector<ChannelQps> background_;  ///< by number in the experiment
  std::unique_ptr<IncRun> inc_;
  std::vector<nic::Mr> regions_;  ///< by host
  std::unique_ptr<PayloadSource> payload_source_;
  std::unique_ptr<PayloadMemory> payload_;
  std::vector<std::uint32_t> waits_for_;  ///< by transfer
  std::vector<TransferTimes> times_;
  std::vector<std::unique_ptr<Starts>> starts_;  ///< of hosts that have some
  std::vector<Sample> samples_;
  TimeNs sample_interval_ = 10'000;
  std::uint64_t sampled_bytes_ = 0, sampled_nacks_ = 0;
  std::vector<RateChange> rate_changes_;
  std::vector<double> rates_seen_;  ///< by channel; 0: it had no work
  std::unique_ptr<Call> start_event_, sample_event_, rates_event_, limit_event_;
  bool limit_reached_ = false;
  std::vector<std::unique_ptr<Call>> fault_events_;
  FabricRoutes routes_;
};

}  // namespace weft::sim
