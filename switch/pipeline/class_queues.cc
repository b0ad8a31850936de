// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/class_queues.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"

namespace weft::pipeline {
namespace {

using qos::Admission;
using qos::kClasses;

// Most packets of a burst.
constexpr std::uint32_t kMostPackets = 64;
// Packets and bytes are summed in one word.
constexpr std::uint64_t kOnePacket = std::uint64_t{1} << 40;

constexpr std::uint8_t kCe = static_cast<std::uint8_t>(wire::Ecn::ce);

// Of a packet that is classified.
qos::PacketClass class_of(const rte_mbuf* m) noexcept {
  return {meta(m).queue_class};
}

}  // namespace

DropReason reason_of(Admission verdict) noexcept {
  switch (verdict) {
    case Admission::queue_limit:
      return DropReason::buffer_egress;
    case Admission::group_limit:
      return DropReason::buffer_ingress;
    default:
      return DropReason::headroom_full;
  }
}

void mark_ce(rte_mbuf* m) noexcept {
  wire::Parsed& parsed = meta(m).parsed;
  std::uint8_t* ip = frame(m) + parsed.l3_offset;
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    // The traffic class lies across the first two bytes: its lowest two bits are bits 4 and 5 of the second.
    ip[1] |= 0x30;
  } else {
    auto& header = wire::header_at<wire::Ipv4Header>(ip);
    wire::rewrite_tos(header, header.tos | kCe);
  }
  parsed.tos |= kCe;
}

ClassQueues::ClassQueues(const qos::Settings& settings, PortIndex port, std::uint32_t max_frame_bytes,
                         QosContext& context)
    : context_(context),
      port_(port),
      state_(&context.buffer.queue(port, 0)),
      scheduler_(settings.ports[port], max_frame_bytes),
      tc_to_queue_(settings.ports[port].map.tc_to_queue),
      tc_to_group_(settings.ports[port].map.tc_to_group),
      sender_(settings.ports[port]),
      receiver_(settings.ports[port]),
      watchdog_(settings.ports[port].watchdog) {
  for (unsigned q = 0; q < kClasses; ++q) {
    const auto& wred = settings.ports[port].wred[q];
    if (!wred) continue;
    wred_[q] = qos::Wred(*wred);
    if (wred->drop_by_curve || wred_[q].mark_on_arrival) wred_on_arrival_ |= static_cast<std::uint8_t>(1u << q);
  }
  on_arrival_ = wred_on_arrival_;
}

std::uint32_t ClassQueues::admit(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused,
                                 DropReason* why) {
  if (context_.buffer.shared_by_workers()) {
    return admit_shared(packets, count) ? 0 : admit_all<true>(packets, count, rng, refused, why);
  }
  return admit_burst(packets, count) ? 0 : admit_all<false>(packets, count, rng, refused, why);
}

// Charges a whole burst at once, per queue and group, when no limit is near. False when one is: then the caller admits
// packet by packet. This is for one worker, and for bursts of one port as this receives them.
bool ClassQueues::admit_burst(rte_mbuf* const* packets, std::uint32_t count) {
  qos::SharedBuffer& buffer = context_.buffer;
  const auto own = static_cast<PortIndex>(buffer.port_count());
  const PortIndex in = std::min(meta(packets[0]).in_port, own);
  const qos::Classifier& classifier = context_.classifiers[in];
  const PortIndex first = meta(packets[0]).in_port;
  std::uint64_t touched = 0;
  std::uint64_t bytes = 0;
  std::uint32_t other = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    PacketMeta& pm = meta(packets[i]);
    const std::uint8_t c = classifier.classify(pm.parsed).value;
    const std::uint32_t length = packets[i]->pkt_len;
    pm.queue_class = c;
    other |= pm.in_port ^ first;
    bytes += length;
    sums_[c] += kOnePacket | length;
    touched |= std::uint64_t{1} << c;
  }
  const std::uint64_t free = buffer.shared_free();
  std::uint8_t queues = 0;
  bool fits = other == 0 && bytes <= free;
  for (std::uint64_t left = touched; left != 0; left &= left - 1) {
    const qos::PacketClass c{static_cast<std::uint8_t>(std::countr_zero(left))};
    const auto& q = state_[c.queue()];
    const auto& g = buffer.group(in, c.group());
    fits &= q.limit.beyond_reserve(q.bytes.value() + bytes) <= q.limit.threshold(free - bytes);
    fits &= g.limit.beyond_reserve(g.bytes.value() + bytes) <= g.limit.threshold(free - bytes);
    queues |= static_cast<std::uint8_t>(1u << c.queue());
  }
  if (!fits || (queues & on_arrival_) != 0) {
    for (; touched != 0; touched &= touched - 1) sums_[std::countr_zero(touched)] = 0;
    return false;
  }
  std::uint64_t shared = 0;
  for (std::uint64_t left = touched; left != 0; left &= left - 1) {
    const qos::PacketClass c{static_cast<std::uint8_t>(std::countr_zero(left))};
    const std::uint64_t of_class = std::exchange(sums_[c.value], 0);
    shared += qos::SharedBuffer::charge_run(buffer.group(in, c.group()), state_[c.queue()], of_class & (kOnePacket - 1),
                                            of_class / kOnePacket);
  }
  buffer.use_shared<false>(shared);
  waiting_ |= queues;
  push_burst(packets, count, [in](qos::PacketClass c, const rte_mbuf*) {
    return static_cast<std::uint16_t>(in * kClasses + c.group());
  });
  return true;
}

// A burst by queue.
struct ClassQueues::QueueSums {
  std::uint8_t touched = 0;
  std::uint64_t sum[kClasses]{};  // packets << 40 | bytes

  void add(unsigned queue, std::uint32_t length) noexcept {
    touched |= static_cast<std::uint8_t>(1u << queue);
    sum[queue] += kOnePacket | length;
  }
  [[nodiscard]] bool fit(const qos::SharedBuffer::Queue* queues, std::uint64_t free) const noexcept {
    bool all = true;
    for (std::uint32_t left = touched; left != 0; left &= left - 1) {
      const auto queue = static_cast<unsigned>(std::countr_zero(left));
      all &= qos::SharedBuffer::fits(queues[queue], sum[queue] & (kOnePacket - 1), free);
    }
    return all;
  }
  void charge(qos::SharedBuffer::Queue* queues) const noexcept {
    for (std::uint32_t left = touched; left != 0; left &= left - 1) {
      const auto queue = static_cast<unsigned>(std::countr_zero(left));
      qos::SharedBuffer::charge_queue(queues[queue], sum[queue] & (kOnePacket - 1), sum[queue] / kOnePacket);
    }
  }
};

// The same with several workers, where packets that others have handed over are of several ports.
bool ClassQueues::admit_shared(rte_mbuf* const* packets, std::uint32_t count) {
  qos::SharedBuffer& buffer = context_.buffer;
  qos::GroupSums& groups = context_.sums;
  QueueSums queues;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = packets[i]->pkt_len;
    groups.add(context_.classify(packets[i]), length);
    queues.add(class_of(packets[i]).queue(), length);
  }
  const std::uint64_t free = context_.shared_free();
  const std::uint64_t left = free - std::min(free, groups.bytes());
  const bool fits =
      (queues.touched & on_arrival_) == 0 && queues.fit(state_, left) && buffer.charge(groups, free, context_.credit);
  groups.clear();
  if (!fits) return false;
  queues.charge(state_);
  waiting_ |= queues.touched;
  push_burst(packets, count, [this](qos::PacketClass, const rte_mbuf* m) { return context_.group_of(m); });
  return true;
}

// The same for packets that are charged to their groups already.
bool ClassQueues::queue_charged(rte_mbuf* const* packets, std::uint32_t count) {
  QueueSums queues;
  for (std::uint32_t i = 0; i < count; ++i) queues.add(class_of(packets[i]).queue(), packets[i]->pkt_len);
  if ((queues.touched & on_arrival_) != 0 || !queues.fit(state_, context_.shared_free())) return false;
  queues.charge(state_);
  waiting_ |= queues.touched;
  push_burst(packets, count, [this](qos::PacketClass, const rte_mbuf* m) { return context_.group_of(m); });
  return true;
}

// Queues packets that are charged already. The stock has a block for every buffer of the process, so that an empty
// stock is a defect of weft.
template <typename F>
void ClassQueues::push_burst(rte_mbuf* const* packets, std::uint32_t count, F&& group_of) {
  QosContext::Blocks& blocks = *context_.blocks;
  for (std::uint32_t i = 0; i < count; ++i) {
    rte_mbuf* m = packets[i];
    const qos::PacketClass c = class_of(m);
    const auto ecn = static_cast<std::uint8_t>(meta(m).parsed.tos & 3);
    if (!queues_[c.queue()].push(blocks, {m, m->pkt_len, group_of(c, m), ecn})) [[unlikely]]
      std::abort();
  }
}

template <bool kShared>
std::uint32_t ClassQueues::admit_all(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused,
                                     DropReason* why) {
  qos::SharedBuffer& buffer = context_.buffer;
  qos::SharedBuffer::Group* const groups = buffer.groups();
  const auto own = static_cast<PortIndex>(buffer.port_count());
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    rte_mbuf* m = packets[i];
    PacketMeta& pm = meta(m);
    const PortIndex in = std::min(pm.in_port, own);
    const qos::PacketClass place = context_.classifiers[in].classify(pm.parsed);
    const unsigned queue = place.queue();
    const auto group = static_cast<std::uint16_t>(in * kClasses + place.group());
    pm.queue_class = place.value;
    const auto ecn = static_cast<std::uint8_t>(pm.parsed.tos & 3);
    if ((on_arrival_ >> queue & 1) != 0 && refuse_on_arrival(m, queue, rng, why[out])) [[unlikely]] {
      refused[out++] = m;
      continue;
    }
    Admission verdict = buffer.admit<kShared>(groups[group], state_[queue], m->pkt_len);
    if (QosContext::keeps_room(m, verdict)) [[unlikely]] {
      buffer.charge(groups[group], state_[queue], m->pkt_len);
      verdict = Admission::admitted;
    }
    if (verdict == Admission::admitted) [[likely]] {
      if (queues_[queue].push(*context_.blocks, {m, m->pkt_len, group, ecn})) [[likely]] {
        waiting_ |= static_cast<std::uint8_t>(1u << queue);
        continue;
      }
      buffer.release(groups[group], state_[queue], m->pkt_len);
      why[out] = DropReason::egress_queue_full;
    } else {
      groups[group].drops.add<true>(1);
      why[out] = reason_of(verdict);
    }
    count_drop(queue, why[out]);
    refused[out++] = m;
  }
  return out;
}

std::uint32_t ClassQueues::admit_charged(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused,
                                         DropReason* why) {
  if (queue_charged(packets, count)) return 0;
  qos::SharedBuffer& buffer = context_.buffer;
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    rte_mbuf* m = packets[i];
    const unsigned queue = class_of(m).queue();
    const std::uint16_t group = context_.group_of(m);
    const auto refuse = [&] {
      buffer.release<true>(buffer.groups()[group], m->pkt_len);
      refused[out++] = m;
    };
    if ((on_arrival_ >> queue & 1) != 0 && refuse_on_arrival(m, queue, rng, why[out])) [[unlikely]] {
      refuse();
      continue;
    }
    if (!buffer.admit_to_queue(state_[queue], m->pkt_len)) [[unlikely]] {
      why[out] = DropReason::buffer_egress;
      count_drop(queue, why[out]);
      refuse();
      continue;
    }
    const auto ecn = static_cast<std::uint8_t>(meta(m).parsed.tos & 3);
    // There is a block for every buffer of the process.
    if (!queues_[queue].push(*context_.blocks, {m, m->pkt_len, group, ecn})) std::abort();
    waiting_ |= static_cast<std::uint8_t>(1u << queue);
  }
  return out;
}

bool ClassQueues::refuse_on_arrival(rte_mbuf* m, unsigned queue, Rng& rng, DropReason& why) noexcept {
  if ((stormed_ >> queue & 1) != 0) {
    why = DropReason::pfc_watchdog;
    counters_[queue].dropped_watchdog.add(1);
    return true;
  }
  if ((wred_on_arrival_ >> queue & 1) == 0) return false;
  const qos::Wred& wred = wred_[queue];
  const std::uint64_t depth = state_[queue].bytes.value();
  const std::uint8_t ecn = meta(m).parsed.tos & 3;
  // CE says that the packet is ECN-capable, too.
  if (ecn == 0 || !wred.ecn) {
    if (!wred.drop.hit(depth, rng.next())) return false;
    why = DropReason::wred;
    counters_[queue].dropped_wred.add(1);
    return true;
  }
  if (wred.mark_on_arrival && wire::is_ect(ecn) && wred.mark.hit(depth, rng.next())) {
    mark_ce(m);
    counters_[queue].ecn_marked.add(1);
    ce_marked_.add(1);
  }
  return false;
}

void ClassQueues::count_drop(unsigned queue, DropReason why) noexcept {
  QueueCounters& c = counters_[queue];
  switch (why) {
    case DropReason::buffer_ingress:
      return c.dropped_group.add(1);
    case DropReason::headroom_full:
      return c.dropped_headroom.add(1);
    default:
      return c.dropped_queue.add(1);
  }
}

struct ClassQueues::Burst {
  std::uint8_t touched = 0;
  std::uint64_t sum[kClasses]{};  // by queue: packets << 40 | bytes
  // Packets to be asked whether they are to be marked, bit i for packet i, with the bytes that each left in its queue.
  std::uint64_t asked = 0;
  unsigned coins = 64;
  std::uint64_t depth[kMostPackets];
  std::uint8_t place[kMostPackets];  // queue << 2 | ECN
};

std::uint16_t ClassQueues::take(TimeNs now, rte_mbuf** out, std::uint16_t max, Rng& rng) {
  std::uint16_t taken = 0;
  std::uint8_t ready = sendable();
  Burst burst;
  while (taken < max) {
    const std::uint8_t may = scheduler_.may_send(now, ready);
    if (may == 0) break;
    const auto turn = scheduler_.next(may);
    const std::uint64_t run = take_run(turn, out, taken, max, burst);
    taken = static_cast<std::uint16_t>(taken + run / kOnePacket);
    const bool emptied = queues_[turn.queue].empty();
    scheduler_.sent(now, turn.queue, run & (kOnePacket - 1), emptied);
    if (emptied) ready &= static_cast<std::uint8_t>(~(1u << turn.queue));
  }
  if (context_.buffer.shared_by_workers()) {
    context_.buffer.release(context_.sums, context_.credit);
  } else {
    context_.buffer.release(context_.sums);
  }
  context_.sums.clear();
  for (std::uint32_t left = burst.touched; left != 0; left &= left - 1) {
    const auto queue = static_cast<unsigned>(std::countr_zero(left));
    const std::uint64_t packets = burst.sum[queue] / kOnePacket;
    counters_[queue].packets.add(packets);
    counters_[queue].bytes.add(burst.sum[queue] & (kOnePacket - 1));
    state_[queue].packets.subtract<false>(packets);
    state_[queue].port_bytes->subtract<false>(burst.sum[queue] & (kOnePacket - 1));
    if (queues_[queue].empty()) waiting_ &= static_cast<std::uint8_t>(~(1u << queue));
  }
  if (burst.asked != 0) mark(out, burst, rng);
  return taken;
}

// A random trial per packet is slow. Instead, `coins` random words first keep each packet of the burst with probability
// 2^-coins, all packets at once; then only the packets that are kept have a trial each, with 2^coins times the
// probability of their curve. Saves 4 of 32 cycles per packet (micro_queues; bench/results/plain_forms.json).
void ClassQueues::mark(rte_mbuf* const* packets, const Burst& burst, Rng& rng) noexcept {
  FastDraws draws(rng.next());
  std::uint64_t left = burst.asked;
  for (unsigned i = 0; i < burst.coins; ++i) left &= draws.next();
  rte_mbuf* marked[kMostPackets];
  std::uint8_t queue_of[kMostPackets];
  std::uint32_t marks = 0;
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const std::uint8_t place = burst.place[i];
    marked[marks] = packets[i];
    queue_of[marks] = place >> 2;
    // Without a branch: its outcome is random, so the CPU would often predict it wrong.
    const unsigned capable = wire::is_ect(place & 3);
    const unsigned hit = wred_[place >> 2].mark.hit(burst.depth[i], burst.coins, draws.next());
    marks += capable & hit;
  }
  for (std::uint32_t i = 0; i < marks; ++i) {
    mark_ce(marked[i]);
    counters_[queue_of[i]].ecn_marked.add(1);
  }
  ce_marked_.add(marks);
}

// Returns packets << 40 | bytes.
std::uint64_t ClassQueues::take_run(qos::Scheduler::Turn turn, rte_mbuf** out, std::uint32_t first, std::uint32_t end,
                                    Burst& burst) {
  qos::SharedBuffer::Queue& state = state_[turn.queue];
  const qos::Wred& wred = wred_[turn.queue];
  const std::uint64_t before = state.bytes.value();
  // Most of the time the queue is too short for marks, and no packet needs a trial.
  const bool marking = before > wred.mark.min_bytes() && !wred.mark_on_arrival;
  std::uint64_t run = 0;
  if (marking) {
    run = move_run<true>(turn, before, out, first, end, burst);
    const std::uint64_t packets = run / kOnePacket;
    burst.asked |= (~std::uint64_t{0} >> (64 - packets)) << first;
    burst.coins = std::min(burst.coins, before > wred.mark.max_bytes() ? 0 : wred.mark.halvings());
  } else {
    run = move_run<false>(turn, before, out, first, end, burst);
  }
  state.bytes.set(before - (run & (kOnePacket - 1)));
  burst.sum[turn.queue] += run;
  burst.touched |= static_cast<std::uint8_t>(1u << turn.queue);
  return run;
}

template <bool kMarking>
std::uint64_t ClassQueues::move_run(qos::Scheduler::Turn turn, std::uint64_t depth, rte_mbuf** out, std::uint32_t first,
                                    std::uint32_t end, Burst& burst) {
  auto& queue = queues_[turn.queue];
  const std::uint64_t before = depth;
  std::uint32_t ce = 0;
  std::uint16_t group = queue.front().group;
  std::uint64_t of_group = depth;  // the depth when its packets began
  std::uint32_t at = first;
  std::int64_t left = turn.bytes;
  while (at < end && left > 0 && !queue.empty()) {
    const std::span<const QueuedPacket> items = queue.front_run();
    const auto most = std::min<std::uint32_t>(static_cast<std::uint32_t>(items.size()), end - at);
    std::uint32_t n = 0;
    for (; n < most && left > 0; ++n) {
      const QueuedPacket& p = items[n];
      rte_prefetch0(p.packet);
      out[at + n] = p.packet;
      if (p.group != group) [[unlikely]] {
        context_.sums.add(group, of_group - depth);
        group = p.group;
        of_group = depth;
      }
      left -= p.length;
      depth -= p.length;
      ce += p.ecn == kCe ? 1 : 0;
      if constexpr (kMarking) {
        burst.depth[at + n] = depth;
        burst.place[at + n] = static_cast<std::uint8_t>(turn.queue << 2 | p.ecn);
      }
    }
    queue.pop_run(*context_.blocks, n);
    at += n;
  }
  if (!queue.empty()) {
    // A caller that takes single packets at the pace of a link writes to the next packet's record in its next call.
    rte_prefetch0(queue.front().packet);
    rte_prefetch0(queue.front().packet + 1);
  }
  context_.sums.add(group, of_group - depth);
  if (ce != 0) counters_[turn.queue].ecn_ce.add(ce);
  return (at - first) * kOnePacket | (before - depth);
}

rte_mbuf* ClassQueues::pop(unsigned queue) {
  const QueuedPacket p = queues_[queue].pop(*context_.blocks);
  context_.buffer.release(context_.buffer.groups()[p.group], state_[queue], p.length);
  if (queues_[queue].empty()) waiting_ &= static_cast<std::uint8_t>(~(1u << queue));
  return p.packet;
}

std::uint16_t ClassQueues::take_stormed(rte_mbuf** out, std::uint16_t max) {
  std::uint16_t taken = 0;
  while (rte_mbuf* m = taken < max ? refused_.take(stormed_) : nullptr) {
    out[taken++] = m;
    counters_[class_of(m).queue()].dropped_watchdog.add(1);
    if (by_class_) stopped_ = refused_.queues();
  }
  while (taken < max && (waiting_ & stormed_) != 0) {
    const auto queue = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(waiting_ & stormed_)));
    out[taken++] = pop(queue);
    counters_[queue].dropped_watchdog.add(1);
  }
  return taken;
}

rte_mbuf* ClassQueues::take_any() {
  if (rte_mbuf* m = refused_.take(0xff)) {
    if (by_class_) stopped_ = refused_.queues();
    return m;
  }
  return waiting_ == 0 ? nullptr : pop(static_cast<unsigned>(std::countr_zero(waiting_)));
}

void ClassQueues::force(rte_mbuf* m) {
  const PortIndex in = std::min(meta(m).in_port, static_cast<PortIndex>(context_.buffer.port_count()));
  const qos::PacketClass place = context_.classifiers[in].classify(meta(m).parsed);
  const auto group = static_cast<std::uint16_t>(in * kClasses + place.group());
  meta(m).queue_class = place.value;
  const QueuedPacket p{m, m->pkt_len, group, static_cast<std::uint8_t>(meta(m).parsed.tos & 3)};
  // There is a block for every buffer of the process, and it comes from another queue.
  if (!queues_[place.queue()].push(*context_.blocks, p)) std::abort();
  context_.buffer.charge(context_.buffer.groups()[group], state_[place.queue()], m->pkt_len);
  waiting_ |= static_cast<std::uint8_t>(1u << place.queue());
}

std::uint8_t ClassQueues::queues_of(std::uint8_t priorities) const noexcept {
  std::uint8_t queues = 0;
  for (unsigned tc = 0; tc < kClasses; ++tc) {
    if ((priorities >> tc & 1) != 0) queues |= static_cast<std::uint8_t>(1u << tc_to_queue_[tc]);
  }
  return queues;
}

std::uint8_t ClassQueues::waiting_priorities() const noexcept {
  const std::uint8_t queues = waiting_ | refused_.queues();
  std::uint8_t priorities = 0;
  for (unsigned tc = 0; tc < kClasses; ++tc) {
    if ((queues >> tc_to_queue_[tc] & 1) != 0) priorities |= static_cast<std::uint8_t>(1u << tc);
  }
  return priorities;
}

void ClassQueues::look_at_pauses(TimeNs now) noexcept {
  const std::uint8_t paused = receiver_.paused(now);
  if ((paused | blocked_ | watchdog_.storm()) == 0) [[likely]]
    return;
  const std::uint8_t storm = watchdog_.step(now, receiver_, waiting_priorities());
  blocked_ = queues_of(paused & ~storm);
  stormed_ = watchdog_.drops() ? queues_of(storm) : 0;
  on_arrival_ = wred_on_arrival_ | stormed_;
}

ClassQueues::GroupStates ClassQueues::group_states() const noexcept {
  GroupStates states{};
  // Nobody asks whether the peer may go on when it has not been stopped.
  const bool pauses = sender_.paused() != 0;
  if (!pauses && context_.buffer.none_is_full()) return states;
  for (std::uint32_t left = sender_.priorities(); left != 0; left &= left - 1) {
    const auto tc = static_cast<unsigned>(std::countr_zero(left));
    const auto& group = context_.buffer.group(port_, tc_to_group_[tc]);
    if (context_.buffer.xoff(group)) {
      states.xoff |= static_cast<std::uint8_t>(1u << tc);
    } else if (pauses && context_.buffer.xon(group)) {
      states.xon |= static_cast<std::uint8_t>(1u << tc);
    }
  }
  return states;
}

std::uint32_t ClassQueues::depth() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t left = waiting_; left != 0; left &= left - 1)
    sum += state_[std::countr_zero(left)].packets.value();
  return static_cast<std::uint32_t>(sum);
}

std::uint32_t ClassQueues::size() const noexcept {
  std::uint64_t sum = 0;
  for (unsigned q = 0; q < kClasses; ++q) sum += state_[q].packets.value();
  return static_cast<std::uint32_t>(sum);
}

TimeNs ClassQueues::deadline() const noexcept {
  if ((waiting_ & stormed_) != 0 || refused_sendable()) return 0;
  TimeNs next = kNever;
  if (sender_.enabled()) {
    const auto [xoff, xon] = group_states();
    next = sender_.due(0, xoff, xon) ? 0 : sender_.refresh_at();
  }
  if (const std::uint8_t ready = sendable(); ready != 0) next = std::min(next, scheduler_.opens_at(ready));
  if ((receiver_.last_paused() | watchdog_.storm()) != 0) {
    next = std::min(next, receiver_.next_end());
    next = std::min(next, watchdog_.deadline(receiver_, waiting_priorities()));
  }
  return next;
}

void ClassQueues::adopt_state(const ClassQueues& old) noexcept {
  sender_.adopt(old.sender_);
  receiver_.adopt(old.receiver_);
  watchdog_.adopt(old.watchdog_);
  for (unsigned q = 0; q < kClasses; ++q) {
    for (auto counter :
         {&QueueCounters::packets, &QueueCounters::bytes, &QueueCounters::ecn_marked, &QueueCounters::ecn_ce,
          &QueueCounters::dropped_queue, &QueueCounters::dropped_group, &QueueCounters::dropped_headroom,
          &QueueCounters::dropped_wred, &QueueCounters::dropped_watchdog}) {
      (counters_[q].*counter).carry(old.counters_[q].*counter);
    }
  }
  ce_marked_.carry(old.ce_marked_);
}

}  // namespace weft::pipeline
