// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the stage shows of its groups.
#include <nlohmann/json.hpp>
#include <optional>

#include "collectives/stage/stage.h"

namespace weft::inc {

using nlohmann::ordered_json;

namespace {

/// The invocation that a position belongs to; nullptr when it is over.
const Invocation* invocation_of(const LookupTable& table, std::uint64_t position) noexcept {
  for (std::uint32_t n = 0; n < table.live(); ++n) {
    if (position >= table.live(n).start && position < table.live(n).end()) return &table.live(n);
  }
  return nullptr;
}

/// Endpoints that a slot still waits for.
EndpointSet missing(const RunningGroup& g, const Slot& slot, const Invocation& i) noexcept {
  EndpointSet out;
  for (std::size_t e = 0; e < g.edges.size(); ++e) {
    const auto index = static_cast<EndpointIndex>(e);
    const bool is_parent = g.spec.config.parent == index && everyone_takes_part(i);
    // Mode iii has a copy of the sum: it waits for the ACK of the next switch.
    const bool translated = g.spec.config.mode == Mode::ii;
    const bool waited = slot.full ? translated && is_parent && !slot.result
                                  : !is_parent && g.unit.table().role(index, i).sends && !slot.arrived.has(index);
    if (waited) out.add(index);
  }
  return out;
}

/// What EPIC's F.3 asks for: in mode II the packets under way between a rank and the root, both ways, in mode III those
/// of one hop for each pipe, in mode I those of one hop for each child; and a buffer for each child where sums are
/// reproducible.
std::uint64_t f3_bytes(const GroupConfig& c) noexcept {
  if (c.mode == Mode::i) return (c.endpoints.size() + 1) * c.window * std::uint64_t{c.message_packets} * c.mtu;
  const std::uint64_t sums = std::uint64_t{c.slots} * c.mtu * (c.reproducible ? c.endpoints.size() : 1);
  return sums + (c.mode == Mode::iii ? std::uint64_t{c.slots} * c.mtu : 0);
}

std::string who(const GroupSpec& spec, std::size_t e) {
  const auto& rank = spec.config.endpoints[e].rank;
  const std::string peer = " (" + spec.edges[e].peer.to_string() + ")";
  if (rank) return "rank " + std::to_string(*rank) + peer;
  return (spec.config.parent == static_cast<EndpointIndex>(e) ? "parent switch" : "child switch") + peer;
}

std::string names(const EndpointSet& set, const GroupSpec& spec) {
  std::string out;
  for (std::size_t e = 0; e < spec.edges.size(); ++e) {
    if (set.has(static_cast<EndpointIndex>(e))) out += (out.empty() ? "" : ", ") + who(spec, e);
  }
  return out;
}

/// Who has said something: a child switch says what the ranks behind it say.
std::string speaker(const GroupSpec& spec, std::size_t e) {
  constexpr std::size_t kMost = 8;
  std::string out = who(spec, e);
  if (spec.config.endpoints[e].rank || spec.config.parent == static_cast<EndpointIndex>(e)) return out;
  std::size_t ranks = 0;
  for (std::size_t rank = 0; rank < spec.config.way.size(); ++rank) {
    if (spec.config.way[rank] != static_cast<EndpointIndex>(e)) continue;
    if (++ranks <= kMost) out += (ranks == 1 ? " of ranks " : ", ") + std::to_string(rank);
  }
  return ranks <= kMost ? out : out + " and " + std::to_string(ranks - kMost) + " more";
}

std::string speakers(const EndpointSet& set, const GroupSpec& spec) {
  std::string out;
  for (std::size_t e = 0; e < spec.edges.size(); ++e) {
    if (set.has(static_cast<EndpointIndex>(e))) out += (out.empty() ? "" : ", ") + speaker(spec, e);
  }
  return out;
}

/// The oldest packet of a collective that cannot go on, and who holds it back.
struct Wait {
  const Invocation* invocation = nullptr;
  std::uint64_t index = 0;
  EndpointSet missing;
  bool for_result = false;
};

std::optional<Wait> oldest_wait(const RunningGroup& g) {
  if (const auto waiting = g.unit.waiting()) {
    return Wait{waiting->invocation, waiting->index, waiting->missing, waiting->for_result};
  }
  const Slots* const slots = g.unit.slots();
  const Slot* oldest = nullptr;
  for (std::uint32_t s = 0; slots != nullptr && s < slots->size(); ++s) {
    const Slot& slot = slots->at(s);
    const Invocation* i = slot.used ? invocation_of(g.unit.table(), slot.position) : nullptr;
    if (i == nullptr || missing(g, slot, *i).size() == 0) continue;
    if (oldest == nullptr || slot.position < oldest->position) oldest = &slot;
  }
  if (oldest == nullptr) return std::nullopt;
  const Invocation& i = *invocation_of(g.unit.table(), oldest->position);
  return Wait{&i, oldest->position - i.start, missing(g, *oldest, i), oldest->full};
}

/// Since when nothing has gone on.
TimeNs still_since(const RunningGroup& g, const std::optional<Wait>& oldest) {
  return oldest && g.contributed != 0 ? g.contributed : g.completed;
}

ordered_json explain_row(const RunningGroup& g, const std::optional<Wait>& oldest, double for_s) {
  ordered_json row{{"group", g.id()}, {"state", ""}, {"collective", ""}, {"waits_for", ""}, {"for_s", 0.0}};
  if (g.unit.failure()) {
    row["state"] = "failed: " + describe(*g.unit.failure(), g.spec);
    return row;
  }
  row["for_s"] = for_s;
  if (!oldest) {
    row["state"] = "nothing is under way here";
    return row;
  }
  const Invocation& i = *oldest->invocation;
  row["state"] = oldest->for_result ? "waits for the result" : "waits for contributions";
  row["collective"] =
      describe(i.message) + ", packet " + std::to_string(oldest->index) + " of " + std::to_string(i.packets);
  row["waits_for"] = names(oldest->missing, g.spec);
  return row;
}

std::string_view to_string(Failure::Reason reason) {
  switch (reason) {
    case Failure::Reason::disagreement:
      return "ranks began different collectives";
    case Failure::Reason::bad_control:
      return "no control message where one must be";
    case Failure::Reason::bad_shape:
      return "a packet whose opcode, length or address does not fit its place";
    case Failure::Reason::irn_broadcast:
      return "a Broadcast to IRN receivers, whose answers cannot be merged";
    case Failure::Reason::peer_failed:
      return "a fatal NAK";
    case Failure::Reason::peer_silent:
      return "no answer, however often packets were sent again";
  }
  return "?";
}

}  // namespace

std::string describe(const ControlMessage& m) {
  std::string out(to_string(m.primitive));
  if (m.primitive == Primitive::barrier) return out + " #" + std::to_string(m.sequence);
  if (m.primitive != Primitive::broadcast) out += " " + std::string(to_string(m.op));
  out += " " + std::string(to_string(m.type)) + ", " + std::to_string(m.bytes) + " bytes";
  if (m.primitive != Primitive::allreduce) out += ", root " + std::to_string(m.root);
  return out + " #" + std::to_string(m.sequence);
}

std::string describe(const Failure& f, const GroupSpec& spec) {
  std::string out = speaker(spec, f.endpoint) + ": " + std::string(to_string(f.reason));
  if (f.reason != Failure::Reason::disagreement) return out;
  out += "; it said " + describe(f.heard);
  return f.others ? out + "; " + speakers(f.others_are, spec) + " said " + describe(*f.others) : out;
}

double IncStage::seconds_since(TimeNs then) const noexcept {
  const TimeNs now = shared_.now();
  return then == 0 || now < then ? 0 : static_cast<double>(now - then) / 1e9;
}

ordered_json IncStage::group_row(const RunningGroup& g) const {
  const GroupConfig& c = g.spec.config;
  const GroupCounters& n = g.unit.counters();
  const LookupTable& table = g.unit.table();
  return {{"group", c.id},
          {"generation", g.generation},
          {"mode", name(c.mode)},
          {"worker", g.worker},
          {"state", g.unit.failure() ? "failed" : "running"},
          {"ranks", c.way.size()},
          {"endpoints", c.endpoints.size()},
          {"mtu", c.mtu},
          {"slots", g.unit.slots() != nullptr ? c.slots : 0},
          {"bytes", IncEngine::memory_bytes(c)},
          {"f3_bytes", f3_bytes(c)},
          {"collectives", g.begun},
          {"under_way", table.live()},
          {"contributions", n.contributions},
          {"completed", n.completed},
          {"duplicates", n.duplicates},
          {"copies", n.copies},
          {"rnr_naks", n.rnr_naks},
          {"stale", n.stale},
          {"refused", n.refused},
          {"resent", n.resent},
          {"timeouts", n.timeouts},
          {"ahead", n.ahead},
          {"block", g.spec.block ? ordered_json(*g.spec.block) : ordered_json(nullptr)},
          {"has_block", g.key != nullptr && g.key->has_it()},
          {"turns", n.turns},
          {"turns_refused", n.turns_refused},
          {"memory_busy", n.memory_busy},
          {"failure", g.unit.failure() ? describe(*g.unit.failure(), g.spec) : ""}};
}

ordered_json IncStage::endpoint_row(const RunningGroup& g, std::size_t e) const {
  const EdgeSpec& spec = g.spec.edges[e];
  const Edge& edge = g.edges[e];
  return {{"group", g.id()},
          {"endpoint", e},
          {"who", who(g.spec, e)},
          {"address", spec.address.to_string()},
          {"qp", spec.qp.value()},
          {"peer", spec.peer.to_string()},
          {"peer_qp", spec.peer_qp.value()},
          {"packets", edge.packets},
          {"bytes", edge.bytes},
          {"sent", edge.sent},
          {"bad_icrc", edge.bad_icrc},
          {"heard_s_ago", edge.heard == 0 ? ordered_json(nullptr) : ordered_json(seconds_since(edge.heard))}};
}

ordered_json IncStage::rows(std::string_view name, std::uint64_t& cursor, std::size_t max) const {
  ordered_json out = ordered_json::array();
  std::uint64_t at = 0;  // counts all rows of the table
  const auto add = [&](auto&& make) {
    if (at++ < cursor) return true;
    if (out.size() == max) return false;
    out.push_back(make());
    ++cursor;
    return true;
  };
  bool all = true;
  if (name == "inc_abilities" && worker_ == 0) all = add([&] { return abilities_row(); });
  if (name == "inc_memory" && worker_ == 0) all = add([&] { return pool_row(); });
  for (const RunningGroup* g : table_->groups()) {
    if (name == "inc_activity") all = all && add([&] { return activity_row(*g); });
    if (name == "inc_memory") all = all && add([&] { return memory_row(*g); });
    if (name == "inc_groups") all = all && add([&] { return group_row(*g); });
    for (std::size_t e = 0; name == "inc_endpoints" && e < g->edges.size(); ++e) {
      all = all && add([&] { return endpoint_row(*g, e); });
    }
    const Slots* const slots = g->unit.slots();
    for (std::uint32_t s = 0; name == "inc_slots" && slots != nullptr && all && s < slots->size(); ++s) {
      const Slot& slot = slots->at(s);
      const Invocation* i = slot.used ? invocation_of(g->unit.table(), slot.position) : nullptr;
      if (i == nullptr) continue;
      all = add([&]() -> ordered_json {
        return {{"group", g->id()},
                {"slot", s},
                {"position", slot.position},
                {"collective", describe(i->message)},
                {"bytes", slot.bytes},
                {"in", slot.degree},
                {"of", g->unit.table().senders(*i)},
                {"state", !slot.full    ? "adding"
                          : slot.result ? "result"
                                        : "sum"},
                {"waits_for", names(missing(*g, slot, *i), g->spec)}};
      });
    }
  }
  if (all) cursor = pipeline::StageShared::kEnd;
  return out;
}

std::optional<ordered_json> IncStage::explain(std::uint32_t id) const {
  for (const RunningGroup* g : table_->groups()) {
    if (g->id() != id) continue;
    const auto oldest = oldest_wait(*g);
    return explain_row(*g, oldest, seconds_since(still_since(*g, oldest)));
  }
  return std::nullopt;
}

ordered_json IncStage::activity_row(const RunningGroup& g) const {
  const auto oldest = g.unit.failure() ? std::nullopt : oldest_wait(g);
  ordered_json row = explain_row(g, oldest, seconds_since(still_since(g, oldest)));
  ordered_json ranks = ordered_json::array();
  for (std::size_t e = 0; oldest && e < g.edges.size(); ++e) {
    const auto& rank = g.spec.config.endpoints[e].rank;
    if (rank && oldest->missing.has(static_cast<EndpointIndex>(e))) ranks.push_back(*rank);
  }
  row["waits_for_ranks"] = std::move(ranks);
  row["failure"] = g.unit.failure() ? describe(*g.unit.failure(), g.spec) : "";
  row["neighbour_failed"] = g.unit.failure() && g.unit.failure()->reason == Failure::Reason::peer_failed;
  row["collectives"] = g.begun;
  std::uint64_t packets = 0, sent = 0, bad_icrc = 0;
  for (std::size_t e = 0; e < g.edges.size(); ++e) {
    if (!g.spec.config.endpoints[e].rank) continue;
    packets += g.edges[e].packets;
    sent += g.edges[e].sent;
    bad_icrc += g.edges[e].bad_icrc;
  }
  row["from_ranks"] = packets;
  row["to_ranks"] = sent;
  row["bad_icrc"] = bad_icrc;
  row["completed_bytes"] = g.unit.counters().completed_bytes;
  row["turns"] = g.unit.counters().turns;
  row["turns_refused"] = g.unit.counters().turns_refused;
  row["memory_busy"] = g.unit.counters().memory_busy;
  return row;
}

ordered_json IncStage::abilities_row() const {
  ordered_json modes = ordered_json::array(), types = ordered_json::array();
  const Offer& offer = shared_.offer();
  for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
    if (offer.has(mode)) modes.push_back(name(mode));
  }
  for (std::size_t t = 0; t < kDataTypes; ++t) types.push_back(to_string(static_cast<DataType>(t)));
  return {{"modes", std::move(modes)},
          {"types", std::move(types)},
          {"fan_in", offer.fan_in.value_or(kMaxEndpoints - 1)},
          {"memory_bytes", shared_.pool().bytes()},
          {"blocks", true}};
}

ordered_json IncStage::pool_row() const {
  const MemoryPool& pool = shared_.pool();
  return {{"of", "switch"},
          {"bytes", pool.bytes() - pool.free_bytes()},
          {"memory_bytes", pool.bytes()},
          {"longest_free_bytes", pool.largest_bytes()}};
}

ordered_json IncStage::memory_row(const RunningGroup& g) const {
  ordered_json row{{"of", "group " + std::to_string(g.id())}, {"bytes", 0},       {"memory_bytes", nullptr},
                   {"longest_free_bytes", nullptr},           {"slots", nullptr}, {"slots_in_use", nullptr}};
  // Without a region the group's memory is its own, not the switch's.
  if (g.memory != nullptr) row["bytes"] = MemoryPool::rounded(IncEngine::memory_bytes(g.spec.config));
  const Slots* const slots = g.unit.slots();
  if (slots == nullptr) return row;
  std::uint32_t used = 0;
  for (std::uint32_t s = 0; s < slots->size(); ++s) {
    used += slots->at(s).used && invocation_of(g.unit.table(), slots->at(s).position) != nullptr ? 1 : 0;
  }
  row["slots"] = slots->size();
  row["slots_in_use"] = used;
  return row;
}

}  // namespace weft::inc
