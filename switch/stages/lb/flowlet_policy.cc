// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flowlet_policy.h"

#include <algorithm>
#include <array>
#include <string>

#include "switch/base/time.h"
#include "switch/pipeline/row_scan.h"

namespace weft::stages {
namespace {

using nlohmann::ordered_json;
using pipeline::Context;
using tables::NextHopId;

FlowletRules rules_of(const config::Value& options) {
  const config::Value& letflow = options["letflow"];
  return {.gap_ns = letflow["gap_us"].unsigned_integer() * kUs,
          .age_ns = letflow["age_us"].unsigned_integer() * kUs,
          .flows = static_cast<std::uint32_t>(letflow["max_flows"].unsigned_integer())};
}

// The entry's member of this group, which may stand elsewhere in it than it did; kUnreachable when it has left.
NextHopId member_of(const Flowlet& entry, LinkView& links, std::span<const NextHopId> members) noexcept {
  if (entry.member < members.size() && links.port(members[entry.member]) == entry.port) return members[entry.member];
  for (const NextHopId member : members) {
    if (links.port(member) == entry.port) return member;
  }
  return tables::kUnreachable;
}

}  // namespace

FlowletPolicy::FlowletPolicy(const pipeline::StageBuild& build)
    : hash_(build), table_(rules_of(build.options)), info_(build.info) {}

void FlowletPolicy::choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept {
  now_ = context.now;
  begin_burst();
  std::array<std::uint32_t, pipeline::Batch::kCapacity> places;
  std::size_t next = 0;
  for (const LbItem& item : items) {
    places[next++] = table_.prefetch(FlowKey::of(pipeline::meta(item.packet).parsed));
  }
  next = 0;
  for (LbItem& item : items) {
    const FlowKey key = FlowKey::of(pipeline::meta(item.packet).parsed);
    const auto [entry, begin] = table_.on_packet(context.now, key, places[next++]);
    const NextHopId before = begin == FlowletTable::Begin::none || begin == FlowletTable::Begin::gap
                                 ? member_of(entry, links, item.members())
                                 : tables::kUnreachable;
    const bool keeps = begin == FlowletTable::Begin::none && before != tables::kUnreachable && links.up(before);
    item.choice = keeps ? before : begin_flowlet(context, links, item, entry, begin, before);
  }
}

// Nothing is allocated here: the table of the old one is taken as it is where the sizes agree.
void FlowletPolicy::adopt(LbPolicy& old, const pipeline::PortMap& ports) noexcept {
  auto* before = dynamic_cast<FlowletPolicy*>(&old);
  if (before == nullptr) return;
  now_ = before->now_;
  if (before->table_.entries().size() == table_.entries().size()) {
    table_.entries().swap(before->table_.entries());
  } else {
    for (const Flowlet& entry : before->table_.entries()) {
      if (before->table_.is_live(entry, now_)) table_.on_packet(entry.last, entry.key).entry = entry;
    }
  }
  if (ports.identity()) return;
  // Members are told apart by their ports; a flow whose port is gone finds none and begins a flowlet.
  for (Flowlet& entry : table_.entries()) entry.port = ports(entry.port);
}

ordered_json FlowletPolicy::rows(std::uint64_t& cursor, std::size_t max) const {
  const auto& entries = table_.entries();
  return pipeline::scan_rows(cursor, max, entries.size(), [&](std::uint64_t at) -> ordered_json {
    const Flowlet& entry = entries[at];
    if (!table_.is_live(entry, now_)) return {};
    return {{"flow", entry.key.to_string()},
            {"port", entry.port < info_.ports.size() ? ordered_json(info_.ports[entry.port].name) : nullptr},
            {"flowlets", entry.flowlets},
            {"silent_us", (now_ - entry.last) / kUs}};
  });
}

NextHopId FlowletPolicy::begin_flowlet(Context& context, LinkView& links, const LbItem& item, Flowlet& entry,
                                       FlowletTable::Begin begin, NextHopId before) noexcept {
  const NextHopId choice = pick(context, links, item, before);
  if (begin == FlowletTable::Begin::evicted) counters().add(LbCounter::flows_evicted);
  if (choice == tables::kUnreachable) {
    entry.port = pipeline::kNoPort;
    return choice;
  }
  const bool cut = begin == FlowletTable::Begin::none;
  if (cut) ++entry.flowlets;
  counters().add(LbCounter::flowlets);
  counters().add(LbCounter::flowlets_cut, cut ? 1 : 0);
  const bool known = cut || begin == FlowletTable::Begin::gap;
  counters().add(LbCounter::flowlets_moved, known && choice != before ? 1 : 0);
  const auto members = item.members();
  entry.member = static_cast<std::uint16_t>(std::find(members.begin(), members.end(), choice) - members.begin());
  entry.port = links.port(choice);
  return choice;
}

}  // namespace weft::stages
