// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a leaf of CONGA (Alizadeh et al., SIGCOMM 2014, 3) knows of the congestion of paths: estimators of its own
// links, and what other leaves have told. Plain values and one table that all workers of a switch share, without clock
// and without packets.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

struct CongestionRules {
  TimeNs period_ns = 50'000;  ///< T_dre: how often an estimator forgets a part of what it has seen
  double alpha = 0.2;         ///< that part; the time constant is period_ns / alpha
  bool clamped = true;        ///< metrics are at most 7 (3 bits, the paper); false: at most 255, as in a public model
  TimeNs age_ns = 500'000;    ///< what other leaves have told counts as 0 when it is older
};

/// The discounting rate estimator of a link (CONGA 3.2): bytes that were sent, of which a part is forgotten in every
/// period. Eight bytes, so that it can be stored at once.
class Dre {
 public:
  void add(const CongestionRules& rules, TimeNs now, std::uint32_t bytes) noexcept;
  /// What is left at `now` of the bytes. After 2^32 periods of silence (2.5 days with the default) an old value may be
  /// seen once more, for one time constant.
  [[nodiscard]] std::uint32_t bytes(const CongestionRules& rules, TimeNs now) const noexcept {
    return bytes_in(rules, static_cast<std::uint32_t>(now / rules.period_ns));
  }
  /// The same at any time of a period.
  [[nodiscard]] std::uint32_t bytes_in(const CongestionRules& rules, std::uint32_t period) const noexcept;

  friend bool operator==(const Dre&, const Dre&) = default;

 private:
  std::uint32_t bytes_ = 0;
  std::uint32_t period_ = 0;  ///< the one that bytes_ belongs to
};

/// Eighths of a link's rate in use, as CONGA has it with Q = 3.
/// @param bytes      of estimators, together
/// @param rate_mbps  of the link, above 0
[[nodiscard]] std::uint8_t congestion_metric(const CongestionRules& rules, std::uint64_t bytes,
                                             std::uint64_t rate_mbps) noexcept;

/// A metric of a path, and when it was told. Eight bytes.
struct PathMetric {
  std::uint32_t told = 0;  ///< in microseconds, 0: never; the lowest 32 bits, so that age() wraps after 71 minutes
  std::uint8_t metric = 0;
  bool changed = false;  ///< since it was last fed back
  std::uint16_t unused = 0;

  friend bool operator==(const PathMetric&, const PathMetric&) = default;

  [[nodiscard]] bool fresh(const CongestionRules& rules, TimeNs now) const noexcept {
    return told != 0 && static_cast<TimeNs>(stamp(now) - told) * 1000 <= rules.age_ns;
  }
  /// 0 when it is not fresh, so that the path is tried again.
  [[nodiscard]] std::uint8_t value(const CongestionRules& rules, TimeNs now) const noexcept {
    return fresh(rules, now) ? metric : std::uint8_t{0};
  }
  /// Never 0.
  [[nodiscard]] static std::uint32_t stamp(TimeNs now) noexcept {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(now / 1000));
  }
};

/// Of one switch, shared by its workers: estimators of ports, the table of congestion to other leaves by this one's
/// paths (CONGA's Congestion-To-Leaf), and that of the congestion with which their packets arrive
/// (Congestion-From-Leaf). Leaves are numbered as the caller likes.
class CongestionTables {
 public:
  static constexpr std::size_t kPaths = 256;  ///< that a leaf can have: one byte in the tag

  struct Port {
    std::uint64_t rate_mbps = 0;  ///< of its link; 0: its congestion is always 0
  };
  struct Feedback {
    std::uint8_t path;
    std::uint8_t metric;
  };

  /// @param leaves  of the fabric; 0 for a switch that is no leaf
  /// @param paths   of this leaf
  CongestionTables(const CongestionRules& rules, std::vector<Port> ports, std::size_t leaves, std::size_t paths,
                   std::uint16_t workers);

  /// Bytes leave through a port. Each worker has estimators of its own, which only it changes.
  void on_sent(std::uint16_t worker, std::size_t port, TimeNs now, std::uint32_t bytes) noexcept;
  /// Metric of a port's link.
  [[nodiscard]] std::uint8_t local(std::size_t port, TimeNs now) const noexcept;

  /// A packet of a leaf has arrived by one of that leaf's paths, over links whose highest metric was this.
  void on_arrived(std::size_t leaf, std::uint8_t path, std::uint8_t metric, TimeNs now) noexcept;
  /// A leaf has told with what metric packets of this leaf arrive by one of this leaf's paths; others are ignored.
  /// @return false when this leaf has no such path
  bool on_feedback(std::size_t leaf, std::uint8_t path, std::uint8_t metric, TimeNs now) noexcept;

  /// What to tell a leaf next about its own paths: in turn, those that have changed first; nullopt when nothing fresh
  /// is known.
  [[nodiscard]] std::optional<Feedback> next_feedback(std::size_t leaf, TimeNs now) noexcept;

  /// Metric of a path to a leaf beyond this switch; 0 when nothing fresh is known.
  [[nodiscard]] std::uint8_t remote(std::size_t leaf, std::size_t path, TimeNs now) const noexcept;

  /// As they are told, for who looks on.
  [[nodiscard]] PathMetric to_leaf(std::size_t leaf, std::size_t path) const noexcept;
  [[nodiscard]] PathMetric from_leaf(std::size_t leaf, std::size_t path) const noexcept;
  [[nodiscard]] std::size_t leaves() const noexcept { return leaves_; }
  [[nodiscard]] std::size_t paths() const noexcept { return paths_; }
  [[nodiscard]] const CongestionRules& rules() const noexcept { return rules_; }

  /// Takes over what another one knows, of as many ports, leaves, paths and workers. Nobody uses either meanwhile.
  void adopt(const CongestionTables& old) noexcept;

 private:
  using Cell = std::atomic<PathMetric>;
  static_assert(std::atomic<PathMetric>::is_always_lock_free && std::atomic<Dre>::is_always_lock_free);

  CongestionRules rules_;
  std::vector<Port> ports_;
  std::vector<double> full_bits_;  ///< by port, at its link's rate
  std::size_t leaves_;
  std::size_t paths_;
  std::uint16_t workers_;
  std::vector<std::atomic<Dre>> sent_;                ///< by port, then worker
  std::vector<Cell> to_leaf_;                         ///< by leaf, then path of this leaf
  std::vector<Cell> from_leaf_;                       ///< by leaf, then path of that leaf
  std::vector<std::atomic<std::uint16_t>> paths_of_;  ///< by leaf: paths that its packets have come by, and all before
  std::vector<std::atomic<std::uint8_t>> turn_;       ///< by leaf: the path that was fed back last
  std::vector<std::atomic<bool>> news_;               ///< by leaf: one of from_leaf_ may be `changed`
};

// Here, because the compiler returns a pair of bytes by way of memory, and a tag then waits for it.
inline std::optional<CongestionTables::Feedback> CongestionTables::next_feedback(std::size_t leaf,
                                                                                 TimeNs now) noexcept {
  Cell* const row = &from_leaf_[leaf * kPaths];
  const std::size_t paths = paths_of_[leaf].load(std::memory_order_relaxed);
  std::size_t path = turn_[leaf].load(std::memory_order_relaxed);
  std::optional<std::size_t> chosen;
  // Mostly nothing has changed, and the next path that is fresh is the one.
  const bool news = news_[leaf].load(std::memory_order_relaxed) && news_[leaf].exchange(false);
  for (std::size_t i = 0; i < paths; ++i) {
    path = path + 1 < paths ? path + 1 : 0;
    const PathMetric metric = row[path].load(std::memory_order_relaxed);
    if (!metric.fresh(rules_, now)) continue;
    if (!chosen || metric.changed) chosen = path;
    if (metric.changed || !news) break;
  }
  if (!chosen) return std::nullopt;
  PathMetric metric = row[*chosen].load(std::memory_order_relaxed);
  PathMetric told = metric;
  told.changed = false;
  if (metric.changed) {
    // There may be more.
    news_[leaf].store(true, std::memory_order_relaxed);
    // Fails when another worker has stored a newer metric meanwhile: that one stays `changed`, and is told later.
    row[*chosen].compare_exchange_strong(metric, told, std::memory_order_relaxed);
  }
  turn_[leaf].store(static_cast<std::uint8_t>(*chosen), std::memory_order_relaxed);
  return Feedback{static_cast<std::uint8_t>(*chosen), told.metric};
}

}  // namespace weft::stages
