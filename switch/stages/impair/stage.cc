// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/stage.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "switch/pipeline/egress_queue.h"
#include "switch/stages/impair/config.h"
#include "switch/stages/impair/drops.h"
#include "switch/stages/impair/flip.h"
#include "switch/stages/impair/set.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PacketMeta;
using What = ImpairStep::What;

ImpairFields fields_of(const rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  return {pm.parsed, pipeline::frame(m), m->pkt_len, pm.in_port, pm.out_port};
}

}  // namespace

ImpairStage::ImpairStage(ImpairUnit rules, std::size_t max_held) : rules_(std::move(rules)), queue_(max_held) {}

// Resumed packets follow the batch, so once one has been resumed, all that come behind it are resumed as well.
void ImpairStage::ingress(Context& context, Batch& batch) {
  if (rules_.empty() && queue_.empty()) return;
  // What is due goes first, even when its timer is late: otherwise these packets would overtake it.
  const bool released = release_due(context);
  const bool late = queue_.next() <= context.now;
  bool resuming = released || late;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const ImpairStep step = rules_.on_packet(context.now, fields_of(batch.packet[i]), context.rng);
    if (step.what == What::pass && !resuming) [[likely]]
      continue;
    rte_mbuf* passed[kMaxCopies];
    const std::size_t count = carry_out(context, batch.packet[i], step, passed);
    if (count == 1 && !resuming) {
      batch.packet[i] = passed[0];
      continue;
    }
    resuming = resuming || count > 1;
    batch.remove(i);
    for (std::size_t k = 0; k < count; ++k) {
      if (!late || !stand_in_line(context.now, passed[k])) context.resume(passed[k]);
    }
  }
  context.at(queue_.next());
}

// Carries out one step and the rules after it, for the packet and its copies. Fills `passed` with the packets that may
// continue now, in order, and returns their number.
std::size_t ImpairStage::carry_out(Context& context, rte_mbuf* m, const ImpairStep& first, rte_mbuf** passed) noexcept {
  Copies copies;
  std::size_t count = 0;
  if (rte_mbuf* out = carry_out_one(context, m, first, copies)) passed[count++] = out;
  for (std::size_t i = 0; i < copies.size; ++i) {
    const Copy copy = copies.copy[i];
    const ImpairStep step = rules_.on_packet(context.now, fields_of(copy.m), context.rng, copy.at);
    if (rte_mbuf* out = carry_out_one(context, copy.m, step, copies)) passed[count++] = out;
  }
  return count;
}

// The packet when it may go on now; nullptr when it is held or gone.
rte_mbuf* ImpairStage::carry_out_one(Context& context, rte_mbuf* m, ImpairStep step, Copies& copies) noexcept {
  while (true) {
    switch (step.what) {
      case What::pass:
        return m;
      case What::lose:
        count(ImpairCounter::lost);
        context.drop(m, ImpairDrop::impair_loss);
        return nullptr;
      case What::limit:
        count(ImpairCounter::limited);
        context.drop(m, ImpairDrop::impair_rate);
        return nullptr;
      case What::hold:
        hold(context, m, step);
        return nullptr;
      case What::corrupt:
        m = corrupt(context, m, step.bit);
        if (m == nullptr) return nullptr;
        break;
      case What::duplicate:
        duplicate(context, m, step.next, copies);
        break;
    }
    step = rules_.on_packet(context.now, fields_of(m), context.rng, step.next);
  }
}

// The headers are read again: later stages have to see what they would have received.
rte_mbuf* ImpairStage::corrupt(Context& context, rte_mbuf* m, std::uint32_t bit) noexcept {
  count(ImpairCounter::corrupted);
  if (!flip_bit(m, bit)) {
    context.drop(m, DropReason::out_of_mbufs);
    return nullptr;
  }
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
  return m;
}

void ImpairStage::duplicate(Context& context, rte_mbuf* m, ImpairPlace at, Copies& copies) noexcept {
  rte_mbuf* copy = copies.size < copies.copy.size() ? context.replicate(m) : nullptr;
  if (copy == nullptr) return count(ImpairCounter::not_duplicated);
  count(ImpairCounter::duplicated);
  copies.copy[copies.size++] = {copy, at};
}

void ImpairStage::hold(Context& context, rte_mbuf* m, const ImpairStep& step) noexcept {
  if (!queue_.push(step.until, {m, step.next, generation_})) {
    context.drop(m, ImpairDrop::impair_queue_full);
    return;
  }
  if (step.delayed) count(ImpairCounter::delayed);
  if (step.reordered) count(ImpairCounter::reordered);
}

// Queues a packet that has met all rules, behind those that are due and have not left. False when there is no room.
bool ImpairStage::stand_in_line(TimeNs now, rte_mbuf* m) noexcept {
  return queue_.push(now, {m, {}, generation_ - 1});
}

// True when something was resumed. Takes out one burst at most, as much as a port sends between two calls: a worker
// that was away for some time would otherwise throw all that became due at the egress queue at once.
bool ImpairStage::release_due(Context& context) noexcept {
  bool resumed = false;
  for (std::size_t left = pipeline::EgressQueue::kBurst; left != 0 && queue_.next() <= context.now; --left) {
    const Held packet = queue_.pop();
    ImpairStep step{};
    if (packet.generation == generation_) {
      step = rules_.on_packet(context.now, fields_of(packet.m), context.rng, packet.at);
    }
    rte_mbuf* passed[kMaxCopies];
    const std::size_t count = carry_out(context, packet.m, step, passed);
    for (std::size_t k = 0; k < count; ++k) context.resume(passed[k]);
    resumed = resumed || count != 0;
  }
  return resumed;
}

void ImpairStage::flush(Context& context) {
  while (!queue_.empty()) context.resume(queue_.pop().m);
}

void ImpairStage::adopt(Context& context, pipeline::Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<ImpairStage&>(old_stage);
  generation_ = old.generation_;
  if (!adoption.same_options) {
    ++generation_;
  } else if (adoption.ports.identity()) {
    std::swap(rules_, old.rules_);
  } else if (!rules_.go_on_from(old.rules_)) {
    ++generation_;
  }
  while (!old.queue_.empty()) {
    const TimeNs until = old.queue_.next();
    const Held held = old.queue_.pop();
    if (!adoption.ports.rename(held.m)) {
      context.drop(held.m, DropReason::port_removed);
    } else if (!queue_.push(until, held)) {
      context.resume(held.m);
    }
  }
}

void ImpairStage::set_rules(ImpairUnit& rules) noexcept {
  std::swap(rules_, rules);
  ++generation_;
}

nlohmann::ordered_json ImpairStage::rows(std::string_view, std::uint64_t& cursor, std::size_t max) const {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (; cursor < rules_.size() && out.size() < max; ++cursor) {
    const ImpairCounters& c = rules_.counters(cursor);
    out.push_back({{"rule", cursor},
                   {"name", rules_.rule(cursor).name},
                   {"matched", c.matched},
                   {"lost", c.lost},
                   {"duplicated", c.duplicated},
                   {"delayed", c.delayed},
                   {"reordered", c.reordered},
                   {"corrupted", c.corrupted},
                   {"limited", c.limited}});
  }
  if (cursor >= rules_.size()) cursor = pipeline::StageShared::kEnd;
  return out;
}

pipeline::StageType impair_stage_type() {
  pipeline::StageType type;
  type.name = "impair";
  type.summary = "Loses, corrupts, duplicates, limits, delays and reorders packets by rules.";
  type.needs = {"parsed"};
  type.holds_packets = true;
  type.option_order = impair_order;
  type.options = impair_options();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/impair/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {ImpairDrop::block()};
  type.check = check_impair_options;
  type.set = set_impair;
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<ImpairStage>(ImpairUnit(make_impair_rules(build.options, build.info)),
                                         build.options["max_held"].unsigned_integer());
  };
  return type;
}

}  // namespace weft::stages
