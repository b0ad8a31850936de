// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/suggest.h"

#include <algorithm>
#include <cstddef>

namespace weft::config {
namespace {

constexpr std::size_t kMaxQuoted = 40;
constexpr std::size_t kMaxCompared = 64;
constexpr std::size_t kMaxListed = 32;

// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// Lower case, '-' as '_': the differences that people make most.
std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "'";
  std::size_t length = 0;
  for (const char c : text) {
    // Continuation bytes of UTF-8 belong to the character before them.
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && ++length > kMaxQuoted) return out + "...'";
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    out += control ? '?' : c;
  }
  return out + "'";
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size() && i < kMaxListed; ++i) out += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > kMaxListed) out += ", ...";
  return out;
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kMaxCompared) return {};
  const std::string wanted = folded(word);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    if (candidate.size() > kMaxCompared) continue;
    std::size_t d = distance(wanted, folded(candidate));
    // 'mtu' for 'mtu_bytes': the unit was forgotten, or another one was written.
    if (d > 0 && candidate.size() > word.size() + 1 && candidate.starts_with(word) && candidate[word.size()] == '_')
      d = 1;
    if (d >= best_distance || d >= std::max(candidate.size(), std::size_t{2})) continue;
    best = candidate;
    best_distance = d;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string guess = closest(word, candidates);
  if (!guess.empty()) return "; did you mean '" + guess + "'?";
  return candidates.empty() ? "" : "; known: " + joined(candidates);
}

}  // namespace weft::config
