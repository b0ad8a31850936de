// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which ranks and switches of a case may change places without anybody noticing: two ranks at one switch, the two of a
// leaf, the leaves with all that is below them; but whoever is a root stays where it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/collectives/engine/explorer_case.h"

namespace weft::inc::testing {

/// An end of channels: a rank, or the number of ranks and a switch.
using Site = std::size_t;

/// Who takes whose place: `sites[s]` is where the one at s goes, `channels[c]` where the packets of channel c go.
/// Channel 2 i leads up edge i, 2 i + 1 down; the edges of ranks come first, in their order, then those of leaves.
struct Renaming {
  std::vector<Site> sites;
  std::vector<std::size_t> channels;
};

/// The group of a case, the identity first. A renaming comes with what it is after each other one.
struct Symmetry {
  std::vector<Renaming> renamings;
  std::vector<std::vector<std::uint32_t>> after;  ///< after[a][b]: first b, then a

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(renamings.size()); }
};

/// Where the ranks go, what follows for switches and channels. Ranks of one leaf must stay together.
inline Renaming renaming_of(const std::vector<std::size_t>& ranks, bool tree) {
  Renaming r{{ranks.begin(), ranks.end()}, {}};
  if (!tree) {
    r.sites.push_back(2);
  } else {
    for (std::size_t leaf = 0; leaf < 2; ++leaf) r.sites.push_back(4 + ranks[2 * leaf] / 2);
    r.sites.push_back(6);
  }
  // All but the last site have an edge that leads up from them.
  for (std::size_t below = 0; below + 1 < r.sites.size(); ++below) {
    for (std::size_t way = 0; way < 2; ++way) r.channels.push_back(2 * r.sites[below] + way);
  }
  return r;
}

/// All renamings that change nothing of what a case's ranks run; only the identity when `none`.
inline Symmetry symmetry_of(const ExplorerCase& c, bool none) {
  Symmetry s;
  std::vector<std::size_t> ranks(c.ranks());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  do {
    const bool roots_stay = std::all_of(c.program.begin(), c.program.end(), [&](const Step& step) {
      const bool has_root = step.primitive == Primitive::reduce || step.primitive == Primitive::broadcast;
      return !has_root || ranks[step.root] == step.root;
    });
    const bool leaves_stay_whole = !c.tree || (ranks[0] / 2 == ranks[1] / 2 && ranks[2] / 2 == ranks[3] / 2);
    if (roots_stay && leaves_stay_whole) s.renamings.push_back(renaming_of(ranks, c.tree));
  } while (!none && std::next_permutation(ranks.begin(), ranks.end()));
  for (const Renaming& a : s.renamings) {
    std::vector<std::uint32_t>& row = s.after.emplace_back();
    for (const Renaming& b : s.renamings) {
      const auto both = std::find_if(s.renamings.begin(), s.renamings.end(), [&](const Renaming& one) {
        for (std::size_t p = 0; p < one.sites.size(); ++p) {
          if (one.sites[p] != a.sites[b.sites[p]]) return false;
        }
        return true;
      });
      row.push_back(static_cast<std::uint32_t>(both - s.renamings.begin()));
    }
  }
  return s;
}

}  // namespace weft::inc::testing
