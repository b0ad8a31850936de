// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/resolver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "switch/stages/l3/drops.h"
#include "switch/stages/l3/messages.h"
#include "switch/wire/emit.h"
#include "switch/wire/parse.h"

namespace weft::stages {

using pipeline::Context;
using pipeline::DropReason;
using tables::NeighbourState;
using tables::NeighbourWord;
using wire::IpAddress;
using wire::MacAddress;

bool send_message(Context& context, L3Counters& counters, std::span<const std::uint8_t> frame,
                  pipeline::PortIndex port) noexcept {
  rte_mbuf* m = context.generate();
  if (m == nullptr) {
    counters.add(L3Counter::out_of_mbufs);
    return false;
  }
  char* room = rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size()));
  if (room == nullptr) {
    counters.add(L3Counter::out_of_mbufs);
    context.drop(m, DropReason::out_of_mbufs);
    return false;
  }
  std::memcpy(room, frame.data(), frame.size());
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
  context.send(m, port);
  return true;
}

L3Resolver::L3Resolver(const tables::Interfaces& interfaces, tables::NeighbourTable& neighbours, L3Counters& counters,
                       std::size_t pending_packets)
    : interfaces_(interfaces),
      neighbours_(neighbours),
      counters_(counters),
      pending_packets_(pending_packets),
      records_(kAtOnce),
      packets_(std::make_unique<rte_mbuf*[]>(kAtOnce * pending_packets)),
      slot_of_(neighbours.capacity() + 1, kNoSlot) {
  // Records that end while on_timer() runs make room for new ones before they leave the list.
  active_.reserve(2 * kAtOnce);
  for (std::uint16_t slot = kAtOnce; slot-- > 0;) free_.push_back(slot);
}

L3Resolver::Record* L3Resolver::start(Context& context, const Neighbour& neighbour) noexcept {
  if (free_.empty()) return nullptr;
  if (active_.empty()) generation_ = neighbours_.generation();
  const std::uint16_t slot = free_.back();
  free_.pop_back();
  active_.push_back(slot);
  slot_of_[neighbour.index] = slot;
  Record& record = records_[slot];
  record = {neighbour, 0, 0, 0};
  ask(context, record);
  come_closer(record.deadline);
  return &record;
}

bool L3Resolver::hold(Context& context, const Neighbour& neighbour, rte_mbuf* m) noexcept {
  Record* record = slot_of_[neighbour.index] == kNoSlot ? nullptr : &records_[slot_of_[neighbour.index]];
  if (record == nullptr) {
    neighbours_.keep(neighbour.index, context.now);
    record = start(context, neighbour);
  }
  if (record == nullptr || record->count == pending_packets_) return false;
  // The entry was given to another neighbour while this worker did not run for seconds: the record is about to end.
  if (record->neighbour.port != neighbour.port || record->neighbour.address != neighbour.address) return false;
  packets(slot_of_[neighbour.index])[record->count++] = m;
  ++held_;
  // Another worker may have got the answer since the caller looked.
  if (neighbours_.word(neighbour.index).usable()) come_closer(0);
  counters_.add(L3Counter::packets_queued);
  return true;
}

void L3Resolver::probe(Context& context, const Neighbour& neighbour) noexcept {
  // Without a free record no request is sent, and the table lets the entry expire.
  if (slot_of_[neighbour.index] == kNoSlot) start(context, neighbour);
}

void L3Resolver::ask(Context& context, Record& record) noexcept {
  ++record.attempts;
  record.deadline = context.now + kRetryNs;
  const NeighbourWord word = neighbours_.word(record.neighbour.index);
  if (kernel_ != nullptr)
    return kernel_->ask(worker_, {record.neighbour.port, record.neighbour.address, word.usable()});
  record.neighbour.address.is_v6() ? ask_v6(context, record, word) : ask_v4(context, record, word);
}

void L3Resolver::ask_v4(Context& context, const Record& record, NeighbourWord word) noexcept {
  const auto& [index, port, target] = record.neighbour;
  // An unnumbered port asks from another port's address; without any address at all it asks as RFC 5227 probes do.
  const IpAddress sender = interfaces_.answer_from(port, target).value_or(IpAddress{});
  const MacAddress to = word.usable() ? word.mac() : MacAddress::from_u64(0xffffffffffff);
  std::uint8_t frame[wire::kMinFrameBytes];
  const std::size_t bytes =
      wire::write_arp(frame, interfaces_[port].mac, to, wire::ArpOperation::request, sender, MacAddress{}, target);
  if (send_message(context, counters_, {frame, bytes}, port)) counters_.add(L3Counter::arp_requests_sent);
}

void L3Resolver::ask_v6(Context& context, const Record& record, NeighbourWord word) noexcept {
  const auto& [index, port, target] = record.neighbour;
  const IpAddress sender =
      interfaces_.ask_from(port, target).value_or(tables::link_local_address(interfaces_[port].mac));
  const IpAddress group = tables::solicited_node(target);
  const MacAddress to = word.usable() ? word.mac() : tables::multicast_mac(group);
  std::uint8_t frame[wire::kNeighbourBytes];
  const std::size_t bytes = wire::write_neighbour_solicitation(frame, {interfaces_[port].mac, to}, sender,
                                                               word.usable() ? target : group, target);
  if (send_message(context, counters_, {frame, bytes}, port)) counters_.add(L3Counter::nd_solicitations_sent);
}

void L3Resolver::on_timer(Context& context, Sink& sink) noexcept {
  generation_ = neighbours_.generation();
  deadline_ = kNever;
  std::size_t kept = 0;
  const std::size_t count = active_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t slot = active_[i];
    if (!advance(context, slot, sink)) continue;
    deadline_ = std::min(deadline_, records_[slot].deadline);
    active_[kept++] = slot;
  }
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(kept),
                active_.begin() + static_cast<std::ptrdiff_t>(count));
}

// One record. True while it goes on.
bool L3Resolver::advance(Context& context, std::uint16_t slot, Sink& sink) noexcept {
  Record& record = records_[slot];
  const auto& [index, port, address] = record.neighbour;
  // If this worker did not run for a long time, the entry may have been removed and reused for another neighbour.
  const Index current = neighbours_.find(port, address);
  const NeighbourWord word = neighbours_.word(current);
  const bool probing = word.state() == NeighbourState::probe && current == index;
  if (word.usable() && !(probing && record.count == 0)) {
    const pipeline::PortIndex out = port;
    const std::uint32_t count = close(record);
    for (std::uint32_t i = 0; i < count; ++i) sink.resolved(context, packets(slot)[i], out, word);
    free_.push_back(slot);
    return false;
  }
  if (record.deadline > context.now) return true;
  if (record.attempts < kAttempts) {
    ask(context, record);
    return true;
  }
  counters_.add(L3Counter::neighbours_failed);
  if (probing) neighbours_.end_probe(index, context.now);
  const std::uint32_t count = close(record);
  for (std::uint32_t i = 0; i < count; ++i) sink.failed(context, packets(slot)[i]);
  free_.push_back(slot);
  return false;
}

// Ends a record and returns how many packets it leaves to the caller, who then frees its slot.
std::uint32_t L3Resolver::close(Record& record) noexcept {
  slot_of_[record.neighbour.index] = kNoSlot;
  held_ -= record.count;
  return std::exchange(record.count, 0);
}

void L3Resolver::flush(Context& context) noexcept {
  for (const std::uint16_t slot : active_) {
    const std::uint32_t count = close(records_[slot]);
    for (std::uint32_t i = 0; i < count; ++i) context.drop(packets(slot)[i], DropReason::shutdown);
    free_.push_back(slot);
  }
  active_.clear();
  deadline_ = kNever;
}

void L3Resolver::adopt_one(Context& context, const Neighbour& neighbour, rte_mbuf* m, Sink& sink) noexcept {
  if (neighbour.index == neighbours_.nobody()) return context.drop(m, L3Drop::neighbour_unresolved);
  const NeighbourWord word = neighbours_.word(neighbour.index);
  if (word.usable()) return sink.resolved(context, m, neighbour.port, word);
  if (!hold(context, neighbour, m)) context.drop(m, L3Drop::neighbour_queue_full);
}

void L3Resolver::adopt(Context& context, L3Resolver& old, const pipeline::PortMap& ports, Sink& sink) noexcept {
  for (const std::uint16_t slot : old.active_) {
    Record& record = old.records_[slot];
    Neighbour neighbour = record.neighbour;
    neighbour.port = ports(neighbour.port);
    const bool there = neighbour.port != pipeline::kNoPort;
    const std::uint32_t count = old.close(record);
    if (there && count != 0) neighbour.index = neighbours_.find_or_add(neighbour.port, neighbour.address, context.now);
    for (std::uint32_t i = 0; i < count; ++i) {
      rte_mbuf* m = old.packets(slot)[i];
      if (there && ports.rename(m)) {
        adopt_one(context, neighbour, m, sink);
      } else {
        context.drop(m, DropReason::port_removed);
      }
    }
    old.free_.push_back(slot);
  }
  old.active_.clear();
  old.deadline_ = kNever;
}

}  // namespace weft::stages
