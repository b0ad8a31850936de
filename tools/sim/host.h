// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A host: an RNIC of nic/rnic behind a wire, and the work that is done on it.
#pragma once

#include <memory>
#include <vector>

#include "nic/rnic/device.h"
#include "switch/pipeline/egress_queue.h"
#include "switch/qos/pfc_receiver.h"
#include "tools/sim/event_queue.h"
#include "tools/sim/link.h"
#include "tools/sim/topology.h"

namespace weft::sim {

class Host;

/// Hears of work that has ended.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void completed(TimeNs now, Host& host, const nic::Wc& wc) = 0;
};

struct HostCounters {
  std::uint64_t sent = 0, received = 0;  ///< packets
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint64_t pauses = 0;  ///< PFC frames that arrived
};

class Host final : public Receiver, public nic::TxSink {
 public:
  Host(const HostPlan& plan, std::uint32_t index, rte_mempool* pool, std::uint64_t seed, Link& link, EventQueue& events,
       Observer& observer);
  ~Host() override;

  void connect(CompletionSink& sink) noexcept { sink_ = &sink; }
  [[nodiscard]] nic::Device& device() noexcept { return device_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// The completion queue of all queue pairs.
  [[nodiscard]] nic::Cq& cq() noexcept { return *cq_; }
  void make_cq(std::uint32_t depth) { cq_ = &device_.create_cq(depth); }
  /// Work was posted: it leaves as soon as it may.
  void kick(TimeNs now) { events_.schedule(event_, now); }

  void receive(TimeNs now, PortIndex port, rte_mbuf* m) override;
  [[nodiscard]] bool ready() noexcept override { return wire_.ready(events_.now()); }
  void send(const nic::TxFrame& frame) noexcept override;

  [[nodiscard]] const HostCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::uint64_t held() const noexcept { return wire_.held(); }
  void drop_all();

 private:
  struct HostEvent : Event {
    explicit HostEvent(Host& host) : owner(host) {}
    void fire(TimeNs now) override { owner.run(now); }
    Host& owner;
  };
  void run(TimeNs now);
  void carry_due(TimeNs now);
  void reap(TimeNs now);
  void reschedule(TimeNs now);
  void take_pause(TimeNs now, const rte_mbuf* m);

  std::uint32_t index_;
  rte_mempool* pool_;
  Link& link_;
  EventQueue& events_;
  Observer& observer_;
  nic::Device device_;
  nic::Cq* cq_ = nullptr;
  pipeline::EgressQueue wire_;
  qos::PfcReceiver pauses_;
  bool paused_ = false;
  CompletionSink* sink_ = nullptr;
  HostEvent event_;
  HostCounters counters_;
};

}  // namespace weft::sim
