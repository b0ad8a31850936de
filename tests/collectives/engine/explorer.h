// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores everything that can happen when ranks run a few collectives over one or three switches: the
// production engine, and the software RNIC's own requesters and responders. Every packet under way may be the next that
// arrives; a channel between two ends delivers in order but for the faults of the case: losses, duplications, packets
// that overtake the one in front; or in any order. Time passes when nothing is under way, and as often as the case
// allows while something is.
//
// Each state is visited once, told apart by a 64-bit hash of what decides its future; of states that equal ranks make
// of each other when they change places (explorer_symmetry.h), one. Judged are: every result is a single machine's, no
// work request fails, no gap is asked for twice and copies are bounded (explorer_answers.h), every way comes to an end
// and no way leads back, and then everyone is done. A way from a state to its image would, taken again and again, lead
// back to the state: so neither does that.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/collectives/engine/explorer_case.h"
#include "tests/collectives/engine/explorer_nodes.h"
#include "tests/collectives/engine/explorer_symmetry.h"
#include "tests/support/fingerprints.h"
#include "tests/support/state_hash.h"

namespace weft::inc::testing {

class Explorer {
 public:
  explicit Explorer(ExplorerCase c, bool exact = false)
      : case_(std::move(c)), ranks_(case_.ranks()), nodes_(case_, exact, symmetry_of(case_, exact)) {}

  /// Runs through all states. Returns the first violation, and the way to it.
  std::optional<std::string> run() {
    State s = start();
    check_nodes();
    if (!violation_) explore(s, hash(s), 0);
    if (!violation_) nodes_.check_naks();
    check_nodes();
    return violation_;
  }
  /// Of an explorer of exact states: runs through all that differ in any member, counters and clock included. Of those
  /// with the same hash each must allow the same steps, to states of the same hash: then run() leaves nothing out. Says
  /// where that is not so.
  std::optional<std::string> compare(std::uint64_t& exact) {
    struct Class {
      std::vector<std::size_t> members;
      std::vector<std::array<std::uint64_t, 3>> results;
      bool visited = false;
    };
    std::unordered_map<std::uint64_t, Class> classes;
    std::deque<State> all;
    const auto visit = [&](const State& s) {
      auto& members = classes[hash(s)].members;
      for (const std::size_t member : members) {
        if (all[member] == s) return;
      }
      members.push_back(all.size());
      all.push_back(s);
    };
    visit(start());
    for (std::size_t i = 0; i < all.size() && !violation_; ++i) {
      std::vector<std::array<std::uint64_t, 3>> results;
      expand(all[i], [&](const State& next) {
        const Taken& by = way_.back();
        results.push_back({reinterpret_cast<std::uintptr_t>(by.what), by.input, hash(next)});
        visit(next);
      });
      std::sort(results.begin(), results.end());
      Class& c = classes.at(hash(all[i]));
      const bool holds = nodes_.hash_holds() && (!c.visited || c.results == results);
      if (!holds && !violation_) return case_.name + ": states with the same hash go on differently";
      c.visited = true;
      c.results = std::move(results);
    }
    exact = all.size();
    return violation_;
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return seen_.size(); }
  /// The states with all their images: what there would be to visit without the symmetry and in every order.
  [[nodiscard]] std::uint64_t with_images() const noexcept { return with_images_; }
  /// Renamings of ranks that change nothing.
  [[nodiscard]] std::uint32_t renamings() const noexcept { return nodes_.symmetry().size(); }
  /// There are more states than the case allows, and not all have been visited.
  [[nodiscard]] bool cut_short() const noexcept { return seen_.size() > case_.most_states; }
  [[nodiscard]] std::uint64_t transitions() const noexcept { return transitions_; }
  [[nodiscard]] std::uint32_t diameter() const noexcept { return deepest_; }
  /// The states in which nothing is under way: time passes, or this is the end. One of each orbit.
  [[nodiscard]] const std::set<std::uint64_t>& quiet() const noexcept { return quiet_; }
  /// All states, and one of each orbit, where the case wants them listed.
  [[nodiscard]] const std::set<std::uint64_t>& listed() const noexcept { return listed_; }
  [[nodiscard]] const std::set<std::uint64_t>& orbits() const noexcept { return orbits_; }
  /// All states and all their images, where the case wants them listed.
  [[nodiscard]] const std::set<std::uint64_t>& images() const noexcept { return images_; }
  /// Most packets that a switch has sent again, on any way.
  [[nodiscard]] std::uint64_t copies() const noexcept { return copies_; }

 private:
  using Id = ExplorerNodes::Id;
  static constexpr std::size_t kMostRenamings = 8, kMostSites = 7;

  struct State {
    std::array<Id, kMostSites> nodes{};  ///< of the ranks, then of the switches
    std::vector<Id> flights;             ///< by channel; those of a channel in their order
    std::uint8_t losses = 0, duplicates = 0, overtakes = 0, early_timeouts = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  State start() {
    State s;
    s.losses = case_.losses;
    s.duplicates = case_.duplicates;
    s.overtakes = case_.overtakes;
    s.early_timeouts = case_.early_timeouts;
    std::copy(nodes_.first().begin(), nodes_.first().end(), s.nodes.begin());
    put(s, nodes_.first_sent());
    return s;
  }

  // --- what happens ---

  [[nodiscard]] std::size_t channel_of(Id flight) const { return nodes_.input(flight).channel; }

  void put(State& s, const std::vector<Id>& sent) const {
    for (const Id one : sent) {
      const auto behind = std::upper_bound(s.flights.begin(), s.flights.end(), channel_of(one),
                                           [&](std::size_t c, Id other) { return c < channel_of(other); });
      s.flights.insert(behind, one);
    }
  }

  /// An input meets the node at a site.
  void meet(State& s, Site site, Id input) {
    if (violation_) return;  // of another node in this step
    const ExplorerNodes::Change& change = nodes_.change(s.nodes[site], input);
    check_nodes();
    s.nodes[site] = change.node;
    put(s, change.sent);
    // Only the newest step of the way changes nodes.
    way_.back().copies[site] += change.copies;
  }
  /// A packet arrives at the end of its channel.
  void arrive(State& s, Id flight) {
    const std::size_t channel = channel_of(flight);
    const ExplorerNodes::Edge& edge = nodes_.edge(channel / 2);
    meet(s, channel % 2 == 0 ? ranks_ + edge.upper : edge.lower, flight);
  }

  // --- the search ---

  /// A hash of a state, and the least of those of all its images when they count as one. Nodes are in their sites, and
  /// packets in their channels; a channel has an order, or none.
  [[nodiscard]] std::uint64_t hash(const State& s) {
    const std::uint64_t canonical = hash_images(s);
    if (case_.every_image) return hashes_[0];
    return canonical;
  }
  /// The least hash of an image; all are in hashes_, by renaming.
  std::uint64_t hash_images(const State& s) {
    const std::uint32_t count = renamings();
    weft::testing::StateHash rest;
    rest(case_.seed);
    rest(std::uint64_t{s.early_timeouts} << 24 | std::uint64_t{s.losses} << 16 | s.duplicates << 8 | s.overtakes);
    hashes_.fill(rest.value());
    for (std::size_t site = 0; site < sites(); ++site) {
      const std::vector<std::uint64_t>& images = nodes_.spread(s.nodes[site]);
      for (std::uint32_t r = 0; r < count; ++r) hashes_[r] += images[r];
    }
    std::size_t channel = nodes_.channels();
    std::uint64_t ahead = 0;
    for (const Id f : s.flights) {
      const ExplorerNodes::Input& in = nodes_.input(f);
      ahead = case_.any_order || in.channel != channel ? 0 : ahead + 1;
      channel = in.channel;
      for (std::uint32_t r = 0; r < count; ++r) hashes_[r] += spread(in.spread[r] + ahead);
    }
    // Sums of hashes that are spread over all bits: whatever is at another site or place is another summand.
    for (std::uint32_t r = 0; r < count; ++r) hashes_[r] = spread(hashes_[r]);
    return *std::min_element(hashes_.begin(), hashes_.begin() + count);
  }
  [[nodiscard]] static std::uint64_t spread(std::uint64_t v) {
    weft::testing::StateHash h;
    h(v);
    return h.value();
  }
  [[nodiscard]] std::size_t sites() const noexcept { return nodes_.first().size(); }

  template <class Visit>
  void expand(const State& s, Visit&& visit) {
    const auto step = [&](const char* what, Id input, auto&& change) {
      if (violation_) return;
      ++transitions_;
      way_.push_back({what, input, way_.empty() ? decltype(Taken::copies){} : way_.back().copies});
      State next = s;
      change(next);
      copies_ = std::max(copies_, *std::max_element(way_.back().copies.begin(), way_.back().copies.end()));
      if (!violation_) visit(next);
      way_.pop_back();
    };
    std::uint32_t seen = 0, second_seen = 0;  // channels of which a packet, or two, have been looked at
    const std::optional<std::size_t> only = alone(s);
    for (std::size_t i = 0; i < s.flights.size(); ++i) {
      const Id f = s.flights[i];
      const std::size_t c = channel_of(f);
      if (only && c != *only) continue;
      const auto take = [i](State& n) { n.flights.erase(n.flights.begin() + static_cast<std::ptrdiff_t>(i)); };
      if (case_.any_order) {
        const auto at = s.flights.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(s.flights.begin(), at, *at) != at) continue;  // its like has had its turn
      } else if ((seen >> c & 1) != 0) {
        if (s.overtakes == 0 || (second_seen >> c & 1) != 0) continue;
        second_seen |= 1u << c;
        step("overtakes", f, [&](State& n) {
          take(n);
          --n.overtakes;
          arrive(n, f);
        });
        continue;
      }
      seen |= 1u << c;
      step("arrives", f, [&](State& n) {
        take(n);
        arrive(n, f);
      });
      if (s.losses > 0) {
        step("is lost", f, [&](State& n) {
          take(n);
          --n.losses;
        });
      }
      if (s.duplicates > 0) {
        step("arrives, and will again", f, [&](State& n) {
          --n.duplicates;
          arrive(n, f);
        });
      }
    }
    if (s.flights.empty()) quiet_.insert(hash_images(s));
    if (s.flights.empty() || s.early_timeouts > 0) pass_time(s, step);
  }

  /// A channel that leads to a rank, with a packet in it. A rank has no other channel, and this one keeps its order
  /// once no packet may overtake: whatever else happens meanwhile, what happens to its first packet comes to the same.
  /// So it is enough to let that happen first. A fault here may be moved in front of others for the same reason: they
  /// take no more of what is left when they come later. Time must not be ahead of any packet.
  [[nodiscard]] std::optional<std::size_t> alone(const State& s) const {
    if (case_.every_order || case_.any_order || s.overtakes != 0 || s.early_timeouts != 0) return std::nullopt;
    for (const Id f : s.flights) {
      const std::size_t c = channel_of(f);
      if (c % 2 == 1 && nodes_.edge(c / 2).lower < ranks_) return c;
    }
    return std::nullopt;
  }

  template <class Step>
  void pass_time(const State& s, Step&& step) {
    nic::Time next = nic::kNever;
    for (std::size_t site = 0; site < sites(); ++site) next = std::min(next, nodes_.left(s.nodes[site]));
    const bool early = !s.flights.empty();
    if (next == nic::kNever) {
      for (std::size_t site = 0; site < sites(); ++site) {
        require(early || nodes_.done(s.nodes[site]), "in the end everyone is done");
      }
      return;
    }
    const Id time = nodes_.passes(std::max(next, nic::Time{0}));
    step("time passes", time, [&](State& n) {
      n.early_timeouts -= early ? 1 : 0;
      for (std::size_t site = 0; site < sites(); ++site) meet(n, site, time);
    });
  }

  void explore(const State& s, std::uint64_t key, std::uint32_t depth) {
    if (violation_ || cut_short()) return;
    deepest_ = std::max(deepest_, depth);
    if (!seen_.insert(key)) return require(!behind_.contains(key), "no way leads back to where it has been");
    list(s);
    behind_.insert(key);
    expand(s, [&](const State& next) { explore(next, hash(next), depth + 1); });
    behind_.erase(key);
  }

  /// Counts a new state's images.
  void list(const State& s) {
    const std::uint64_t least = hash_images(s);
    const auto end = hashes_.begin() + renamings();
    if (case_.listed) {
      listed_.insert(hashes_[0]);
      orbits_.insert(least);
      images_.insert(hashes_.begin(), end);
    }
    std::sort(hashes_.begin(), end);
    with_images_ += static_cast<std::uint64_t>(std::unique(hashes_.begin(), end) - hashes_.begin());
  }

  void check_nodes() {
    if (nodes_.violation()) require(false, nodes_.violation()->c_str());
  }
  void require(bool condition, const char* what) {
    if (condition || violation_) return;
    violation_ = std::string("not true: ") + what + "; " + case_.name + ":";
    for (const Taken& one : way_) *violation_ += "\n  " + text(one.what, nodes_.input(one.input));
  }
  [[nodiscard]] std::string text(const char* what, const ExplorerNodes::Input& in) const {
    if (in.hash == 0) return what;
    const ExplorerNodes::Edge& e = nodes_.edge(in.channel / 2);
    const auto node = [&](std::size_t n) {
      return n < ranks_ ? "rank " + std::to_string(n) : "switch " + std::to_string(n - ranks_);
    };
    const std::string to = in.channel % 2 == 0 ? node(ranks_ + e.upper) : node(e.lower);
    return std::string(wire::opcode_name(in.packet.opcode)) + " " + std::to_string(in.packet.psn.value()) + " to " +
           to + " " + what;
  }

  ExplorerCase case_;
  std::uint32_t ranks_;
  ExplorerNodes nodes_;
  weft::testing::Fingerprints seen_;
  std::unordered_set<std::uint64_t> behind_;  ///< states on the way here
  std::set<std::uint64_t> quiet_, listed_, orbits_, images_;
  std::array<std::uint64_t, kMostRenamings> hashes_{};  ///< of the images of the state that was hashed last
  struct Taken {
    const char* what;
    Id input;
    std::array<std::uint64_t, kMostSites> copies;  ///< sent on the way here and in this step, by site
  };
  std::vector<Taken> way_;
  std::optional<std::string> violation_;
  std::uint64_t transitions_ = 0, copies_ = 0, with_images_ = 0;
  std::uint32_t deepest_ = 0;
};

}  // namespace weft::inc::testing
