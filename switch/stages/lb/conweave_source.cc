// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_source.h"

namespace weft::stages {

// The flow's entry, or the one that takes the place of another: with state `free` then.
ConweaveFlow& ConweaveSource::entry(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept {
  const auto [flow, known] = find_flow(entries_, place, key, is_free);
  if (known) return *flow;
  if (is_live(*flow, now)) ++counts_.evicted;
  *flow = {.key = key, .last = now};
  return *flow;
}

// Any packet. Those that on_packet() has not decided about may begin something.
ConweaveSource::Choice ConweaveSource::on_turn(TimeNs now, const FlowKey& key, std::uint32_t place,
                                               ConweavePaths& paths) noexcept {
  ConweaveFlow& flow = entry(now, key, place);
  const bool expired = !is_live(flow, now) || !paths.up(flow.path);
  flow.last = now;
  if (expired) {
    const std::uint16_t drawn = paths.draw();
    if (drawn != ConweavePaths::kNone) flow.path = drawn;
    if (!paths.up(flow.path)) flow.path = paths.any();
    return begin_epoch(now, flow);
  }
  if (flow.state == State::stable) return begin_epoch(now, flow);
  if (flow.state == State::rerouted) {
    if (now <= flow.deadline) {
      return {flow.path,
              {.epoch = flow.epoch, .rerouted = true, .sent = ConweaveTime::of(now), .tail_sent = flow.tail_sent}};
    }
    ++counts_.lost_clears;
    return begin_epoch(now, flow);
  }
  const std::uint16_t before = flow.path;
  const bool tail = now > flow.deadline && reroute(now, flow, paths);
  return {before, {.epoch = flow.epoch, .tail = tail, .sent = ConweaveTime::of(now)}};
}

ConweaveSource::Choice ConweaveSource::begin_epoch(TimeNs now, ConweaveFlow& flow) noexcept {
  ++flow.epoch;
  ++counts_.epochs;
  flow.state = State::asked;
  flow.deadline = now + rules_.reply_ns;
  return {flow.path, {.epoch = flow.epoch, .request = true, .sent = ConweaveTime::of(now)}};
}

bool ConweaveSource::reroute(TimeNs now, ConweaveFlow& flow, ConweavePaths& paths) noexcept {
  const std::uint16_t drawn = paths.draw();
  if (drawn == ConweavePaths::kNone || drawn == flow.path) {
    ++counts_.stays;
    return false;
  }
  flow.path = drawn;
  flow.state = State::rerouted;
  flow.tail_sent = ConweaveTime::of(now);
  flow.deadline = now + rules_.expiry_ns;
  ++flow.reroutes;
  ++counts_.reroutes;
  return true;
}

void ConweaveSource::on_reply(TimeNs now, const FlowKey& key, const ConweaveReply& reply) noexcept {
  const State awaited = reply.kind == ConweaveReply::Kind::clear ? State::rerouted : State::asked;
  ConweaveFlow* const flow = known_flow(entries_, flow_place(entries_, key), key, is_free);
  const bool awaits = flow != nullptr && flow->state == awaited && flow->epoch == reply.epoch;
  if (!awaits || reply.kind == ConweaveReply::Kind::notify) {
    ++counts_.stray_replies;
  } else if (now > flow->deadline) {
    ++counts_.late_replies;
  } else {
    flow->state = State::stable;
    ++counts_.replies;
  }
}

}  // namespace weft::stages
