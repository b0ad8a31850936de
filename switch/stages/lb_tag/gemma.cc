// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/gemma.h"

#include <algorithm>

#include "switch/pipeline/made_frame.h"

namespace weft::stages {

using pipeline::Context;
using pipeline::PortIndex;

GemmaReports::GemmaReports(LbTagShared& shared, const pipeline::SwitchInfo& info, std::uint16_t worker)
    : shared_(shared),
      info_(info),
      options_(*shared.options().gemma),
      view_(shared.gemma_view()),
      reports_(worker == 0 && !options_.downlinks.empty()),
      reporter_(options_.reporter),
      address_of_port_(info.ports.size()) {
  for (const pipeline::InterfaceAddress& own : info.addresses) {
    if (!own.prefix.address.is_v6()) address_of_port_[own.port] = own.prefix.address;
  }
  for (std::size_t i = 0; i < options_.downlinks.size(); ++i) {
    for (const std::uint16_t leaf : options_.downlinks[i].leaves) {
      entries_.push_back({leaf, 0});
      behind_.push_back(i);
    }
  }
  if (!shared.options().uplinks.empty()) {
    for (const LbTagOptions::Leaf& leaf : shared.options().leaves) {
      const auto below = [&](const GemmaEntry& entry) { return entry.leaf == leaf.id; };
      if (std::none_of(entries_.begin(), entries_.end(), below)) above_.push_back(leaf.id);
    }
  }
  for (const std::uint16_t leaf : above_) {
    entries_.push_back({leaf, 0});
    behind_.push_back(options_.downlinks.size());
  }
  told_.reserve(entries_.size());
}

std::uint64_t GemmaReports::queue(const Context& context, PortIndex port) const noexcept {
  return context.link_up(port) ? view_.scaled(port, context.queued_bytes(port)) : kShut;
}

// What waits on the way to a leaf above: this switch chooses among its uplinks, so that the best one counts.
std::uint64_t GemmaReports::least_above(const Context& context, std::uint16_t id) const noexcept {
  const std::uint16_t leaf = shared_.leaf_with(id);
  const std::uint32_t scan = view_.scan_at(context.now);
  std::uint64_t least = kShut;
  for (const PortIndex port : shared_.options().uplinks) {
    if (context.path_up(port)) least = std::min(least, queue(context, port) + view_.beyond(leaf, port, scan));
  }
  return least;
}

// Brings all entries up to now.
// @return the longest
std::uint64_t GemmaReports::look(const Context& context) noexcept {
  std::uint64_t longest = 0;
  const std::uint32_t scan = shared_.below().scan_at(context.now);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (behind_[i] < options_.downlinks.size()) {
      const std::uint64_t own = queue(context, options_.downlinks[behind_[i]].port);
      entries_[i].bytes = own + shared_.below().bytes_in(i, 0, scan);
      shared_.on_tells(behind_[i], own, reporter_.interval_ns());
    } else {
      entries_[i].bytes = least_above(context, entries_[i].leaf);
    }
    longest = std::max(longest, entries_[i].bytes);
  }
  return longest;
}

void GemmaReports::on_timer(Context& context, LbTagCounters& counters) noexcept {
  if (!reports_ || context.now < reporter_.next_deadline()) return;
  shared_.set_now(context.now);
  if (!reporter_.on_look(context.now, look(context))) return;
  tell_below(context, counters);
  if (options_.up) tell_above(context, counters);
}

// Without the entries of a downlink itself: a leaf has no use for what waits on the way to itself.
void GemmaReports::tell_below(Context& context, LbTagCounters& counters) noexcept {
  for (std::size_t to = 0; to < options_.downlinks.size(); ++to) {
    told_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (behind_[i] != to) told_.push_back(entries_[i]);
    }
    send(context, options_.downlinks[to].port, counters);
  }
}

// Switches above do not see the queues of this one, through which all that they send down must go.
void GemmaReports::tell_above(Context& context, LbTagCounters& counters) noexcept {
  told_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (behind_[i] < options_.downlinks.size()) told_.push_back(entries_[i]);
  }
  for (const PortIndex port : shared_.options().uplinks) send(context, port, counters);
}

void GemmaReports::send(Context& context, PortIndex to, LbTagCounters& counters) noexcept {
  if (told_.empty() || !context.link_up(to)) return;
  const ReportSender sender{info_.ports[to].mac, address_of_port_[to], options_.report_dscp};
  const std::size_t room = std::max(report_bytes(told_.size()), wire::kMinFrameBytes);
  rte_mbuf* const out = pipeline::make_frame(
      context, room, [&](std::span<std::uint8_t> bytes) { return write_report(bytes, sender, told_); });
  if (out == nullptr) return counters.add(LbTagCounter::gemma_no_buffer);
  counters.add(LbTagCounter::gemma_reports_sent);
  counters.add(LbTagCounter::gemma_bytes_sent, out->pkt_len);
  context.send(out, to);
}

// A switch below has told of a queue of its own.
// @return false when the leaf is not behind that downlink
bool GemmaReports::learn(std::uint16_t downlink, const GemmaEntry& entry, TimeNs now) noexcept {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (behind_[i] == downlink && entries_[i].leaf == entry.leaf) {
      return shared_.below().on_told(i, 0, entry.bytes, now);
    }
  }
  return false;
}

bool GemmaReports::take(TimeNs now, const rte_mbuf* m, LbTagCounters& counters) noexcept {
  const pipeline::PacketMeta& pm = pipeline::meta(m);
  if (!is_from_neighbour(pm.parsed)) {
    counters.add(LbTagCounter::gemma_strangers);
    return false;
  }
  std::array<GemmaEntry, kMaxReportEntries> room;
  const auto entries = read_report(pipeline::frame(m), m->data_len, pm.parsed, room);
  counters.add(entries.empty() ? LbTagCounter::malformed : LbTagCounter::gemma_reports);
  shared_.set_now(now);
  const std::uint16_t path = shared_.path_of(pm.in_port), downlink = shared_.downlink_of(pm.in_port);
  for (const GemmaEntry& entry : entries) {
    const bool known = downlink != LbTagShared::kNoPath
                           ? learn(downlink, entry, now)
                           : shared_.downlinks().on_told(shared_.leaf_with(entry.leaf), path, entry.bytes, now);
    if (!known) counters.add(LbTagCounter::gemma_unknown_leaves);
  }
  return true;
}

}  // namespace weft::stages
