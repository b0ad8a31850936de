// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/conweave.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "switch/base/counter_news.h"
#include "switch/pipeline/made_frame.h"
#include "switch/pipeline/row_scan.h"
#include "switch/stages/lb_tag/conweave_burst.h"
#include "switch/wire/opcodes.h"

namespace weft::stages {

using nlohmann::ordered_json;
using pipeline::Context;

namespace {

constexpr std::size_t kPathsOfLeaf = CongestionTables::kPaths;
constexpr std::uint8_t kCe = static_cast<std::uint8_t>(wire::Ecn::ce);

constexpr Follows<LbTagCounter, ConweaveSourceCounts> kNear[] = {
    {LbTagCounter::conweave_epochs, &ConweaveSourceCounts::epochs},
    {LbTagCounter::conweave_reroutes, &ConweaveSourceCounts::reroutes},
    {LbTagCounter::conweave_stays, &ConweaveSourceCounts::stays},
    {LbTagCounter::conweave_replies, &ConweaveSourceCounts::replies},
    {LbTagCounter::conweave_late_replies, &ConweaveSourceCounts::late_replies},
    {LbTagCounter::conweave_stray_replies, &ConweaveSourceCounts::stray_replies},
    {LbTagCounter::conweave_lost_clears, &ConweaveSourceCounts::lost_clears},
    {LbTagCounter::conweave_evicted, &ConweaveSourceCounts::evicted},
};
constexpr Follows<LbTagCounter, ConweaveDestinationCounts> kFar[] = {
    {LbTagCounter::conweave_held_packets, &ConweaveDestinationCounts::held},
    {LbTagCounter::conweave_resumed, &ConweaveDestinationCounts::resumed},
    {LbTagCounter::conweave_flushed, &ConweaveDestinationCounts::flushed},
    {LbTagCounter::conweave_given_up, &ConweaveDestinationCounts::given_up},
    {LbTagCounter::conweave_no_queue, &ConweaveDestinationCounts::no_queue},
    {LbTagCounter::conweave_overflowed, &ConweaveDestinationCounts::overflowed},
    {LbTagCounter::conweave_stale, &ConweaveDestinationCounts::stale},
    {LbTagCounter::conweave_flows_full, &ConweaveDestinationCounts::flows_full},
    {LbTagCounter::conweave_evicted, &ConweaveDestinationCounts::evicted},
};

constexpr Follows<LbTagCounter, HeldRoomCounts> kRoom[] = {
    {LbTagCounter::conweave_port_full, &HeldRoomCounts::port_full},
    {LbTagCounter::conweave_buffer_full, &HeldRoomCounts::group_full},
};

const char* state_of(ConweaveFlow::State state) noexcept {
  switch (state) {
    case ConweaveFlow::State::free:
      break;
    case ConweaveFlow::State::asked:
      return "asked";
    case ConweaveFlow::State::stable:
      return "stable";
    case ConweaveFlow::State::rerouted:
      return "rerouted";
  }
  return "free";
}

}  // namespace

ConweaveLeaf::ConweaveLeaf(LbTagShared& shared, std::uint16_t worker)
    : shared_(shared),
      worker_(worker),
      near_(*shared.source(worker)),
      far_(shared.options().conweave->destination),
      room_(shared.port_count(), shared.options().conweave->max_port_bytes),
      next_notify_(shared.options().leaves.size() * kPathsOfLeaf) {}

bool ConweaveLeaf::arrived(Burst& burst, rte_mbuf* m, std::uint16_t from, const ConweaveLabel& label,
                           LbTagCounters& counters) noexcept {
  Context& context = burst.context();
  now_ = context.now;
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const bool marked = (parsed.tos & kCe) == kCe;
  if (marked && notify_is_due(context.now, from, label.path)) {
    answer(context, m, label.path, {ConweaveReply::Kind::notify, label.tag.epoch}, counters);
  }
  const FlowKey flow = FlowKey::of_qp(parsed);
  burst.begin(m);
  if (far_.passes(context.now, flow, label.tag)) {
    burst.deliver(number_of(m));
    return burst.in_place();
  }
  // Neither READ requests and atomics wait, nor what is no request, whoever has put this tag on it.
  const wire::OpcodeInfo& opcode = wire::opcode_info(parsed.opcode);
  const bool may_wait = parsed.kind == wire::FrameKind::roce && opcode.is_request() && opcode.may_carry_payload();
  far_.on_packet(context.now, flow, label.tag, may_wait, m->pkt_len, number_of(m), burst);
  for (const ConweaveReply& reply : burst.take_replies()) answer(context, m, label.path, reply, counters);
  return burst.in_place();
}

bool ConweaveLeaf::notify_is_due(TimeNs now, std::uint16_t leaf, std::uint8_t path) noexcept {
  TimeNs& next = next_notify_[leaf * kPathsOfLeaf + path];
  if (now < next) return false;
  next = now + shared_.options().conweave->notify_ns;
  return true;
}

// Back through the uplink that the packet came by: switches behind it know the way to its sender.
void ConweaveLeaf::answer(Context& context, const rte_mbuf* m, std::uint8_t path, const ConweaveReply& reply,
                          LbTagCounters& counters) noexcept {
  const pipeline::PacketMeta& pm = pipeline::meta(m);
  const ConweaveAnswer answer{shared_.id_of(shared_.self()), path, reply};
  rte_mbuf* const out = pipeline::make_frame(context, kMaxReplyBytes, [&](std::span<std::uint8_t> room) {
    return write_answer(room, pipeline::frame(m), pm.parsed, answer, shared_.options().conweave->reply_dscp);
  });
  if (out == nullptr) return counters.add(LbTagCounter::conweave_no_buffer);
  mark_.set_own(out);
  const bool notify = reply.kind == ConweaveReply::Kind::notify;
  counters.add(notify ? LbTagCounter::conweave_notifies_sent : LbTagCounter::conweave_replies_sent);
  counters.add(LbTagCounter::conweave_bytes_sent, out->pkt_len);
  context.send(out, pm.in_port);
}

void ConweaveLeaf::answered(TimeNs now, const rte_mbuf* m, std::uint16_t from, const ConweaveAnswer& answer,
                            LbTagCounters& counters) noexcept {
  now_ = now;
  shared_.on_answer(from, now);
  if (answer.reply.kind != ConweaveReply::Kind::notify) {
    const FlowKey flow = answered_flow(pipeline::frame(m), pipeline::meta(m).parsed);
    const std::uint16_t owner = shared_.owner(flow, worker_);
    if (owner == worker_) return near_.on_reply(now, flow, answer.reply);
    if (shared_.mails().ring(worker_, owner).push({flow, answer.reply})) {
      return counters.add(LbTagCounter::conweave_passed_over);
    }
    return counters.add(LbTagCounter::conweave_lost_mail);
  }
  const bool own = shared_.pauses().pause(from, answer.path, now + shared_.options().conweave->pause_ns);
  counters.add(own ? LbTagCounter::conweave_notifies : LbTagCounter::unknown_path);
}

void ConweaveLeaf::read_mail(TimeNs now) noexcept {
  now_ = now;
  ConweaveMail mail;
  for (std::uint16_t from = 0; from < shared_.mails().workers(); ++from) {
    while (shared_.mails().ring(from, worker_).pop(mail)) near_.on_reply(now, mail.flow, mail.reply);
  }
}

void ConweaveLeaf::on_timer(Context& context) noexcept {
  now_ = context.now;
  ReorderGoOn sink(context, &room_);
  far_.on_timer(context.now, sink);
}

void ConweaveLeaf::flush(Context& context) noexcept {
  ReorderGoOn sink(context, &room_);
  far_.flush(sink);
}

void ConweaveLeaf::for_each_held(const std::function<void(rte_mbuf*)>& use) const {
  far_.for_each([&](std::uint64_t packet) { use(packet_of(packet)); });
}

void ConweaveLeaf::adopt(ConweaveLeaf& old) noexcept {
  std::swap(far_, old.far_);
  std::swap(far_told_, old.far_told_);
  std::swap(room_, old.room_);
  std::swap(room_told_, old.room_told_);
  std::swap(near_told_, old.near_told_);
  std::swap(next_notify_, old.next_notify_);
  now_ = old.now_;
}

void ConweaveLeaf::publish(LbTagCounters& counters) noexcept {
  add_news(counters, kNear, near_.counts(), near_told_);
  add_news(counters, kFar, far_.counts(), far_told_);
  add_news(counters, kRoom, room_.counts(), room_told_);
  counters.set(LbTagCounter::conweave_held, far_.held());
  counters.set(LbTagCounter::conweave_held_bytes, far_.held_bytes());
  counters.set(LbTagCounter::conweave_queues, far_.queues_used());
  counters.set(LbTagCounter::conweave_peak_queues, far_.counts().peak_queues);
  counters.set(LbTagCounter::conweave_peak_packets, far_.buffer_counts().peak_packets);
  counters.set(LbTagCounter::conweave_peak_bytes, far_.buffer_counts().peak_bytes);
  counters.set(LbTagCounter::conweave_peak_port_bytes, room_.counts().peak_port_bytes);
}

ordered_json ConweaveLeaf::source_row(const ConweaveFlow& flow) const {
  return {{"edge", "source"},
          {"flow", flow.key.to_string()},
          {"epoch", flow.epoch},
          {"state", state_of(flow.state)},
          {"uplink", shared_.port_name(flow.path)},
          {"reroutes", flow.reroutes},
          {"held", nullptr},
          {"silent_us", (now_ - std::min(now_, flow.last)) / 1000}};
}

ordered_json ConweaveLeaf::destination_row(const ConweaveDestination::Flow& flow) const {
  const std::uint32_t held = far_.held(flow);
  return {{"edge", "destination"}, {"flow", flow.key.to_string()},
          {"epoch", flow.epoch},   {"state", held != 0 ? "waits" : flow.ordered ? "ordered" : "old path"},
          {"uplink", nullptr},     {"reroutes", nullptr},
          {"held", held},          {"silent_us", (now_ - std::min(now_, flow.last)) / 1000}};
}

ordered_json ConweaveLeaf::rows(std::uint64_t& cursor, std::size_t max) const {
  const std::size_t of_near = near_.entries().size(), all = of_near + far_.entries().size();
  return pipeline::scan_rows(cursor, max, all, [&](std::uint64_t at) {
    if (at < of_near) {
      const ConweaveFlow& flow = near_.entries()[at];
      const bool shown = near_.is_live(flow, now_) && flow.path != ConweavePaths::kNone;
      return shown ? source_row(flow) : ordered_json();
    }
    const ConweaveDestination::Flow& flow = far_.entries()[at - of_near];
    const bool shown = flow.known && now_ - std::min(now_, flow.last) <= far_.rules().age_ns;
    return shown ? destination_row(flow) : ordered_json();
  });
}

}  // namespace weft::stages
