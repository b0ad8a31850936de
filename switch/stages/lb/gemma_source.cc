// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_source.h"

namespace weft::stages {

GemmaFlow& GemmaSource::entry(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept {
  const auto [flow, known] = find_flow(entries_, place, key, is_free);
  const bool live = is_live(*flow, now);
  if (known && live) return *flow;
  if (live) ++counts_.evicted;
  *flow = {.key = key};
  return *flow;
}

// Any packet. Those that on_packet() has not decided about may begin something.
std::uint16_t GemmaSource::on_turn(TimeNs now, const FlowKey& key, std::uint32_t place, GemmaPaths& paths) noexcept {
  GemmaFlow& flow = entry(now, key, place);
  const bool begins = is_free(flow);
  flow.last = now;
  if (begins || !paths.up(flow.path)) {
    flow.path = draw(paths);
    // An entry without a path is free again.
    if (flow.path == GemmaPaths::kNone) return flow.path;
    ++(begins ? counts_.flows : counts_.cut);
    flow.score = paths.score(flow.path);
    return flow.path;
  }
  flow.score = paths.score(flow.path);
  if (flow.score > rules_.reroute_bytes) {
    reroute(now, flow, paths);
  } else {
    ++counts_.smooth;
  }
  return flow.path;
}

// The path of a flow that has none: each of those that it may take is as likely as the others.
std::uint16_t GemmaSource::draw(GemmaPaths& paths) const noexcept {
  std::uint16_t drawn = GemmaPaths::kNone;
  std::uint64_t least = 0;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    const std::uint16_t path = paths.at(i);
    if (!paths.up(path)) continue;
    // How bad it is: only paths that are equally bad are drawn among.
    std::uint64_t score = rules_.first == GemmaFirst::any ? 0 : paths.score(path);
    if (rules_.first == GemmaFirst::smooth) score = score > rules_.reroute_bytes ? 1 : 0;
    if (drawn != GemmaPaths::kNone && score > least) continue;
    seen = drawn != GemmaPaths::kNone && score == least ? seen + 1 : 1;
    least = score;
    if (paths.below(seen) == 0) drawn = path;
  }
  return drawn;
}

void GemmaSource::reroute(TimeNs now, GemmaFlow& flow, GemmaPaths& paths) noexcept {
  if (flow.reroutes != 0 && now - flow.rerouted_at < rules_.guard_ns) {
    ++counts_.guarded;
    return;
  }
  std::uint16_t best = GemmaPaths::kNone;
  std::uint64_t least = 0;
  std::uint32_t equals = 0;
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    const std::uint16_t path = paths.at(i);
    if (path == flow.path || !paths.up(path)) continue;
    const std::uint64_t other = paths.score(path);
    if (other > rules_.reroute_bytes && other + rules_.gap_bytes >= flow.score) continue;
    if (best != GemmaPaths::kNone && other > least) continue;
    equals = best != GemmaPaths::kNone && other == least ? equals + 1 : 1;
    least = other;
    if (equals == 1 || paths.below(equals) == 0) best = path;
  }
  if (best == GemmaPaths::kNone) {
    ++counts_.stays;
    return;
  }
  flow.path = best;
  flow.score = least;
  flow.rerouted_at = now;
  ++flow.reroutes;
  ++counts_.reroutes;
}

void GemmaSource::adopt(GemmaSource& old) noexcept {
  if (old.entries_.size() == entries_.size()) return entries_.swap(old.entries_);
  for (const GemmaFlow& flow : old.entries_) {
    if (!is_free(flow)) *find_flow(entries_, flow_place(entries_, flow.key), flow.key, is_free).entry = flow;
  }
}

}  // namespace weft::stages
