// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Decides what happens to each packet: the protocol unit of the impair stage. It holds no packet and knows no clock;
// equal rules, packets, times and random sources give equal decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "switch/base/token_bucket.h"
#include "switch/stages/impair/rule.h"

namespace weft::stages {

/// Where in the rules a packet goes on after a step.
struct ImpairPlace {
  enum class Part : std::uint8_t { select, duplicate, timing };
  std::uint16_t rule = 0;
  Part part = Part::select;
  bool acted = false;  ///< the rule did something to this packet already, and counted it against its limit
  friend bool operator==(const ImpairPlace&, const ImpairPlace&) = default;
};

/// One thing to do to a packet.
struct ImpairStep {
  enum class What : std::uint8_t {
    pass,       ///< no rule is left
    lose,       ///< drop it
    limit,      ///< drop it: the rate is exceeded
    hold,       ///< keep it until `until`, then go on from `next`
    corrupt,    ///< flip `bit`, then go on from `next` with what the packet has become
    duplicate,  ///< go on from `next` with the packet, and then with a copy of it
  };
  What what = What::pass;
  bool delayed = false;    ///< hold: by rate, delay or jitter
  bool reordered = false;  ///< hold: by reorder
  ImpairPlace next{};
  TimeNs until = 0;
  std::uint32_t bit = 0;  ///< byte offset in the frame * 8 + bit
  friend bool operator==(const ImpairStep&, const ImpairStep&) = default;
};

/// What one rule has decided. A decision counts even when the stage cannot carry it out, for want of a buffer.
struct ImpairCounters {
  /// Packets that fulfilled all conditions of the rule, including those that its keys `after`, `nth`, `every` and
  /// `limit` then left alone.
  std::uint64_t matched = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t limited = 0;
  std::uint64_t delayed = 0;
  std::uint64_t reordered = 0;
};

/// The rules and their state. Copyable. Every packet goes through the rules in order; a rule that holds it ends this
/// for now, and the rules behind see it when its time has come: a rate behind a delay sees what leaves the delay.
class ImpairUnit {
 public:
  static constexpr std::size_t kMaxRules = 1024;

  ImpairUnit() = default;
  /// At most kMaxRules.
  explicit ImpairUnit(std::vector<ImpairRule> rules);

  /// The next step of a packet. Call again with `step.next` until the step is pass, lose, limit or hold.
  [[nodiscard]] ImpairStep on_packet(TimeNs now, const ImpairFields& f, Rng& rng, ImpairPlace at = {}) noexcept;

  /// Continues the counts, buckets and channels of the same rules, which name their ports otherwise. False, and nothing
  /// changes, when `old` has another number of rules.
  [[nodiscard]] bool go_on_from(const ImpairUnit& old);

  /// Goes on with the counters of as many other rules, and with the state (buckets, channels, packets acted on) of all
  /// but the one that was changed. Allocates nothing.
  void take_over(const ImpairUnit& old, std::size_t changed) noexcept;

  [[nodiscard]] bool empty() const noexcept { return slots_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] const ImpairRule& rule(std::size_t i) const noexcept { return slots_[i].rule; }
  [[nodiscard]] const ImpairCounters& counters(std::size_t i) const noexcept { return slots_[i].counters; }

 private:
  struct Slot {
    ImpairRule rule;
    ImpairCounters counters{};
    std::uint64_t acted = 0;  ///< packets to which something was done
    bool disturbs = false;    ///< the rule loses or corrupts
    bool times = false;       ///< the rule has a rate, a delay, or reorders
    std::optional<TokenBucket> bucket{};
    TimeNs last_leave = 0;  ///< for keep_order
  };

  static bool selects(Slot& slot) noexcept;
  static ImpairStep act(Slot& slot, ImpairPlace at, std::uint64_t& counter, ImpairStep step) noexcept;
  static std::optional<ImpairStep> disturb(Slot& slot, ImpairPlace at, const ImpairFields& f, Rng& rng) noexcept;
  static std::optional<ImpairStep> time(Slot& slot, ImpairPlace at, TimeNs now, const ImpairFields& f,
                                        Rng& rng) noexcept;

  std::vector<Slot> slots_;
};

}  // namespace weft::stages
