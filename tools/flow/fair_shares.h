// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Max-min fair rates by water-filling (Bertsekas and Gallager, Data Networks, 6.5.2; EPIC appendix L.1). A transfer has
// flows on several links, all with the same rate: those of a ring, or the edges of a tree. Of two transfers that share
// a link, each of their flows gets as much.
//
// What a change costs depends on the transfers that it can reach. A link that could carry all of its flows at the rate
// that each has alone limits nobody, so a change goes on over other links only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

namespace weft::flow {

using TransferId = std::uint32_t;

/// Flows of a transfer on one direction of a link; a part of one where a flow takes several ways at once.
struct Use {
  std::uint32_t link = 0;
  double flows = 1;

  friend bool operator==(const Use&, const Use&) = default;
};

/// Rates are in bytes per nanosecond. The same transfers get the same rates, whatever has happened before.
class FairShares {
 public:
  /// @param capacities  of each link, above 0
  explicit FairShares(std::vector<double> capacities);

  /// Makes a transfer known, which does not run yet.
  /// @param uses  each link once; not empty
  /// @param cap   a rate that it cannot exceed for reasons of its own; above 0
  TransferId define(std::vector<Use> uses, double cap);
  /// One that does not run. Its number is used again.
  void forget(TransferId id);
  /// One that does not run.
  void start(TransferId id);
  /// One that runs.
  void stop(TransferId id);

  /// Makes rates fair after start() and stop().
  /// @return transfers whose rate is another now, in the order of their numbers; valid until the next call
  std::span<const TransferId> settle();

  /// Of a transfer that runs, as of the last settle().
  [[nodiscard]] double rate(TransferId id) const noexcept { return transfers_[id].rate; }
  /// What it gets when it runs alone.
  [[nodiscard]] double alone(TransferId id) const noexcept { return transfers_[id].alone; }
  [[nodiscard]] std::span<const Use> uses(TransferId id) const noexcept { return transfers_[id].uses; }
  [[nodiscard]] double capacity(std::uint32_t link) const noexcept { return links_[link].capacity; }
  [[nodiscard]] std::size_t links() const noexcept { return links_.size(); }
  /// Transfers whose rates were worked out, in all calls of settle().
  [[nodiscard]] std::uint64_t looked_at() const noexcept { return looked_at_; }

  /// How much of a link a transfer asks for when it runs alone, in units that add up without rounding.
  [[nodiscard]] std::uint64_t demand(TransferId id, const Use& use) const noexcept;
  /// Whether a link may limit transfers that ask for so much together.
  [[nodiscard]] bool scarce(std::uint32_t link, std::uint64_t demand, std::size_t transfers) const noexcept;

 private:
  struct Member {
    TransferId transfer = 0;
    std::uint32_t use = 0;  ///< index in its uses
  };
  struct Link {
    double capacity = 0;
    std::uint64_t room = 0;    ///< the capacity, in units of demand()
    std::uint64_t demand = 0;  ///< of all members
    std::vector<Member> members;
    bool dirty = false;
    std::uint32_t seen = 0;  ///< the search that has been here
    // Of the filling that runs:
    double left = 0, weight = 0;
    std::uint32_t open = 0;  ///< members whose rate is not known yet
  };
  struct Transfer {
    std::vector<Use> uses;
    std::vector<std::uint32_t> places;  ///< among the members of each link
    double alone = 0, rate = 0;
    bool running = false;
    bool fixed = false;
    std::uint32_t seen = 0;
  };
  struct Level {
    double rate = 0;
    std::uint32_t link = 0;
    friend bool operator>(const Level& a, const Level& b) noexcept {
      return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
    }
  };

  [[nodiscard]] bool scarce(const Link& link) const noexcept;
  void touch(std::uint32_t link, bool was_scarce);
  void reach(TransferId id);
  void find_reach();
  void empty();
  [[nodiscard]] std::optional<Level> next_level();
  void fill();
  void fix(TransferId id, double rate);

  std::vector<Link> links_;
  std::vector<Transfer> transfers_;
  std::vector<TransferId> free_, started_, reached_, by_alone_, changed_;
  std::vector<std::uint32_t> dirty_, reached_links_;
  std::priority_queue<Level, std::vector<Level>, std::greater<>> levels_;
  std::vector<double> before_;
  std::uint32_t search_ = 0;
  std::uint64_t looked_at_ = 0;
};

}  // namespace weft::flow
