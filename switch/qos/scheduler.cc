// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/scheduler.h"

#include <algorithm>

namespace weft::qos {
namespace {

// Bytes that the heaviest queue may send in one turn, unless a frame is longer: the others wait meanwhile.
constexpr std::uint32_t kLongestTurn = 128 * 1024;

// Bytes per unit of weight: two frames of 1500. A turn of several frames costs less than several turns.
constexpr std::uint32_t kUsualUnit = 3072;

// Bytes per unit of weight. Every queue should get a frame in every turn, so that no turn is for nothing.
std::uint32_t unit_of(const PortSettings& settings, std::uint32_t max_frame_bytes) {
  std::uint32_t lightest = 100;
  std::uint32_t heaviest = 1;
  for (const auto& s : settings.scheduler) {
    if (s.type == SchedulerSettings::Type::strict) continue;
    lightest = std::min(lightest, std::max(s.weight, 1u));
    heaviest = std::max(heaviest, s.weight);
  }
  const std::uint32_t wanted = std::max(max_frame_bytes / lightest + 1, kUsualUnit);
  return std::max(std::min(wanted, kLongestTurn / heaviest), 64u);
}

}  // namespace

Scheduler::Scheduler(const PortSettings& settings, std::uint32_t max_frame_bytes)
    : port_(settings.pir_bytes_s, settings.pbs_bytes) {
  const std::uint32_t unit = unit_of(settings, max_frame_bytes);
  any_shaper_ = port_.limited();
  for (unsigned i = 0; i < kClasses; ++i) {
    const SchedulerSettings& s = settings.scheduler[i];
    if (s.type == SchedulerSettings::Type::strict) strict_ |= static_cast<std::uint8_t>(1u << i);
    quantum_[i] = static_cast<std::int64_t>(std::max(s.weight, 1u)) * unit;
    shaper_[i] = Shaper(s.pir_bytes_s, s.pbs_bytes);
    if (!shaper_[i].limited()) continue;
    shaped_ |= static_cast<std::uint8_t>(1u << i);
    any_shaper_ = true;
  }
}

std::uint8_t Scheduler::shape(TimeNs now, std::uint8_t ready) const noexcept {
  if (!port_.open(now)) return 0;
  for (unsigned i = 0; i < kClasses; ++i) {
    if (!shaper_[i].open(now)) ready &= static_cast<std::uint8_t>(~(1u << i));
  }
  return ready;
}

TimeNs Scheduler::opens_at(std::uint8_t ready) const noexcept {
  TimeNs first = kNever;
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((ready >> i & 1) != 0) first = std::min(first, shaper_[i].opens_at());
  }
  return first == kNever ? kNever : std::max(first, port_.opens_at());
}

}  // namespace weft::qos
