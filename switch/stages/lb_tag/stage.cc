// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/stage.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "switch/stages/lb_tag/drops.h"
#include "switch/wire/parse.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PortIndex;

LbTagStage::LbTagStage(const pipeline::StageBuild& build, LbTagShared& shared)
    : shared_(shared), worker_(build.worker) {
  if (shared.options().conweave) conweave_.emplace(shared, build.worker);
  if (shared.options().gemma) gemma_.emplace(shared, build.info, build.worker);
}

void LbTagStage::ingress(Context& context, Batch& batch) {
  if (!shared_.is_leaf() && shared_.options().uplinks.empty() && !gemma_) return;
  ConweaveLeaf::Burst burst(context, conweave_ ? &*conweave_ : nullptr);
  TakenOff off;
  bool any = false;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    if (pipeline::meta(m).parsed.destination_port != kTagUdpPort) [[likely]]
      continue;
    any = true;
    const Fate fate = receive(context.now, m, i, off);
    if (fate == Fate::consumed) context.consume(batch, i);
  }
  if (off.size != 0) go_on(burst, batch, off);
  if (!any || !conweave_) return;
  conweave_->publish(counters_);
  context.at(next_deadline());
}

// Packets whose tags are off go on. They are read when all tags of the burst are off, and not one by one: the parser
// loads headers in large pieces, which waits for the cache where they have just been written in small ones.
void LbTagStage::go_on(ConweaveLeaf::Burst& burst, Batch& batch, const TakenOff& off) noexcept {
  for (std::uint16_t k = 0; k < off.size; ++k) {
    rte_mbuf* m = batch.packet[off.packet[k].at];
    wire::Parsed& parsed = pipeline::meta(m).parsed;
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, parsed);
    if (conweave_) conweave_->prefetch(parsed);
  }
  counters_.add(LbTagCounter::taken_off, off.size);
  if (!conweave_) return;
  for (std::uint16_t k = 0; k < off.size; ++k) {
    const auto& [header, from, at] = off.packet[k];
    if (from == LeafMap::kNone) continue;
    if (!conweave_->arrived(burst, batch.packet[at], from, read_conweave(header), counters_)) batch.remove(at);
  }
}

LbTagStage::Fate LbTagStage::receive(TimeNs now, rte_mbuf* m, std::uint16_t at, TakenOff& off) noexcept {
  const auto stays = [&](LbTagCounter why) {
    count(why);
    return Fate::stays;
  };
  const bool leaf = shared_.is_leaf();
  if (!from_fabric(m)) return leaf ? stays(LbTagCounter::forged) : receive_from_below(now, m);
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  switch (tag_validity(pipeline::frame(m), m->data_len, parsed)) {
    case TagValidity::none:
      return Fate::stays;
    case TagValidity::malformed:
      return stays(LbTagCounter::malformed);
    case TagValidity::unknown:
      return stays(LbTagCounter::unknown_version);
    case TagValidity::ok:
      break;
  }
  const TagKind kind = tag_kind(pipeline::frame(m), parsed);
  if (kind == TagKind::gemma_report) return take_report(now, m);
  // A packet to hosts of another leaf keeps its tag.
  if (!leaf || shared_.leaf_of(m) != shared_.self()) return Fate::stays;
  if (kind == TagKind::conweave_reply) {
    take_answer(now, m);
    return Fate::consumed;
  }
  take_off(now, m, at, off);
  return Fate::stays;
}

// Of what comes from below a switch that is no leaf takes reports alone.
LbTagStage::Fate LbTagStage::receive_from_below(TimeNs now, const rte_mbuf* m) noexcept {
  const pipeline::PacketMeta& pm = pipeline::meta(m);
  if (shared_.downlink_of(pm.in_port) == LbTagShared::kNoPath) return Fate::stays;
  const std::uint8_t* const frame = pipeline::frame(m);
  const bool report = tag_validity(frame, m->data_len, pm.parsed) == TagValidity::ok &&
                      tag_kind(frame, pm.parsed) == TagKind::gemma_report;
  return report ? take_report(now, m) : Fate::stays;
}

void LbTagStage::take_off(TimeNs now, rte_mbuf* m, std::uint16_t at, TakenOff& off) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const std::uint8_t* const frame = pipeline::frame(m);
  const LbTagHeader header = tag_header(frame, parsed);
  const TagKind kind = tag_kind(frame, parsed);
  const std::uint16_t from = sender(m, header.leaf.value());
  if (from != LeafMap::kNone && kind == TagKind::conga) learn(now, from, read_tag(frame, parsed));
  off.packet[off.size++] = {header, kind == TagKind::conweave ? from : LeafMap::kNone, at};
  take_tag_off(pipeline::frame(m), parsed);
  rte_pktmbuf_adj(m, kTagBytes);
}

LbTagStage::Fate LbTagStage::take_report(TimeNs now, const rte_mbuf* m) noexcept {
  if (gemma_) return gemma_->take(now, m, counters_) ? Fate::consumed : Fate::stays;
  count(LbTagCounter::unknown_version);
  return Fate::stays;
}

// Reads another leaf's answer. It ends here, whether it can be used or not.
void LbTagStage::take_answer(TimeNs now, const rte_mbuf* m) noexcept {
  const LbTagHeader header = tag_header(pipeline::frame(m), pipeline::meta(m).parsed);
  const std::uint16_t from = sender(m, header.leaf.value());
  if (from == LeafMap::kNone) return;
  const auto answer = read_answer(header);
  if (!answer) return count(LbTagCounter::unknown_version);
  if (!conweave_) return count(LbTagCounter::conweave_stray_replies);
  conweave_->answered(now, m, from, *answer, counters_);
}

// The leaf that the packet says it comes from, if its source is behind that; LeafMap::kNone otherwise.
std::uint16_t LbTagStage::sender(const rte_mbuf* m, std::uint16_t id) noexcept {
  const std::uint16_t leaf = shared_.leaf_of_source(m);
  if (leaf != LeafMap::kNone && leaf != shared_.self() && shared_.id_of(leaf) == id) return leaf;
  count(LbTagCounter::unknown_leaf);
  return LeafMap::kNone;
}

void LbTagStage::learn(TimeNs now, std::uint16_t leaf, const LbTag& tag) noexcept {
  CongestionTables& congestion = shared_.congestion();
  congestion.on_arrived(leaf, tag.path, tag.congestion, now);
  if (!tag.has_feedback) return;
  const bool own = congestion.on_feedback(leaf, tag.feedback_path, tag.feedback, now);
  count(own ? LbTagCounter::feedback : LbTagCounter::unknown_path);
}

void LbTagStage::on_timer(Context& context, std::uint32_t) {
  if (gemma_) gemma_->on_timer(context, counters_);
  if (conweave_) {
    conweave_->on_timer(context);
    conweave_->publish(counters_);
  }
  context.at(next_deadline());
}

void LbTagStage::on_mail(Context& context) {
  conweave_->read_mail(context.now);
  conweave_->publish(counters_);
}

void LbTagStage::flush(Context& context) {
  if (!conweave_) return;
  conweave_->flush(context);
  conweave_->publish(counters_);
}

void LbTagStage::adopt(Context&, pipeline::Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<LbTagStage&>(old_stage);
  if (!adoption.same_options || !adoption.ports.identity()) return;
  if (conweave_ && old.conweave_) conweave_->adopt(*old.conweave_);
  if (gemma_ && old.gemma_) gemma_->adopt(*old.gemma_);
}

std::vector<std::string_view> LbTagStage::tables() const {
  if (!conweave_) return {};
  return {"conweave"};
}

nlohmann::ordered_json LbTagStage::rows(std::string_view, std::uint64_t& cursor, std::size_t max) const {
  return conweave_->rows(cursor, max);
}

void LbTagStage::egress(Context& context, PortIndex port, Batch& batch) {
  const bool uplink = shared_.path_of(port) != LbTagShared::kNoPath;
  if (shared_.is_leaf() && !uplink) return;
  if (gemma_) return wrap_forged(context, port, batch);
  std::uint32_t bytes = 0;
  for (std::uint16_t i = 0; i < batch.size; ++i) bytes += batch.packet[i]->pkt_len;
  shared_.congestion().on_sent(worker_, port, context.now, bytes);
  shared_.set_now(context.now);
  const std::uint8_t congestion = shared_.congestion().local(port, context.now);
  Uplink out = uplink_of(port, congestion);
  // Nobody has touched the bytes in front of packets yet.
  for (std::uint16_t i = 0; uplink && i < batch.size; ++i) {
    __builtin_prefetch(pipeline::frame(batch.packet[i]) - kTagBytes, 1);
  }
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    if (!uplink || from_fabric(m)) {
      pass_on(congestion, m);
    } else if (mark_.own(m)) {
      mark_.clear(m);
    } else if (!put_on(context.now, out, m)) {
      context.drop(batch, i, LbTagDrop::forged_tag);
    }
  }
  count_put_on(out);
}

LbTagStage::Uplink LbTagStage::uplink_of(PortIndex port, std::uint8_t congestion) const noexcept {
  if (!shared_.is_leaf()) return {};
  return {.self = shared_.id_of(shared_.self()),
          .path = static_cast<std::uint8_t>(shared_.path_of(port)),
          .congestion = congestion,
          .mtu = shared_.mtu(port)};
}

// Gemma needs no tags. But a tag that a host has forged is put inside a real one: other leaves might believe it.
void LbTagStage::wrap_forged(Context& context, PortIndex port, Batch& batch) noexcept {
  if (!shared_.is_leaf()) return;
  Uplink out = uplink_of(port, 0);
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    if (pipeline::meta(m).parsed.destination_port != kTagUdpPort || from_fabric(m)) continue;
    if (!put_on(context.now, out, m)) context.drop(batch, i, LbTagDrop::forged_tag);
  }
  count_put_on(out);
}

// False when a host has forged a tag and there is no room for a real one around it: other leaves would believe it.
bool LbTagStage::put_on(TimeNs now, Uplink& out, rte_mbuf* m) noexcept {
  wire::Parsed& parsed = pipeline::meta(m).parsed;
  const auto conweave = mark_.tag(m);
  mark_.clear(m);
  if (!may_have_tag(parsed)) return true;
  const std::uint16_t leaf = shared_.leaf_of(m);
  if (leaf == LeafMap::kNone || leaf == shared_.self()) return true;
  const bool fits = parsed.l3_length + kTagBytes <= out.mtu;
  char* const front = fits ? rte_pktmbuf_prepend(m, kTagBytes) : nullptr;
  if (front == nullptr) {
    count(LbTagCounter::no_room);
    return parsed.destination_port != kTagUdpPort;
  }
  ++out.put_on;
  if (conweave) {
    put_tag_on(pipeline::frame(m), parsed, ConweaveLabel{out.self, out.path, *conweave});
  } else {
    LbTag tag{.leaf = out.self, .path = out.path, .congestion = out.congestion};
    if (const auto feedback = shared_.congestion().next_feedback(leaf, now)) {
      tag.has_feedback = true;
      tag.feedback_path = feedback->path;
      tag.feedback = feedback->metric;
    }
    put_tag_on(pipeline::frame(m), parsed, tag);
  }
  note_tag_on(parsed);
  return true;
}

void LbTagStage::pass_on(std::uint8_t congestion, rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (tag_validity(pipeline::frame(m), m->data_len, parsed) != TagValidity::ok) return;
  if (tag_kind(pipeline::frame(m), parsed) == TagKind::conga) {
    raise_congestion(pipeline::frame(m), parsed, congestion);
  }
  count(LbTagCounter::passed_on);
}

pipeline::StageType lb_tag_stage_type() {
  pipeline::StageType type;
  type.name = "lb_tag";
  type.summary =
      "What switches tell each other for lb: tags of paths (CONGA) and of flows (ConWeave), reports of queues (Gemma).";
  type.has_egress = true;
  type.needs = {"parsed"};
  type.provides = {"congestion"};
  const char* const kWhy = "it reads packets without their tag";
  for (const char* stage : {"rdma_track", "trp", "l2", "l3"}) type.before.push_back({stage, kWhy});
  // At the egress, the other one would meet packets that have their tags already. Gemma needs no tags.
  type.option_order = [](const config::Value& options) -> std::vector<pipeline::OptionOrder> {
    if (options.has("gemma")) return {};
    pipeline::OptionOrder tags;
    tags.what = "tags of lb_tag";
    tags.excludes = {{"pnp", "it looks for marked RoCE packets, which tags hide"}};
    return {tags};
  };
  type.holds_packets = true;
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
