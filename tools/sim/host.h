// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A host: an RNIC of nic/rnic behind a wire, and the work that is done on it.
#pragma once

#include <memory>
#include <vector>

#include "nic/rnic/device.h"
#include "switch/qos/pfc_receiver.h"
#include "tools/sim/host_wire.h"
#include "tools/sim/observer.h"

namespace weft::sim {

class Host;

/// Hears of work that has ended.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void completed(TimeNs now, Host& host, const nic::Wc& wc) = 0;
};

class Host final : public HostWire, public nic::TxSink {
 public:
  /// @param seed  of its queue pair numbers and first PSNs
  /// @param witness  of its partition
  Host(const Parts& parts, std::uint64_t seed, Witness& witness);
  ~Host() override;

  void connect(CompletionSink& sink) noexcept { sink_ = &sink; }
  [[nodiscard]] nic::Device& device() noexcept { return device_; }
  /// The completion queue of all queue pairs.
  [[nodiscard]] nic::Cq& cq() noexcept { return *cq_; }
  void make_cq(std::uint32_t depth) { cq_ = &device_.create_cq(depth); }

  void receive(TimeNs now, PortIndex port, rte_mbuf* m) override;
  [[nodiscard]] bool ready() noexcept override { return wire_.ready(events_.now()); }
  void send(const nic::TxFrame& frame) noexcept override;

 private:
  void run(TimeNs now) override;
  void reap(TimeNs now);
  void reschedule(TimeNs now);
  void take_pause(TimeNs now, const rte_mbuf* m);
  void set_paused(std::uint8_t priorities) noexcept;

  Witness& witness_;
  nic::Device device_;
  nic::Cq* cq_ = nullptr;
  qos::PfcReceiver pauses_;
  std::uint8_t paused_ = 0;  ///< priorities
  CompletionSink* sink_ = nullptr;
};

}  // namespace weft::sim
