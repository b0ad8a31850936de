// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/context.h"

namespace weft::inc {
namespace {

using wire::HeaderMask;
using wire::Opcode;
using wire::Syndrome;

constexpr std::uint32_t low(std::uint64_t sequence) noexcept {
  return static_cast<std::uint32_t>(sequence & wire::Psn::kMask);
}

}  // namespace

void Sink::replicate(const nic::Packet& packet, std::span<const Copy> copies, bool marked) {
  nic::Packet p = packet;
  for (const Copy& copy : copies) {
    p.psn = copy.psn;
    p.rkey = copy.rkey;
    p.remote_address = copy.remote_address;
    send(copy.to, p, marked);
  }
}

Context::Context(const GroupConfig& group) : group_(group), table_(group), answered_(group.endpoints.size()) {}

std::uint64_t Context::offset_of(EndpointIndex e, const nic::Packet& p) const noexcept {
  return p.info().has(HeaderMask::reth) ? p.remote_address - group_.endpoints[e].address : 0;
}

wire::Psn Context::unanswered(EndpointIndex e) const noexcept {
  return group_.endpoints[e].first_rx + low(answered_[e].packets);
}

void Context::acknowledge(EndpointIndex to, Sink& sink) const {
  if (answered_[to].packets != 0) send_ack(to, sink);
}

void Context::acknowledge_rnr(EndpointIndex to, Sink& sink) const {
  if (group_.rnr_acks && group_.endpoints[to].rank) send_ack(to, sink);
}

/// Before anything is answered it names the PSN in front of the first packet, which no requester waits for.
void Context::send_ack(EndpointIndex to, Sink& sink) const {
  const Answered& answered = answered_[to];
  nic::Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.psn = group_.endpoints[to].first_rx + low(answered.packets - 1);
  // No credits: a receiver counts them for the switch's messages to it, which are not those of `to`.
  p.syndrome = Syndrome::ack().raw();
  p.msn = answered.messages & 0xffffff;
  sink.send(to, p, false);
}

void Context::ask_for(EndpointIndex to, Syndrome syndrome, Sink& sink, std::optional<wire::Psn> sack) const {
  nic::Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.psn = unanswered(to);
  p.syndrome = syndrome.raw();
  p.msn = sack ? sack->value() : answered_[to].messages & 0xffffff;
  sink.send(to, p, false);
  if (syndrome.is_rnr_nak()) acknowledge_rnr(to, sink);
}

nic::Packet Context::translate(EndpointIndex to, const Place& place, const Slots& slots, const Slot& slot,
                               bool ack_req) const noexcept {
  Copy copy;
  copy_for(to, place, slot, copy);
  nic::Packet p;
  p.opcode = slot.opcode;
  p.psn = copy.psn;
  p.ack_req = ack_req || table_.ends_message(*place.invocation, place.index);
  p.solicited = slot.solicited;
  p.immediate = slot.immediate;
  p.dma_length = slot.dma_length;
  p.remote_address = copy.remote_address;
  p.rkey = copy.rkey;
  const std::uint8_t* const payload = slots.payload(slot);
  p.payload.set(payload != nullptr ? payload : said_of(place), slot.bytes);
  return p;
}

void Context::copy_for(EndpointIndex to, const Place& place, const Slot& slot, Copy& out) const noexcept {
  const bool reth = wire::opcode_info(slot.opcode).has(HeaderMask::reth);
  out.to = to;
  out.psn = table_.tx_psn(to, place);
  out.rkey = reth ? group_.endpoints[to].rkey : 0;
  out.remote_address = reth ? group_.endpoints[to].address + slot.offset : 0;
}

void Context::on_cnp(EndpointIndex from, const nic::Packet& p, Sink& sink) const {
  for (std::uint32_t n = table_.live(); n-- > 0;) {
    const Invocation& i = table_.live(n);
    if (!table_.role(from, i).receives) continue;
    if (everyone_takes_part(i)) {
      if (group_.endpoints[from].rank) sink.send(from, p, false);
      return;
    }
    for (EndpointIndex e = 0; e < endpoints(); ++e) {
      if (e != from && table_.role(e, i).sends) sink.send(e, p, false);
    }
    return;
  }
}

void Context::fail(Failure::Reason reason, EndpointIndex from, const Place& place, Sink& sink) {
  Failure failure{reason, from, {}, std::nullopt, {}};
  if (reason == Failure::Reason::disagreement) {
    failure.heard = table_.heard();
    const Invocation* begun = place.invocation;
    // Who sends nothing in the others' collective has no place there.
    for (std::uint32_t n = 0; n < table_.live() && begun == nullptr; ++n) {
      if (table_.live(n).message.sequence == failure.heard.sequence) begun = &table_.live(n);
    }
    if (begun != nullptr) {
      failure.others = begun->message;
      failure.others_are = begun->announced;
    }
  }
  failure_ = failure;
  for (EndpointIndex e = 0; e < endpoints(); ++e) refuse(e, sink);
}

void Context::refuse(EndpointIndex to, Sink& sink) const {
  ask_for(to, Syndrome::nak(wire::NakCode::remote_operational_error), sink);
}

}  // namespace weft::inc
