// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Bursty loss: the two-state Markov model of Gilbert (1960) and Elliott (1963). Protocol unit.
#pragma once

#include <cstdint>

#include "switch/base/rng.h"

namespace weft::stages {

/// The channel is good or bad; each packet is lost with the probability of the state that it finds, and then the state
/// may change. With p from good to bad and r from bad to good, the channel is bad for p / (p + r) of the packets, and
/// for 1 / r packets in a row on average. It is good at first.
struct GilbertElliott {
  Ratio p{};
  Ratio r{};
  Ratio loss_good{};
  Ratio loss_bad{};
  bool bad = false;

  /// True when this packet is lost.
  constexpr bool on_packet(Rng& rng) noexcept {
    const bool lost = (bad ? loss_bad : loss_good).hit(rng);
    if ((bad ? r : p).hit(rng)) bad = !bad;
    return lost;
  }
};

}  // namespace weft::stages
