// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives of all kinds that all ranks of a group post at once, with what must come of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/comm/group.h"
#include "switch/base/rng.h"
#include "tests/collectives/comm/world.h"

namespace weft::inc::comm::testing {

/// Several collectives of all kinds, one behind the other. Programs change what they gave when a collective is over.
class Sequence {
 public:
  using Vector = std::vector<std::int32_t>;
  using Groups = std::vector<std::unique_ptr<Group>>;

  /// @param fewest, most  elements of a collective
  Sequence(const Groups& groups, Rng& rng, std::uint32_t length, std::uint32_t fewest, std::uint32_t most)
      : groups_(groups), ranks_(static_cast<std::uint32_t>(groups.size())) {
    for (std::uint32_t i = 0; i < length; ++i) {
      const auto kind = static_cast<Collective>(rng.below(kCollectives));
      const auto root = static_cast<std::uint32_t>(rng.below(ranks_));
      add({kind, fewest + static_cast<std::uint32_t>(rng.below(most + 1 - fewest)), root, rng.below(2) == 0});
    }
  }
  bool all_over() const {
    return std::all_of(requests_.begin(), requests_.end(), [](const auto& of) { return testing::all_over(of); });
  }
  /// To be called from time to time.
  void spoil() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (std::uint32_t r = 0; r < ranks_; ++r) {
        if (!over(requests_[i][r]) || !before_[i][r].empty()) continue;
        before_[i][r] = result(i, r);
        in_[i][r].assign(in_[i][r].size(), -1);
        out_[i][r].assign(out_[i][r].size(), -1);
      }
    }
  }
  void expect_results(std::uint64_t seed) {
    spoil();
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (std::uint32_t r = 0; r < ranks_; ++r) {
        ASSERT_EQ(requests_[i][r]->error, "") << "seed " << seed << " step " << i;
        EXPECT_EQ(before_[i][r], expected(i, r)) << "seed " << seed << " step " << i << " rank " << r;
      }
    }
  }

 private:
  struct Step {
    Collective kind;
    std::uint32_t count, root;
    bool in_place;
  };
  static std::int32_t value(std::uint32_t rank, std::size_t step, std::size_t at) {
    return static_cast<std::int32_t>(rank * 1000 + step * 10 + at % 7);
  }
  void add(const Step& step) {
    const std::size_t i = steps_.size();
    const bool scatters = step.kind == Collective::reduce_scatter, gathers = step.kind == Collective::allgather;
    steps_.push_back(step);
    in_.emplace_back(ranks_, Vector(std::size_t{step.count} * (scatters ? ranks_ : 1)));
    out_.emplace_back(ranks_, Vector(std::size_t{step.count} * (gathers ? ranks_ : 1)));
    before_.emplace_back(ranks_);
    requests_.emplace_back();
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      Vector& in = in_[i][r];
      for (std::size_t at = 0; at < in.size(); ++at) in[at] = value(r, i, at);
      const std::size_t block = std::size_t{r} * step.count;
      std::int32_t* send = in.data();
      std::int32_t* receive = out_[i][r].data();
      if (step.in_place && gathers) send = std::copy(in.begin(), in.end(), receive + block) - step.count;
      if (step.in_place && !gathers) receive = send + (scatters ? block : 0);
      if (step.kind == Collective::broadcast) receive = send;
      const Call call{step.kind, send, receive, step.count, DataType::int32, Op::sum, step.root};
      requests_[i].push_back(groups_[r]->post(step.kind == Collective::barrier ? Call{step.kind} : call));
    }
  }
  Vector result(std::size_t i, std::uint32_t r) const {
    const Step& step = steps_[i];
    const bool none = step.kind == Collective::barrier || (step.kind == Collective::reduce && step.root != r);
    if (none) return {0};
    const bool in_place = step.in_place && step.kind != Collective::allgather;
    if (!in_place && step.kind != Collective::broadcast) return out_[i][r];
    const std::size_t block = step.kind == Collective::reduce_scatter ? std::size_t{r} * step.count : 0;
    return {in_[i][r].begin() + static_cast<std::ptrdiff_t>(block),
            in_[i][r].begin() + static_cast<std::ptrdiff_t>(block + step.count)};
  }
  Vector expected(std::size_t i, std::uint32_t r) const {
    const Step& step = steps_[i];
    const bool gathers = step.kind == Collective::allgather;
    if (step.kind == Collective::barrier || (step.kind == Collective::reduce && step.root != r)) return {0};
    Vector out(step.count * (gathers ? ranks_ : 1));
    for (std::size_t at = 0; at < out.size(); ++at) {
      const std::size_t from = step.kind == Collective::reduce_scatter ? r * step.count + at : at;
      if (gathers) out[at] = value(static_cast<std::uint32_t>(at / step.count), i, at % step.count);
      if (step.kind == Collective::broadcast) out[at] = value(step.root, i, at);
      if (gathers || step.kind == Collective::broadcast) continue;
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) out[at] += value(rank, i, from);
    }
    return out;
  }

  const Groups& groups_;
  const std::uint32_t ranks_;
  std::vector<Step> steps_;
  std::vector<std::vector<Vector>> in_, out_, before_;
  std::vector<std::vector<std::shared_ptr<Request>>> requests_;
};

}  // namespace weft::inc::comm::testing
