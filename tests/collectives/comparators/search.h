// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A search through everything that can happen in a small model of another system's slot rules.
//
// A model has a State, which compares by its members and hashes itself; start(); steps(state, visit), which calls
// visit(what, next) for everything that can happen; and wrong(state, last), which says what is not as it must be, where
// `last` means that nothing can happen any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/fingerprints.h"
#include "tests/support/state_hash.h"

namespace weft::inc::comparators {

/// What may go wrong between hosts and switch.
struct Faults {
  std::uint8_t losses = 0;
  std::uint8_t duplicates = 0;
  std::uint8_t early_timeouts = 0;  ///< timers that expire although something is under way
  bool any_order = false;           ///< a packet may overtake any other of its channel
};

/// A packet under way.
struct Flight {
  std::uint8_t channel = 0;
  std::uint8_t packet = 0;   ///< which of a rank's packets this is, or the answer to
  std::uint8_t workers = 0;  ///< whose data is in `value`, a bit each; or the flag of a resend above them
  std::uint16_t value = 0;   ///< two bits for each packet of each worker: how often its data is in

  friend bool operator==(const Flight&, const Flight&) = default;
  [[nodiscard]] std::uint64_t word() const {
    return std::uint64_t{value} << 24 | std::uint64_t{workers} << 16 | std::uint64_t{packet} << 8 | channel;
  }
};

/// What both models have in their states: packets under way, and the faults that are left.
struct Network {
  std::vector<Flight> flights;  ///< those of a channel in their order
  Faults left;

  void put(std::uint8_t channel, std::uint8_t packet, std::uint8_t workers, std::uint16_t value) {
    flights.push_back({channel, packet, workers, value});
  }
  template <class Hash>
  void hash_state(Hash& h, std::uint8_t channels) const {
    for (std::uint8_t c = 0; c < channels; ++c) {
      std::vector<std::uint64_t> words;
      for (const Flight& f : flights) {
        if (f.channel == c) words.push_back(f.word());
      }
      if (left.any_order) {
        h.unordered(words);
      } else {
        for (const std::uint64_t word : words) h(word);
        h(words.size());
      }
    }
    h(std::uint64_t{left.losses} << 16 | std::uint64_t{left.duplicates} << 8 | left.early_timeouts);
  }
  /// Calls visit(what, state) for each way that a packet of `s` may go: it arrives, is lost, or comes twice.
  template <class State, class Arrive, class Visit>
  static void deliver(const State& s, Arrive&& arrive, Visit&& visit) {
    std::uint32_t seen = 0;
    for (std::size_t i = 0; i < s.network.flights.size(); ++i) {
      const Flight f = s.network.flights[i];
      if (!s.network.left.any_order && (seen >> f.channel & 1) != 0) continue;
      seen |= 1u << f.channel;
      const std::string name = " " + std::to_string(f.packet) + " on channel " + std::to_string(f.channel);
      State next = s;
      next.network.flights.erase(next.network.flights.begin() + static_cast<std::ptrdiff_t>(i));
      if (s.network.left.losses > 0) {
        State lost = next;
        --lost.network.left.losses;
        visit("lost:" + name, lost);
      }
      if (s.network.left.duplicates > 0) {
        State twice = s;
        --twice.network.left.duplicates;
        arrive(twice, f);
        visit("arrives, and will again:" + name, twice);
      }
      arrive(next, f);
      visit("arrives:" + name, next);
    }
  }
};

/// Timers: all who wait when nothing is under way, or one of them too early. resend(state, worker) returns false when
/// this worker does not wait.
template <class State, class Resend, class Visit>
void timeouts(const State& s, Resend&& resend, Visit&& visit) {
  const bool early = !s.network.flights.empty();
  if (early && s.network.left.early_timeouts == 0) return;
  State all = s;
  bool any = false;
  for (std::uint8_t w = 0; w < s.workers.size(); ++w) {
    if (!early) {
      any |= resend(all, w);
      continue;
    }
    State one = s;
    --one.network.left.early_timeouts;
    if (resend(one, w)) visit("worker " + std::to_string(w) + " sends again too early", one);
  }
  if (any) visit("all who wait send again", all);
}

/// What a search found.
struct Found {
  std::string violation;  ///< and the way to it; empty when there is none
  std::uint64_t states = 0, transitions = 0;
};

template <class Model>
class Search {
 public:
  explicit Search(Model model) : model_(std::move(model)) {}

  Found run() {
    visit(model_.start());
    found_.states = seen_.size();
    return found_;
  }

 private:
  using State = typename Model::State;

  void visit(const State& s) {
    weft::testing::StateHash h;
    model_.hash_state(s, h);
    if (!found_.violation.empty()) return;
    if (!seen_.insert(h.value())) {
      // Losses and timeouts that come too early are counted: who asks again must get on.
      if (behind_.contains(h.value())) judge("it goes round for ever");
      return;
    }
    behind_.insert(h.value());
    bool last = true;
    judge(model_.wrong(s, false));
    model_.steps(s, [&](const std::string& what, const State& next) {
      last = false;
      if (!found_.violation.empty()) return;
      ++found_.transitions;
      way_.push_back(what);
      visit(next);
      way_.pop_back();
    });
    if (last) judge(model_.wrong(s, true));
    behind_.erase(h.value());
  }
  void judge(const std::optional<std::string>& wrong) {
    if (!wrong || !found_.violation.empty()) return;
    found_.violation = *wrong + ":";
    for (const std::string& step : way_) found_.violation += "\n  " + step;
  }

  Model model_;
  weft::testing::Fingerprints seen_;
  std::unordered_set<std::uint64_t> behind_;  ///< states on the way here
  std::vector<std::string> way_;
  Found found_;
};

}  // namespace weft::inc::comparators
