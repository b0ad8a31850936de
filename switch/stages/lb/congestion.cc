// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/congestion.h"

#include <cmath>
#include <limits>
#include <utility>

namespace weft::stages {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();

template <typename T>
void copy(std::vector<std::atomic<T>>& to, const std::vector<std::atomic<T>>& from) noexcept {
  for (std::size_t i = 0; i < to.size() && i < from.size(); ++i) {
    to[i].store(from[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
}

// What an estimator holds of a link that is in use all the time.
double full_bits(const CongestionRules& rules, std::uint64_t rate_mbps) noexcept {
  // Megabits a second are bits in a microsecond.
  return static_cast<double>(rate_mbps) * static_cast<double>(rules.period_ns) / 1000 / rules.alpha;
}

std::uint8_t metric_of(const CongestionRules& rules, std::uint64_t bytes, double full_bits) noexcept {
  const double eighths = static_cast<double>(bytes) * 8 * 8 / full_bits;
  return static_cast<std::uint8_t>(std::min(eighths, rules.clamped ? 7.0 : 255.0));
}

}  // namespace

void Dre::add(const CongestionRules& rules, TimeNs now, std::uint32_t bytes) noexcept {
  const auto period = static_cast<std::uint32_t>(now / rules.period_ns);
  bytes_ = static_cast<std::uint32_t>(std::min(std::uint64_t{bytes_in(rules, period)} + bytes, kMostBytes));
  period_ = period;
}

std::uint32_t Dre::bytes_in(const CongestionRules& rules, std::uint32_t period) const noexcept {
  const std::uint32_t periods = period - period_;
  if (periods == 0 || bytes_ == 0) return bytes_;
  const double kept = periods == 1 ? 1 - rules.alpha : std::pow(1 - rules.alpha, periods);
  return static_cast<std::uint32_t>(bytes_ * kept);
}

std::uint8_t congestion_metric(const CongestionRules& rules, std::uint64_t bytes, std::uint64_t rate_mbps) noexcept {
  return metric_of(rules, bytes, full_bits(rules, rate_mbps));
}

CongestionTables::CongestionTables(const CongestionRules& rules, std::vector<Port> ports, std::size_t leaves,
                                   std::size_t paths, std::uint16_t workers)
    : rules_(rules),
      ports_(std::move(ports)),
      leaves_(leaves),
      paths_(paths),
      workers_(workers),
      sent_(ports_.size() * workers),
      to_leaf_(leaves * paths),
      from_leaf_(leaves * kPaths),
      paths_of_(leaves),
      turn_(leaves),
      news_(leaves) {
  for (const Port& port : ports_) full_bits_.push_back(full_bits(rules_, port.rate_mbps));
}

void CongestionTables::on_sent(std::uint16_t worker, std::size_t port, TimeNs now, std::uint32_t bytes) noexcept {
  std::atomic<Dre>& own = sent_[port * workers_ + worker];
  Dre dre = own.load(std::memory_order_relaxed);
  dre.add(rules_, now, bytes);
  own.store(dre, std::memory_order_relaxed);
}

std::uint8_t CongestionTables::local(std::size_t port, TimeNs now) const noexcept {
  if (ports_[port].rate_mbps == 0) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    bytes += sent_[port * workers_ + worker].load(std::memory_order_relaxed).bytes(rules_, now);
  }
  return metric_of(rules_, bytes, full_bits_[port]);
}

void CongestionTables::on_arrived(std::size_t leaf, std::uint8_t path, std::uint8_t metric, TimeNs now) noexcept {
  // Only grows. When two workers store at once the lower number may stay, until the next packet by the higher path.
  std::atomic<std::uint16_t>& paths = paths_of_[leaf];
  if (path >= paths.load(std::memory_order_relaxed)) {
    paths.store(static_cast<std::uint16_t>(path + 1), std::memory_order_relaxed);
  }
  Cell& cell = from_leaf_[leaf * kPaths + path];
  const PathMetric before = cell.load(std::memory_order_relaxed);
  const bool changed = before.changed || before.told == 0 || before.metric != metric;
  cell.store({.told = PathMetric::stamp(now), .metric = metric, .changed = changed}, std::memory_order_relaxed);
  // Behind the cell: who takes the news away looks at all cells afterwards.
  if (changed) news_[leaf].store(true, std::memory_order_release);
}

bool CongestionTables::on_feedback(std::size_t leaf, std::uint8_t path, std::uint8_t metric, TimeNs now) noexcept {
  if (path >= paths_) return false;
  to_leaf_[leaf * paths_ + path].store({.told = PathMetric::stamp(now), .metric = metric}, std::memory_order_relaxed);
  return true;
}

std::uint8_t CongestionTables::remote(std::size_t leaf, std::size_t path, TimeNs now) const noexcept {
  return to_leaf(leaf, path).value(rules_, now);
}

PathMetric CongestionTables::to_leaf(std::size_t leaf, std::size_t path) const noexcept {
  return to_leaf_[leaf * paths_ + path].load(std::memory_order_relaxed);
}

PathMetric CongestionTables::from_leaf(std::size_t leaf, std::size_t path) const noexcept {
  return from_leaf_[leaf * kPaths + path].load(std::memory_order_relaxed);
}

void CongestionTables::adopt(const CongestionTables& old) noexcept {
  copy(sent_, old.sent_);
  copy(to_leaf_, old.to_leaf_);
  copy(from_leaf_, old.from_leaf_);
  copy(paths_of_, old.paths_of_);
  copy(turn_, old.turn_);
  copy(news_, old.news_);
}

}  // namespace weft::stages
