// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_sender.h"

#include <algorithm>

#include "switch/wire/ethernet.h"

namespace weft::qos {

TimeNs pause_ns(std::uint16_t quanta, std::uint64_t speed_mbps) noexcept {
  return std::uint64_t{quanta} * wire::kPauseQuantumBits * 1000 / std::max<std::uint64_t>(speed_mbps, 1);
}

PfcSender::PfcSender(const PortSettings& settings) noexcept
    : enabled_(settings.pfc_enable),
      pfc_(!settings.flow_control),
      quanta_(settings.pause_quanta),
      refresh_ns_(std::max<TimeNs>(pause_ns(settings.pause_quanta, settings.speed_mbps) / 2, 1)) {
  // PAUSE stops the whole link: any lossless group may ask for it.
  if (!settings.flow_control) return;
  enabled_ = 0;
  for (unsigned tc = 0; tc < kClasses; ++tc) {
    if (settings.group[settings.map.tc_to_group[tc]].headroom_bytes != 0)
      enabled_ |= static_cast<std::uint8_t>(1u << tc);
  }
}

std::uint8_t PfcSender::next(std::uint8_t xoff, std::uint8_t xon) const noexcept {
  if (pfc_) return static_cast<std::uint8_t>((paused_ | xoff) & ~(xon & ~xoff) & enabled_);
  if ((xoff & enabled_) != 0) return 1;
  return (xon & enabled_) == enabled_ ? 0 : paused_;
}

PauseFrame PfcSender::take(TimeNs now, std::uint8_t xoff, std::uint8_t xon) noexcept {
  const std::uint8_t after = next(xoff, xon);
  const std::uint8_t changed = after ^ paused_;
  PauseFrame frame;
  frame.pfc = pfc_;
  frame.class_enable = after | changed;
  for (unsigned i = 0; i < kClasses; ++i) {
    const bool pause = (after >> i & 1) != 0;
    if (pause) frame.quanta[i] = quanta_;
    if ((changed >> i & 1) == 0) continue;
    (pause ? counters_.xoff : counters_.xon)[i].add(1);
    if (pause) {
      since_[i] = now;
    } else {
      counters_.paused_ns[i].add(now - since_[i]);
    }
  }
  paused_ = after;
  refresh_at_ = now + refresh_ns_;
  counters_.frames.add(1);
  return frame;
}

void PfcSender::adopt(const PfcSender& old) noexcept {
  for (unsigned i = 0; i < kClasses; ++i) {
    counters_.xoff[i].carry(old.counters_.xoff[i]);
    counters_.xon[i].carry(old.counters_.xon[i]);
    counters_.paused_ns[i].carry(old.counters_.paused_ns[i]);
  }
  counters_.frames.carry(old.counters_.frames);
  since_ = old.since_;
  refresh_at_ = old.refresh_at_;
  if (pfc_ == old.pfc_) paused_ = old.paused_;
}

}  // namespace weft::qos
