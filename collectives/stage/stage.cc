// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/stage.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "collectives/stage/drops.h"
#include "switch/pipeline/writable.h"
#include "switch/wire/icrc.h"
#include "switch/wire/neighbour.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::PacketMeta;
using wire::FrameKind;

namespace {

constexpr std::size_t kJumboBytes = 9216;

bool is_known(std::uint8_t opcode) noexcept {
  const auto code = static_cast<wire::Opcode>(opcode);
  return (opcode >> 5) == 0 || code == wire::Opcode::CNP;
}

}  // namespace

IncStage::IncStage(const pipeline::StageBuild& build, IncShared& shared)
    : info_(build.info),
      shared_(shared),
      worker_(build.worker),
      routed_(is_routed(build.info)),
      table_(shared.table(build.worker)),
      whole_(kJumboBytes),
      emitter_(build.info, {counters_[IncCounter::sent], counters_[IncCounter::reused], counters_[IncCounter::asked],
                            counters_[IncCounter::no_buffer]}) {
  touched_.reserve(table_->groups().size());
  if (routed_) {
    for (const auto& address : build.info.addresses) own_addresses_.push_back(address.prefix.address);
  }
  set_gauges();
}

void IncStage::set_gauges() noexcept {
  std::uint64_t failed = 0;
  for (const RunningGroup* group : table_->groups()) failed += group->failed ? 1 : 0;
  counters_.set(IncCounter::groups, table_->groups().size());
  counters_.set(IncCounter::failed, failed);
}

void IncStage::exchange_table(std::unique_ptr<GroupTable>& table) {
  std::vector<RunningGroup*> room;
  room.reserve(table->groups().size());
  std::swap(table_, table);
  touched_ = std::move(room);
  set_gauges();
}

/// The shared state has taken groups over since this instance was made.
void IncStage::adopt(pipeline::Context&, pipeline::Stage&, const pipeline::Adoption&) {
  auto table = shared_.table(worker_);
  exchange_table(table);
}

void IncStage::ingress(pipeline::Context& context, Batch& batch) {
  if (table_->empty()) return;
  Taken taken;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const wire::Parsed& parsed = pipeline::meta(batch.packet[i]).parsed;
    if (parsed.is_roce_v4()) [[likely]] {
      if (table_->may_have_v4(static_cast<std::uint32_t>(parsed.address_key))) on_roce(context, batch, i, taken);
    } else if (parsed.kind == FrameKind::roce) {
      on_roce(context, batch, i, taken);
    } else if (parsed.kind == FrameKind::arp) {
      on_arp(context, batch, i);
    } else if (wire::is_neighbour_message(pipeline::frame(batch.packet[i]), parsed)) {
      on_neighbour(context, batch, i);
    }
  }
  if (taken.count != 0) {
    context.consume(taken.packet, taken.count);
    count(IncCounter::packets, taken.count);
    count(IncCounter::payload_bytes, taken.payload_bytes);
  }
  count_groups(context);
}

void IncStage::on_roce(pipeline::Context& context, Batch& batch, std::uint16_t i, Taken& taken) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PacketMeta& pm = pipeline::meta(m);
  const GroupTable::Flow* flow = table_->find(pm.parsed.address_key, pm.parsed.dest_qp);
  if (flow == nullptr) {
    const std::uint8_t* l3 = pipeline::frame(m) + pm.parsed.l3_offset;
    const auto destination = pm.parsed.has(wire::ParsedFlag::ipv6)
                                 ? wire::IpAddress::v6(wire::header_at<wire::Ipv6Header>(l3).destination)
                                 : wire::IpAddress::v4(wire::header_at<wire::Ipv4Header>(l3).destination.value());
    if (table_->has_address(destination)) context.drop(batch, i, IncDrop::inc_unknown_qp);
    return;
  }
  if (!is_known(pm.parsed.opcode)) return context.drop(batch, i, IncDrop::inc_bad_opcode);
  Edge& edge = flow->group->edges[flow->endpoint];
  nic::Packet packet;
  // Nobody is learnt from a packet that is wrong, and results may go to where it came from.
  const bool stranger = !routed_ && edge.neighbour.get().port == pipeline::kNoPort;
  std::uint32_t payload_crc = 0;
  const Icrc icrc = read(m, stranger || !flow->group->adds_unchecked, edge, packet, payload_crc);
  if (!routed_ && icrc == Icrc::right) learn(m, edge);
  if (icrc == Icrc::wrong || !take(context, *flow, m, packet, icrc, payload_crc)) {
    ++edge.bad_icrc;
    return context.drop(batch, i, IncDrop::inc_bad_icrc);
  }
  if (!routed_ && icrc == Icrc::later) learn(m, edge);
  edge.heard = context.now;
  ++edge.packets;
  edge.bytes += packet.payload.bytes;
  taken.payload_bytes += packet.payload.bytes;
  taken.packet[taken.count++] = m;
  batch.remove(i);
}

/// Of a packet whose payload a simulation leaves out there is no ICRC.
/// @param at_once      it is to be known whether the ICRC is right
/// @param payload_crc  set for Icrc::later
IncStage::Icrc IncStage::read(const rte_mbuf* m, bool at_once, Edge& edge, nic::Packet& packet,
                              std::uint32_t& payload_crc) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const bool whole = pipeline::has_bytes(m, 0, m->pkt_len);
  const std::uint8_t* frame = pipeline::frame(m);
  std::uint32_t contiguous = m->data_len;
  if (whole && m->nb_segs > 1) {
    if (m->pkt_len > whole_.size()) return Icrc::wrong;
    // Copies only what is not in one piece; the pointer is to `whole_` then.
    frame = static_cast<const std::uint8_t*>(rte_pktmbuf_read(m, 0, m->pkt_len, whole_.data()));
    contiguous = m->pkt_len;
  }
  nic::decode(frame, contiguous, pm.parsed, packet);
  if (!whole) return Icrc::right;
  const std::uint32_t payload = packet.payload.bytes;
  const wire::RoceLayout layout = wire::roce_layout(frame, pm.parsed);
  const std::uint32_t icrc = wire::load_icrc(frame + layout.icrc);
  // Pad where none is needed makes a packet a rare one, too.
  const bool later =
      !at_once && payload != 0 && payload % kCheckedStep == 0 && packet.payload.data() + payload == frame + layout.icrc;
  if (!later) return wire::icrc_full(frame, layout) == icrc ? Icrc::right : Icrc::wrong;
  payload_crc = icrc ^ edge.arrived_crc.part(frame, layout, payload);
  return Icrc::later;
}

/// False: the packet is wrong.
bool IncStage::take(pipeline::Context& context, const GroupTable::Flow& flow, const rte_mbuf* m,
                    const nic::Packet& packet, Icrc icrc, std::uint32_t payload_crc) noexcept {
  RunningGroup& group = *flow.group;
  const GroupCounters& counters = group.unit.counters();
  const std::uint64_t completed = counters.completed, contributions = counters.contributions;
  const bool marked = wire::ecn_of(pipeline::meta(m).parsed.tos) == wire::Ecn::ce;
  const auto now = static_cast<nic::Time>(context.now);
  touch(group);
  emitter_.begin(context, group);
  bool right = true;
  if (icrc == Icrc::later) {
    right = group.unit.on_unchecked(now, flow.endpoint, packet, payload_crc, marked, emitter_);
  } else {
    group.unit.on_packet(now, flow.endpoint, packet, marked, emitter_);
  }
  emitter_.finish();
  if (counters.completed != completed) {
    group.completed = context.now;
    group.contributed = 0;
  } else if (counters.contributions != contributions && group.contributed == 0) {
    group.contributed = context.now;
  }
  return right;
}

void IncStage::touch(RunningGroup& group) noexcept {
  if (group.touched) return;
  group.touched = true;
  touched_.push_back(&group);
}

TimeNs IncStage::deadline(std::uint32_t /*token*/) const {
  nic::Time first = nic::kNever;
  for (const RunningGroup* group : table_->groups()) first = std::min(first, group->unit.next_deadline());
  return first == nic::kNever ? weft::kNever : static_cast<TimeNs>(first);
}

void IncStage::on_timer(pipeline::Context& context, std::uint32_t token) {
  const auto now = static_cast<nic::Time>(context.now);
  for (RunningGroup* group : table_->groups()) {
    if (group->unit.next_deadline() > now) continue;
    touch(*group);
    emitter_.begin(context, *group);
    group->unit.on_timer(now, emitter_);
    emitter_.finish();
  }
  count_groups(context);
  context.at(deadline(token));
}

/// Once per burst, for the groups that had packets in it.
void IncStage::count_groups(pipeline::Context& context) noexcept {
  for (RunningGroup* group : touched_) {
    const GroupCounters& now = group->unit.counters();
    // One by one: a copy of all would load two at a time, which waits for the stores of those that have just changed.
    const auto add = [&](IncCounter counter, std::uint64_t GroupCounters::*field) {
      count(counter, now.*field - group->counted.*field);
      group->counted.*field = now.*field;
    };
    add(IncCounter::contributions, &GroupCounters::contributions);
    add(IncCounter::completed, &GroupCounters::completed);
    add(IncCounter::duplicates, &GroupCounters::duplicates);
    add(IncCounter::rnr_naks, &GroupCounters::rnr_naks);
    add(IncCounter::resent, &GroupCounters::resent);
    add(IncCounter::ahead, &GroupCounters::ahead);
    group->begun = count_on(group->begun, group->unit.table().next_sequence());
    group->touched = false;
    group->adds_unchecked = group->unit.adds_unchecked();
    // A timer that is too early does no harm: on_timer() asks for the next one.
    const nic::Time wanted = group->unit.next_deadline();
    if (wanted != nic::kNever) context.at_latest(static_cast<TimeNs>(wanted));
    if (group->unit.failure() && !group->failed) {
      group->failed = true;
      count(IncCounter::failed);
    }
  }
  touched_.clear();
}

void IncStage::learn(const rte_mbuf* m, Edge& edge) const noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const auto& eth = wire::header_at<wire::EthernetHeader>(pipeline::frame(m));
  if (pm.in_port >= info_.ports.size() || eth.source.is_multicast()) return;
  edge.neighbour.learn({eth.source, pm.in_port, pm.parsed.has(wire::ParsedFlag::vlan_tagged), pm.parsed.vlan_tci});
}

void IncStage::on_arp(pipeline::Context& context, Batch& batch, std::uint16_t i) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PacketMeta& pm = pipeline::meta(m);
  if (pm.parsed.validity != wire::Validity::ok || pm.in_port >= info_.ports.size()) return;
  const auto& arp = wire::header_at<wire::ArpHeader>(pipeline::frame(m) + pm.parsed.l3_offset);
  const auto sender = wire::IpAddress::v4(arp.sender_ip.value()), target = wire::IpAddress::v4(arp.target_ip.value());
  if (!answers_for(target)) return;
  table_->for_each_edge(target, sender, [&](RunningGroup& group, std::size_t e) { learn(m, group.edges[e]); });
  if (arp.operation.value() == wire::ArpOperation::request &&
      emitter_.answer(context, m, target, sender, arp.sender_mac)) {
    count(IncCounter::answered);
  }
  context.consume(batch, i);
}

void IncStage::on_neighbour(pipeline::Context& context, Batch& batch, std::uint16_t i) noexcept {
  const rte_mbuf* m = batch.packet[i];
  const PacketMeta& pm = pipeline::meta(m);
  if (pm.in_port >= info_.ports.size()) return;
  const auto message = wire::read_neighbour(pipeline::frame(m), m->data_len, pm.parsed);
  if (!message || (message->source.is_unspecified() && message->mac)) return;  // RFC 4861 7.1.1
  const bool asks = message->type == wire::Icmpv6Type::neighbour_solicitation;
  const wire::IpAddress& ours = asks ? message->target : message->destination;
  const wire::IpAddress& theirs = asks ? message->source : message->target;
  if (!answers_for(ours)) return;
  table_->for_each_edge(ours, theirs, [&](RunningGroup& group, std::size_t e) { learn(m, group.edges[e]); });
  const auto& eth = wire::header_at<wire::EthernetHeader>(pipeline::frame(m));
  if (asks && emitter_.answer(context, m, ours, theirs, message->mac.value_or(eth.source))) {
    count(IncCounter::answered);
  }
  context.consume(batch, i);
}

/// Of an endpoint, and of no router on the switch.
bool IncStage::answers_for(const wire::IpAddress& address) const noexcept {
  return table_->has_address(address) &&
         std::find(own_addresses_.begin(), own_addresses_.end(), address) == own_addresses_.end();
}

namespace {

/// Groups that cannot be, that contradict each other, or that need more memory than there is.
void check_options(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  const Offer offer = read_offer(options);
  std::vector<GroupSpec> good;
  std::size_t bytes = 0;
  std::map<std::uint32_t, std::size_t> blocks;  // bytes that the largest group of each needs
  for (const Value& value : options["groups"].list_or_empty()) {
    GroupSpec spec;
    auto error = read_group(value, info, spec);
    if (!error) error = offer.refusal(spec);
    for (const GroupSpec& other : good) {
      if (!error) error = conflict(spec, other);
    }
    if (error) {
      diagnostics.error(value.mark(), "groups: group " + std::to_string(value["id"].integer()) + ": " + *error);
      continue;
    }
    const std::size_t needs = MemoryPool::rounded(IncEngine::memory_bytes(spec.config));
    std::size_t own = 0;
    std::size_t& there = spec.block ? blocks[*spec.block] : own;
    bytes += needs - std::min(needs, there);
    there = std::max(there, needs);
    good.push_back(std::move(spec));
  }
  const std::size_t memory = options["memory_kb"].unsigned_integer() * 1024;
  if (bytes <= memory) return;
  diagnostics.error(options["groups"].mark(), "groups: their slots need " + std::to_string((bytes + 1023) / 1024) +
                                                  " KiB, and memory_kb is " + std::to_string(memory / 1024));
}

}  // namespace

pipeline::StageType inc_stage_type() {
  using Key = Schema::Key;
  pipeline::StageType type;
  type.name = "inc";
  type.summary = "Adds up what the ranks of collectives send, on the way (EPIC).";
  type.needs = {"parsed"};
  for (const char* forwarder : {"l2", "l3"}) {
    type.before.push_back({forwarder, "what it sends has to be forwarded"});
  }
  type.after = {{"lb_tag", "it reads packets without their tag"}};
  type.payload_aligned = true;
  type.options = Schema::map({
      Key::with_default("memory_kb", Schema::integer(1, 1 << 22), Value(4096),
                        "Memory for the slots of all groups of the switch, in units of 1024 bytes."),
      Key::optional_key("modes", Schema::list(Schema::one_of({"i", "ii", "iii"}), 1),
                        "Modes that groups may have here; without, all."),
      Key::optional_key("fan_in", Schema::integer(1, kMaxEndpoints - 1),
                        "Children that a group may have here at most; without, as many as it can."),
      Key::optional_key("groups", Schema::list(group_schema()), "Groups; `weftctl inc create` makes more."),
  });
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "collectives/stage/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {IncDrop::block()};
  type.check = check_options;
  type.commands = inc_commands();
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<IncShared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<IncStage>(build, dynamic_cast<IncShared&>(*shared));
  };
  return type;
}

}  // namespace weft::inc
