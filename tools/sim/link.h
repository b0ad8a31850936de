// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One direction of a link: what leaves a wire arrives at the other end, unless a fault takes it. Serialisation and
// propagation have been done by the wire of the sending port (pipeline::EgressQueue).
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <string>

#include "switch/base/rng.h"
#include "switch/pipeline/pipeline.h"
#include "tools/sim/observer.h"

namespace weft::sim {

using pipeline::PortIndex;

/// What a link ends at.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// Takes ownership.
  virtual void receive(TimeNs now, PortIndex port, rte_mbuf* m) = 0;
};

struct LinkCounters {
  std::uint64_t packets = 0, bytes = 0;  ///< that arrived
  std::uint64_t lost = 0;                ///< by the loss ratio
  std::uint64_t cut = 0;                 ///< while the link was down
};

class Link final : public pipeline::PortTx {
 public:
  Link(std::string name, std::uint32_t id, const TimeNs& now, Observer& observer)
      : name_(std::move(name)), id_(id), now_(now), observer_(observer) {}

  void connect(Receiver& to, PortIndex port) noexcept {
    to_ = &to;
    port_ = port;
  }
  /// @param ratio  of packets, 0 to 1
  void set_loss(double ratio, std::uint64_t seed) noexcept {
    loss_ = Ratio::from_double(ratio);
    rng_ = Rng(seed);
    faulty_ = !loss_.zero() || !up_;
  }
  void set_up(bool up) noexcept {
    up_ = up;
    faulty_ = !loss_.zero() || !up_;
  }
  [[nodiscard]] bool up() const noexcept { return up_; }

  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    for (std::uint16_t i = 0; i < count; ++i) carry(packets[i]);
    return {.taken = count};
  }
  /// A packet has come to the end of the wire.
  void carry(rte_mbuf* m) noexcept {
    if (faulty_) [[unlikely]] {
      if (taken_by_fault(m)) return;
    }
    ++counters_.packets;
    counters_.bytes += m->pkt_len;
    observer_.on_arrival(now_, id_, m);
    to_->receive(now_, port_, m);
  }

  [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

 private:
  bool taken_by_fault(rte_mbuf* m) noexcept;

  std::string name_;
  std::uint32_t id_;
  const TimeNs& now_;
  Observer& observer_;
  Receiver* to_ = nullptr;
  PortIndex port_ = 0;
  bool up_ = true;
  bool faulty_ = false;
  Ratio loss_{};
  Rng rng_{1};
  LinkCounters counters_;
};

}  // namespace weft::sim
