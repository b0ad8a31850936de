// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_receiver.h"

#include <algorithm>

#include "switch/qos/pfc_sender.h"
#include "switch/wire/mac_control.h"

namespace weft::qos {
namespace {

using wire::EthernetHeader;
using wire::MacControlOpcode;
using wire::PauseHeader;
using wire::PfcHeader;

}  // namespace

PfcReceiver::PfcReceiver(const PortSettings& settings) noexcept
    : heeded_(settings.pfc_enable), flow_control_(settings.flow_control), speed_mbps_(settings.speed_mbps) {}

void PfcReceiver::on_frame(TimeNs now, std::span<const std::uint8_t> frame) noexcept {
  const std::uint16_t opcode = wire::mac_control_opcode(frame);
  if (opcode == 0) return counters_.malformed.add(1);
  const auto body = frame.subspan(sizeof(EthernetHeader));
  if (opcode == MacControlOpcode::pfc) return on_pfc(now, body);
  if (!flow_control_) return counters_.ignored.add(1);
  const std::uint16_t quanta = wire::header_at<PauseHeader>(body.data()).quanta.value();
  for (unsigned i = 0; i < kClasses; ++i) set(now, i, quanta);
  find_first_end();
  counters_.pause.add(1);
}

void PfcReceiver::on_pfc(TimeNs now, std::span<const std::uint8_t> body) noexcept {
  const auto& pfc = wire::header_at<PfcHeader>(body.data());
  const auto classes = static_cast<std::uint8_t>(pfc.class_enable.value());
  if ((classes & heeded_) == 0) return counters_.ignored.add(1);
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((classes & heeded_) >> i & 1) set(now, i, pfc.quanta[i].value());
  }
  find_first_end();
  counters_.pfc.add(1);
}

void PfcReceiver::set(TimeNs now, unsigned priority, std::uint16_t quanta) noexcept {
  if (quanta == 0) {
    counters_.xon[priority].add(1);
    return release(now, priority);
  }
  counters_.xoff[priority].add(1);
  TimeNs duration = pause_ns(quanta, speed_mbps_);
  if (duration > kLongestPauseNs) {
    counters_.clamped.add(1);
    duration = kLongestPauseNs;
  }
  const auto bit = static_cast<std::uint8_t>(1u << priority);
  if ((paused_ & bit) == 0) since_[priority] = now;
  paused_ |= bit;
  end_[priority] = now + duration;
  last_xoff_[priority] = now;
}

void PfcReceiver::release(TimeNs now, unsigned priority) noexcept {
  const auto bit = static_cast<std::uint8_t>(1u << priority);
  if ((paused_ & bit) == 0) return;
  paused_ &= static_cast<std::uint8_t>(~bit);
  counters_.paused_ns[priority].add(std::min(now, end_[priority]) - since_[priority]);
}

std::uint8_t PfcReceiver::expire(TimeNs now) noexcept {
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((paused_ >> i & 1) != 0 && end_[i] <= now) release(now, i);
  }
  find_first_end();
  return paused_;
}

void PfcReceiver::find_first_end() noexcept {
  first_end_ = kNever;
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((paused_ >> i & 1) != 0) first_end_ = std::min(first_end_, end_[i]);
  }
}

void PfcReceiver::adopt(const PfcReceiver& old) noexcept {
  for (auto counter :
       {&Counters::pfc, &Counters::pause, &Counters::malformed, &Counters::ignored, &Counters::clamped}) {
    (counters_.*counter).carry(old.counters_.*counter);
  }
  for (unsigned i = 0; i < kClasses; ++i) {
    counters_.xoff[i].carry(old.counters_.xoff[i]);
    counters_.xon[i].carry(old.counters_.xon[i]);
    counters_.paused_ns[i].carry(old.counters_.paused_ns[i]);
  }
  const std::uint8_t still = flow_control_ ? 0xff : heeded_;
  paused_ = old.paused_ & still;
  end_ = old.end_;
  since_ = old.since_;
  last_xoff_ = old.last_xoff_;
  find_first_end();
}

}  // namespace weft::qos
