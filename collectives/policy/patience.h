// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Waiting for what other groups have, for a bounded time, rather than going without at once. A ring is much slower than
// a tree that is free soon; but who waits without a bound may wait for ever. The manager waits with whole groups, a
// simulated host with one collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "collectives/policy/request.h"
#include "switch/base/time.h"

namespace weft::inc::policy {

/// Whether a group that was refused may get a tree as soon as others end.
[[nodiscard]] bool may_pass(Reason reason) noexcept;

/// Who wants something that others have.
struct Want {
  TimeNs asked = 0;     ///< when it wanted it first
  double use_ns = 0;    ///< what it takes once it has it; 0: it only wants to begin
  double limit_ns = 0;  ///< after `asked` it is to be done: it would be as soon without. 0: it does not wait
};
/// Who has it.
struct Holding {
  TimeNs since = 0;
  TimeNs until = 0;  ///< as it was expected then
  double late = 1;   ///< of that time: who is later than this may be so for long, and is not waited for
};

/// Whether it is better off when it waits.
/// @param holder  nullopt: nobody knows when it will be free
[[nodiscard]] bool pays_to_wait(TimeNs now, const Want& want, const std::optional<Holding>& holder) noexcept;

/// Those who wait. When something has become free each may try once, in the order in which they came: one that it is of
/// no use to lets the next one try.
class WaitingLine {
 public:
  using Ticket = std::uint64_t;

  /// At the end. It may try as soon as all before it have.
  [[nodiscard]] Ticket join();
  void leave(Ticket ticket) { line_.erase(ticket); }
  /// All may try again.
  void freed() noexcept { ++freed_; }
  [[nodiscard]] bool may_try(Ticket ticket) const;
  /// It has tried in vain.
  void tried(Ticket ticket) { line_.at(ticket) = freed_; }
  [[nodiscard]] std::size_t size() const noexcept { return line_.size(); }

 private:
  std::uint64_t freed_ = 1;
  Ticket last_ = 0;
  std::map<Ticket, std::uint64_t> line_;  ///< `freed_` when it tried last
};

}  // namespace weft::inc::policy
