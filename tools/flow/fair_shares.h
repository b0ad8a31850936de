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
#include <span>
#include <utility>
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
  struct Seat {
    std::uint64_t demand = 0;  ///< as demand() has it
    std::uint32_t place = 0;   ///< among the members of the link
  };
  struct Link {
    double capacity = 0;
    std::uint64_t room = 0;    ///< the capacity, in units of demand()
    std::uint64_t demand = 0;  ///< of all members
    std::vector<Member> members;
    bool dirty = false;
  };
  struct Transfer {
    std::vector<Use> uses;
    std::vector<std::uint32_t> links;  ///< of `uses`, for searches, which read no more of most of them
    std::vector<Seat> seats;           ///< of each use
    double alone = 0, rate = 0;
    bool running = false;
  };
  /// What a search asks of each link that it meets, and of each transfer. Apart from the rest, because a search meets
  /// most links of a cluster, and so little of each stays in the cache.
  struct LinkMark {
    std::uint32_t seen = 0;   ///< the search that has been here
    std::uint32_t index = 0;  ///< among the links that it reached
    bool scarce = false;
  };
  struct TransferMark {
    std::uint32_t seen = 0;
    std::uint32_t index = 0;  ///< among the transfers that it reached: first as it found them, then in their order
  };
  // Of the filling that runs, by index:
  struct FillingLink {
    double left = 0, weight = 0;
    std::uint32_t open = 0;  ///< transfers whose rate is not known yet, once for each of their uses
  };
  struct Filling {
    double rate = 0;
    std::uint32_t first = 0;  ///< of its uses of reached links; those of the next one begin where they end
    bool fixed = false;
  };
  struct Level {
    double rate = 0;
    std::uint32_t link = 0;  ///< among the links that were reached, whose order is that of all
    friend bool operator>(const Level& a, const Level& b) noexcept {
      return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
    }
  };

  [[nodiscard]] bool scarce(const Link& link) const noexcept;
  void touch(std::uint32_t link);
  void reach(TransferId id);
  void find_reach();
  void empty();
  [[nodiscard]] std::optional<Level> next_level();
  void fill();
  void fix(std::uint32_t index, double rate);

  std::vector<Link> links_;
  std::vector<Transfer> transfers_;
  std::vector<LinkMark> link_marks_;
  std::vector<TransferMark> marks_;
  std::vector<TransferId> free_, started_, reached_, changed_;
  std::vector<std::uint32_t> dirty_, reached_links_;
  std::vector<Use> scarce_uses_;            ///< of reached transfers, in the order in which they were found
  std::vector<std::uint32_t> scarce_from_;  ///< of each of them: where its own begin; and where the last ones end
  std::vector<FillingLink> filling_links_;
  std::vector<Filling> filling_;
  std::vector<Use> uses_;                                   ///< of filling_; `link` is an index
  std::vector<std::pair<double, std::uint32_t>> by_alone_;  ///< rates alone, and whose
  std::vector<Level> levels_;                               ///< a heap, the lowest on top
  std::vector<std::uint32_t> full_;
  std::uint32_t search_ = 0;
  std::uint64_t looked_at_ = 0;
};

}  // namespace weft::flow
