// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/activity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace weft::inc_tool {

using inc::v1::ShowActivityReply;
using nlohmann::ordered_json;

namespace {

using Group = ShowActivityReply::Group;
using Switch = ShowActivityReply::Switch;

const Switch* root_of(const Group& g) {
  for (const Switch& s : g.switches()) {
    if (s.root() && s.answers()) return &s;
  }
  return nullptr;
}

/// The root of the same group as it was.
const Switch* root_before(const ShowActivityReply* before, const Group& g) {
  if (before == nullptr) return nullptr;
  for (const Group& old : before->groups()) {
    if (old.group() == g.group() && old.generation() == g.generation()) return root_of(old);
  }
  return nullptr;
}

/// A counter that is smaller than before is that of a switch which was started again.
ordered_json rate(std::uint64_t now, std::uint64_t before, double seconds, double unit) {
  if (now < before || seconds <= 0) return nullptr;
  return static_cast<double>(now - before) / seconds / unit;
}

std::string list_of(const std::set<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// Switches for which nothing moves because others wait come last: who is to blame is a rank, or who does not answer.
std::string waits_for(const Group& g) {
  std::set<std::uint32_t> ranks;
  std::set<std::string> silent, others;
  for (const Switch& s : g.switches()) {
    ranks.insert(s.waits_for_ranks().begin(), s.waits_for_ranks().end());
    if (!s.answers()) silent.insert(s.name() + " (no answer)");
    if (!s.waits_for().empty()) others.insert(s.name() + " for " + s.waits_for());
  }
  std::string out = list_of(silent);
  for (const std::uint32_t rank : ranks) {
    out += (out.empty() ? "rank " : ", rank ") + std::to_string(rank);
    if (rank < static_cast<std::uint32_t>(g.hosts_size())) out += " (" + g.hosts(static_cast<int>(rank)) + ")";
  }
  return out.empty() ? list_of(others) : out;
}

/// What the switch has to say that waits for the longest time; nullptr: none waits.
const Switch* longest_wait(const Group& g) {
  const Switch* longest = nullptr;
  for (const Switch& s : g.switches()) {
    if (s.waits_for().empty()) continue;
    const bool blamed = longest != nullptr && longest->waits_for_ranks_size() > 0;
    const bool blames = s.waits_for_ranks_size() > 0;
    if (longest == nullptr || blames > blamed || (blames == blamed && s.still_ms() > longest->still_ms())) longest = &s;
  }
  return longest;
}

std::string state_of(const Group& g) {
  for (const Switch& s : g.switches()) {
    if (s.state().starts_with("failed")) return s.name() + ": " + s.state();
  }
  const Switch* waits = longest_wait(g);
  return waits == nullptr ? "" : waits->collective();
}

}  // namespace

std::vector<ordered_json> activity_rows(const ShowActivityReply& now, const ShowActivityReply* before) {
  std::vector<ordered_json> rows;
  const double seconds =
      before == nullptr || now.at_ns() < before->at_ns() ? 0 : static_cast<double>(now.at_ns() - before->at_ns()) / 1e9;
  for (const Group& g : now.groups()) {
    ordered_json row{{"group", g.group()},      {"ranks", g.hosts_size()},   {"collectives_per_s", nullptr},
                     {"mbytes_per_s", nullptr}, {"collective", state_of(g)}, {"waits_for", waits_for(g)},
                     {"still_s", nullptr}};
    const Switch* root = root_of(g);
    const Switch* old = root_before(before, g);
    if (root != nullptr && old != nullptr) {
      row["collectives_per_s"] = rate(root->collectives(), old->collectives(), seconds, 1);
      row["mbytes_per_s"] = rate(root->completed_bytes(), old->completed_bytes(), seconds, 1e6);
    }
    const Switch* waits = longest_wait(g);
    if (waits != nullptr) row["still_s"] = static_cast<double>(waits->still_ms()) / 1e3;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace weft::inc_tool
