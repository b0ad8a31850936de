// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/stage.h"

#include <memory>

#include "switch/stages/lb_tag/drops.h"
#include "switch/wire/parse.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PortIndex;

namespace {

void parse_again(rte_mbuf* m) noexcept {
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
}

}  // namespace

void LbTagStage::ingress(Context& context, Batch& batch) {
  if (!shared_.is_leaf()) return;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    if (pipeline::meta(m).parsed.destination_port == kTagUdpPort) [[unlikely]]
      receive(context.now, m);
  }
}

void LbTagStage::receive(TimeNs now, rte_mbuf* m) noexcept {
  if (!from_fabric(m)) return count(LbTagCounter::forged);
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  switch (tag_validity(pipeline::frame(m), m->data_len, parsed)) {
    case TagValidity::none:
      return;
    case TagValidity::malformed:
      return count(LbTagCounter::malformed);
    case TagValidity::unknown:
      return count(LbTagCounter::unknown_version);
    case TagValidity::ok:
      break;
  }
  // One that is for another leaf's hosts keeps its tag.
  if (shared_.leaf_of(m) != shared_.self()) return;
  learn(now, m, read_tag(pipeline::frame(m), parsed));
  take_tag_off(pipeline::frame(m), parsed);
  rte_pktmbuf_adj(m, kTagBytes);
  parse_again(m);
  count(LbTagCounter::taken_off);
}

void LbTagStage::learn(TimeNs now, const rte_mbuf* m, const LbTag& tag) noexcept {
  const std::uint16_t leaf = shared_.leaf_of_source(m);
  const bool known = leaf != LeafMap::kNone && leaf != shared_.self() && shared_.id_of(leaf) == tag.leaf;
  if (!known) return count(LbTagCounter::unknown_leaf);
  CongestionTables& congestion = shared_.congestion();
  congestion.on_arrived(leaf, tag.path, tag.congestion, now);
  if (!tag.has_feedback) return;
  const bool own = congestion.on_feedback(leaf, tag.feedback_path, tag.feedback, now);
  count(own ? LbTagCounter::feedback : LbTagCounter::unknown_path);
}

void LbTagStage::egress(Context& context, PortIndex port, Batch& batch) {
  const bool uplink = shared_.path_of(port) != LbTagShared::kNoPath;
  if (shared_.is_leaf() && !uplink) return;
  std::uint32_t bytes = 0;
  for (std::uint16_t i = 0; i < batch.size; ++i) bytes += batch.packet[i]->pkt_len;
  shared_.congestion().on_sent(worker_, port, context.now, bytes);
  shared_.set_now(context.now);
  const std::uint8_t congestion = shared_.congestion().local(port, context.now);
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    if (!uplink || from_fabric(m)) {
      pass_on(congestion, m);
    } else if (!put_on(context.now, port, congestion, m)) {
      context.drop(batch, i, LbTagDrop::forged_tag);
    }
  }
}

// False when the packet must not leave: without a tag around it, the one that a host has forged would be believed.
bool LbTagStage::put_on(TimeNs now, PortIndex port, std::uint8_t congestion, rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (!may_have_tag(parsed)) return true;
  const std::uint16_t leaf = shared_.leaf_of(m);
  if (leaf == LeafMap::kNone || leaf == shared_.self()) return true;
  const bool fits = parsed.l3_length + kTagBytes <= shared_.mtu(port);
  char* const front = fits ? rte_pktmbuf_prepend(m, kTagBytes) : nullptr;
  if (front == nullptr) {
    count(LbTagCounter::no_room);
    return parsed.destination_port != kTagUdpPort;
  }
  LbTag tag{.leaf = shared_.id_of(shared_.self()),
            .path = static_cast<std::uint8_t>(shared_.path_of(port)),
            .congestion = congestion};
  if (const auto feedback = shared_.congestion().next_feedback(leaf, now)) {
    tag.has_feedback = true;
    tag.feedback_path = feedback->path;
    tag.feedback = feedback->metric;
  }
  put_tag_on(pipeline::frame(m), parsed, tag);
  parse_again(m);
  count(LbTagCounter::put_on);
  return true;
}

void LbTagStage::pass_on(std::uint8_t congestion, rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (tag_validity(pipeline::frame(m), m->data_len, parsed) != TagValidity::ok) return;
  raise_congestion(pipeline::frame(m), parsed, congestion);
  count(LbTagCounter::passed_on);
}

pipeline::StageType lb_tag_stage_type() {
  pipeline::StageType type;
  type.name = "lb_tag";
  type.summary = "Tags by which leaves tell each other of the congestion of paths (CONGA).";
  type.has_egress = true;
  type.needs = {"parsed"};
  type.provides = {"congestion"};
  const char* const kWhy = "it reads packets without their tag";
  for (const char* stage : {"rdma_track", "trp", "inc", "l2", "l3"}) type.before.push_back({stage, kWhy});
  type.options = lb_tag_options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/lb_tag/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {LbTagDrop::block()};
  type.check = check_lb_tag_options;
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<LbTagShared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<LbTagStage>(build, dynamic_cast<LbTagShared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
