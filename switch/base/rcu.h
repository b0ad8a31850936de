// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Read-copy-update for tables that workers read on every burst and the control thread replaces now and then:
// quiescent-state-based reclamation (McKenney and Slingwine 1998), as in rte_rcu_qsbr, for objects of any kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace weft {

/// The readers that share one notion of "nobody can still see it".
///
/// A reader is a worker, named by its index. Between two calls of quiescent() it may keep what RcuCell::read()
/// returned; the call says that it has let go of everything. It is two plain memory accesses, meant for the start of
/// every burst and of every timer call. A worker that gets no packets must call it too, or nothing is ever reclaimed:
/// its loop asks wanted() each time round (for a stage it is mail) and so does so after at most one idle sleep. A
/// worker that has not begun to run delays reclamation, nothing else.
///
/// defer() and reclaim() belong to one thread at a time, the control thread.
class RcuDomain {
 public:
  explicit RcuDomain(std::uint16_t readers) : seen_(readers) {}
  /// No reader may be left.
  ~RcuDomain() {
    while (!deferred_.empty()) run_first();
  }
  RcuDomain(const RcuDomain&) = delete;
  RcuDomain& operator=(const RcuDomain&) = delete;

  /// Reader: holds no pointer into any cell of this domain any more.
  void quiescent(std::uint16_t reader) noexcept {
    // Acquire: what was published before the epoch is seen from now on. Release: all earlier reads are done.
    seen_[reader].epoch.store(epoch_.load(std::memory_order_acquire), std::memory_order_release);
  }

  /// Reader: something waits for its next quiescent().
  [[nodiscard]] bool wanted(std::uint16_t reader) const noexcept {
    return seen_[reader].epoch.load(std::memory_order_relaxed) != epoch_.load(std::memory_order_relaxed);
  }

  /// Runs `action` in a later reclaim(), when every reader was quiescent after this call. What it frees must have been
  /// taken out of the readers' sight before.
  void defer(std::function<void()> action) {
    const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    deferred_.push_back({epoch, std::move(action)});
    epoch_.store(epoch, std::memory_order_release);
  }

  /// Runs what may run by now, in the order of defer(); returns how many.
  std::size_t reclaim() {
    std::uint64_t oldest = epoch_.load(std::memory_order_relaxed);
    for (const Seen& seen : seen_) oldest = std::min(oldest, seen.epoch.load(std::memory_order_acquire));
    std::size_t count = 0;
    for (; !deferred_.empty() && deferred_.front().epoch <= oldest; ++count) run_first();
    return count;
  }

  /// Actions that wait for readers.
  [[nodiscard]] std::size_t pending() const noexcept { return deferred_.size(); }

 private:
  struct alignas(64) Seen {
    std::atomic<std::uint64_t> epoch{0};
  };
  struct Deferred {
    std::uint64_t epoch;
    std::function<void()> action;
  };
  void run_first() {
    const Deferred first = std::move(deferred_.front());
    deferred_.pop_front();
    first.action();
  }

  alignas(64) std::atomic<std::uint64_t> epoch_{0};
  std::vector<Seen> seen_;
  std::deque<Deferred> deferred_;
};

/// A pointer to an immutable object that readers follow without locks and one thread replaces.
template <typename T>
class RcuCell {
 public:
  RcuCell(RcuDomain& domain, std::unique_ptr<const T> first) : domain_(domain), current_(first.release()) {}
  /// No reader may be left.
  ~RcuCell() { delete current_.load(std::memory_order_relaxed); }
  RcuCell(const RcuCell&) = delete;
  RcuCell& operator=(const RcuCell&) = delete;

  /// The object of this moment. A reader may use it until its next RcuDomain::quiescent().
  [[nodiscard]] const T& read() const noexcept { return *current_.load(std::memory_order_acquire); }

  /// Grows with every replace(). Read before read(), it says whether that may be another object than the last time.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  /// Publishes a new object. The old one is deleted by a RcuDomain::reclaim() after the last reader let go of it.
  void replace(std::unique_ptr<const T> next) {
    std::shared_ptr<const T> old(current_.exchange(next.release(), std::memory_order_acq_rel));
    version_.fetch_add(1, std::memory_order_release);
    domain_.defer([old = std::move(old)]() mutable { old.reset(); });
  }

 private:
  RcuDomain& domain_;
  std::atomic<const T*> current_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace weft
