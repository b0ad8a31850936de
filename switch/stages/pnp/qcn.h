// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The congestion point of QCN (IEEE 802.1Qau, in 802.1Q clause 30): which packets of a queue are sampled, and whether
// the queue is then longer than it should be, or getting there. Annulus (SIGCOMM 2020) has it on switches near the
// source of flows that leave a data centre, with notifications that are routed. No DPDK.
//
//   standard                      here
//   Q, Qeq, w                     queue, QcnSettings::equilibrium_bytes, weight
//   Fb = -(Qoff + w * Qdelta)     on_packet(), with the sign turned
//   QntzFb, 6 bits                what on_packet() returns
//   the table of sample intervals sample_bytes / (1 + QntzFb / 8): its values, 150 kB down to 18.5 kB, but for rounding
//
// Not the standard's: a packet is looked at when it leaves and not when it comes, with the queue that it leaves behind.
#pragma once

#include <cstdint>

#include "switch/base/rng.h"
#include "switch/wire/qcn_cnp.h"

namespace weft::stages {

struct QcnSettings {
  std::uint32_t equilibrium_bytes = 26'000;  ///< Qeq: the queue that it aims at, at least 1
  double weight = 2;                         ///< w: of how much the queue has grown since the last sample
  std::uint32_t sample_bytes = 150'000;      ///< between two samples of a queue that is not congested
};

/// One queue.
class QcnSampler {
 public:
  static constexpr unsigned kMostFeedback = wire::kMostQcnFeedback;

  explicit QcnSampler(const QcnSettings& settings) noexcept : settings_(settings) {}

  /// A packet of so many bytes leaves, and so many stay.
  /// @return QntzFb: how congested the queue is, up to kMostFeedback; 0: it is not, or the packet is no sample
  [[nodiscard]] unsigned on_packet(std::uint32_t bytes, std::uint64_t queue, Rng& rng) noexcept {
    if (bytes < left_) [[likely]] {
      left_ -= bytes;
      return 0;
    }
    const unsigned feedback = feedback_of(queue);
    last_ = queue;
    ++samples_;
    // A part of 15 % in either direction by chance, so that samples do not keep in step with flows.
    const std::uint32_t interval = settings_.sample_bytes / (1 + feedback / 8);
    left_ = static_cast<std::uint32_t>(interval - interval * 3ull / 20 + rng.below(interval * 3ull / 10 + 1));
    return feedback;
  }
  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }

 private:
  [[nodiscard]] unsigned feedback_of(std::uint64_t queue) const noexcept {
    const double q = static_cast<double>(queue), equilibrium = settings_.equilibrium_bytes;
    const double congestion = q - equilibrium + settings_.weight * (q - static_cast<double>(last_));
    if (congestion <= 0) return 0;
    const double most = equilibrium * (2 * settings_.weight + 1);
    return congestion >= most ? kMostFeedback : static_cast<unsigned>(congestion * kMostFeedback / most);
  }

  QcnSettings settings_;
  std::uint32_t left_ = 0;  // bytes until the next sample
  std::uint64_t last_ = 0;  // the queue at the last sample
  std::uint64_t samples_ = 0;
};

}  // namespace weft::stages
