// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/host_path.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collectives/comm/combine.h"

namespace weft::inc::comm {
namespace {

/// What a connection may have under way beside the messages of a work: an agreement that was given up, and two
/// announcements, of the round in which a rank lost its switches and of the next one.
constexpr std::uint32_t kStrays = 4;

/// Receives that a connection has posted. A partner that is a step ahead finds room for its window.
constexpr std::uint32_t receives(const MessageShape& shape) noexcept {
  return 2 * shape.window + kStrays;
}

/// The immediate of an announcement, and of a message of a work that belongs to a round, names the round. Messages of
/// other works have none.
constexpr std::uint32_t kAnnounces = std::uint32_t{1} << 31, kRounds = kAnnounces - 1;

/// Rounds go round, too.
constexpr bool is_later(std::uint32_t round, std::uint32_t than) noexcept {
  const std::uint32_t ahead = (round - than) & kRounds;
  return ahead != 0 && ahead < kRounds / 2;
}

/// Of sends that belong to no work; works are counted from 1.
constexpr std::uint64_t kNoWork = 0;

}  // namespace

HostPath::HostPath(Transport& transport, std::uint32_t rank, std::uint32_t ranks, const MessageShape& shape)
    : transport_(transport), rank_(rank), ranks_(ranks), shape_(shape) {
  const std::uint32_t count = partners(ranks);
  if (count == 0) return;
  for (Partner p = 0; p < count; ++p) {
    connections_.push_back({transport_.create_qp({shape_.mtu, shape_.window + kStrays, receives(shape_)}), false, {}});
    ends_.push_back(connections_.back().qp->end());
  }
  // Behind all else that can be refused: nobody would forget the key.
  memory_.resize(std::size_t{count} * receives(shape_) * shape_.message_bytes());
  key_ = transport_.register_memory(memory_.data(), memory_.size());
  for (Partner p = 0; p < count; ++p) {
    for (std::uint32_t slot = 0; slot < receives(shape_); ++slot) post_receive(p, slot);
  }
}

HostPath::~HostPath() {
  connections_.clear();
  if (!memory_.empty()) transport_.forget(key_);
}

std::uint8_t* HostPath::buffer(Partner partner, std::uint64_t slot) noexcept {
  return memory_.data() + (std::size_t{partner} * receives(shape_) + slot) * shape_.message_bytes();
}

ConnectState HostPath::connect(std::span<const QpEnd> peers) {
  ConnectState state = ConnectState::connected;
  for (Partner p = 0; p < connections_.size(); ++p) {
    Connection& c = connections_[p];
    if (c.connected) continue;
    const ConnectState one = c.qp->connect(peers[p], peers[p].first_psn);
    if (one == ConnectState::unreachable) {
      fail(p, peers[p].address.to_string() + " cannot be reached");
      return one;
    }
    c.connected = one == ConnectState::connected;
    if (!c.connected) state = one;
  }
  return state;
}

void HostPath::begin(Work work) {
  if (strays_ > 0) forget_strays();
  work_ = std::move(work);
  ++number_;
  sent_ = acked_ = arrived_ = {};
  settle(sent_, &Step::send);
  settle(acked_, &Step::send);
  settle(arrived_, &Step::receive);
}

void HostPath::next_round() noexcept {
  round_ = (round_ + 1) & kRounds;
  behind_ = false;
}

void HostPath::announce() {
  for (Partner p = 0; p < connections_.size() && error_.empty(); ++p) {
    if (connections_[p].qp->send(kNoWork, memory_.data(), 0, key_, kAnnounces | round_)) {
      ++strays_;
    } else {
      fail(p, "a work request was refused");
    }
  }
}

void HostPath::listen() {
  std::array<Completion, 1> wc;
  for (Partner p = 0; p < connections_.size(); ++p) {
    while (error_.empty() && connections_[p].qp->poll_received(wc) > 0) {
      if (!wc[0].error.empty()) {
        fail(p, wc[0].error);
      } else if (!drop(p, wc[0])) {
        behind_ |= is_ahead(wc[0]);
        connections_[p].held.push_back(wc[0]);
      }
    }
  }
}

void HostPath::abandon() noexcept {
  strays_ += std::exchange(outstanding_, 0);
  work_ = {};
  sent_ = acked_ = arrived_ = {};
}

/// Between works all that is acknowledged is of no work.
void HostPath::forget_strays() {
  std::array<Completion, 16> wc;
  for (Connection& c : connections_) {
    for (std::size_t n = c.qp->poll_sent(wc); n > 0; n = c.qp->poll_sent(wc)) strays_ -= n;
  }
}

std::uint8_t* HostPath::at(std::uint64_t offset) const noexcept {
  const bool result = work_.result_at <= offset && offset < work_.result_end;
  return result ? work_.result + (offset - work_.result_at) : work_.vector + offset;
}

/// Goes on to the step that has more of it.
void HostPath::settle(Place& place, Step::Part Step::*part) const noexcept {
  const Schedule& all = work_.schedule;
  while (place.step < all.size() && place.messages == messages(all[place.step].*part)) place = {place.step + 1, 0};
}

std::uint64_t HostPath::messages(const Step::Part& part) const noexcept {
  if (!part.active) return 0;
  return std::max<std::uint64_t>(1, (part.bytes + shape_.message_bytes() - 1) / shape_.message_bytes());
}

std::uint32_t HostPath::bytes_of(const Step::Part& part, std::uint64_t message) const noexcept {
  const std::uint64_t before = message * shape_.message_bytes();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(shape_.message_bytes(), part.bytes - before));
}

void HostPath::post_receive(Partner partner, std::uint64_t slot) {
  if (!connections_[partner].qp->receive(slot, buffer(partner, slot), shape_.message_bytes(), key_)) {
    fail(partner, "no room for a receive");
  }
}

/// The next message may be sent when what it takes from the vector is there.
bool HostPath::may_send() const noexcept {
  const Step::Part& part = work_.schedule[sent_.step].send;
  if (arrived_.step >= sent_.step) return true;
  // A message without data says that all before it has come.
  if (arrived_.step + 1 < sent_.step || part.bytes == 0) return false;
  const Step::Part& waits = work_.schedule[arrived_.step].receive;
  const std::uint64_t begin = part.offset + sent_.messages * shape_.message_bytes();
  const std::uint64_t missing = waits.offset + arrived_.messages * shape_.message_bytes();
  return begin + bytes_of(part, sent_.messages) <= missing || waits.offset + waits.bytes <= begin;
}

bool HostPath::send() {
  bool some = false;
  while (sent_.step < work_.schedule.size() && outstanding_ < shape_.window && error_.empty() && may_send()) {
    const Step& step = work_.schedule[sent_.step];
    if (!send_message(step)) fail(step.send.partner, "a work request was refused");
    ++sent_.messages;
    ++outstanding_;
    settle(sent_, &Step::send);
    some = true;
  }
  return some;
}

bool HostPath::send_message(const Step& step) {
  const Step::Part& part = step.send;
  const std::uint64_t offset = part.offset + sent_.messages * shape_.message_bytes();
  const std::uint32_t bytes = bytes_of(part, sent_.messages);
  // A message without data has no memory.
  const void* data = memory_.data();
  std::uint32_t key = key_;
  if (bytes > 0 && work_.own != nullptr && step.sends_own) {
    if (step.keeps_own) std::memcpy(at(offset), own(offset), bytes);
    data = own(offset);
    key = work_.own_key;
  } else if (bytes > 0) {
    data = work_.vector + offset;
    key = work_.key;
  }
  const auto immediate = work_.of_round ? std::optional(round_) : std::nullopt;
  return connections_[part.partner].qp->send(number_, data, bytes, key, immediate);
}

bool HostPath::take_acks() {
  bool some = false;
  std::array<Completion, 16> wc;
  while (outstanding_ > 0) {
    const Step::Part& part = work_.schedule[acked_.step].send;
    // Those of a later step stay where they are: it may have another partner.
    const std::size_t most = std::min<std::uint64_t>(wc.size(), messages(part) - acked_.messages);
    const std::size_t n = connections_[part.partner].qp->poll_sent(std::span(wc).first(most));
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i) {
      if (!wc[i].error.empty()) return fail(part.partner, wc[i].error);
    }
    const auto of_work = static_cast<std::uint64_t>(
        std::count_if(wc.begin(), wc.begin() + n, [&](const Completion& one) { return one.wr_id == number_; }));
    strays_ -= n - of_work;
    acked_.messages += of_work;
    outstanding_ -= of_work;
    settle(acked_, &Step::send);
    some = true;
  }
  return some;
}

/// What was sent may have to be sent again until it is acknowledged, and must not be overwritten.
bool HostPath::may_receive() const noexcept {
  if (arrived_.step <= acked_.step) return true;
  if (arrived_.step > acked_.step + 1) return false;
  const Step::Part& sent = work_.schedule[acked_.step].send;
  const Step::Part& part = work_.schedule[arrived_.step].receive;
  return sent.offset + sent.bytes <= part.offset || part.offset + part.bytes <= sent.offset;
}

/// Of a round that is over, or an announcement: its receive is posted again.
bool HostPath::drop(Partner partner, const Completion& wc) {
  if (!wc.error.empty() || !wc.immediate) return false;
  const std::uint32_t round = *wc.immediate & kRounds;
  const bool later = is_later(round, round_);
  const bool announces = (*wc.immediate & kAnnounces) != 0;
  if (!announces && (later || round == round_)) return false;
  behind_ |= announces && later;
  post_receive(partner, wc.wr_id);
  return true;
}

/// While this rank is at a work of its round: of a work that comes behind it.
bool HostPath::is_ahead(const Completion& wc) const noexcept {
  return !wc.immediate || is_later(*wc.immediate & kRounds, round_);
}

/// The next messages of works that a partner has sent.
std::size_t HostPath::take(Partner partner, std::span<Completion> out) {
  Connection& c = connections_[partner];
  std::size_t n = 0;
  for (; n < out.size() && !c.held.empty(); c.held.pop_front()) {
    if (!drop(partner, c.held.front())) out[n++] = c.held.front();
  }
  while (n == 0) {
    const std::size_t polled = c.qp->poll_received(out);
    if (polled == 0) break;
    const auto end = std::remove_if(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(polled),
                                    [&](const Completion& wc) { return drop(partner, wc); });
    n = static_cast<std::size_t>(end - out.begin());
  }
  return n;
}

bool HostPath::receive() {
  bool some = false;
  std::array<Completion, 16> wc;
  while (arrived_.step < work_.schedule.size() && may_receive()) {
    const Step& step = work_.schedule[arrived_.step];
    // Those of a later step stay where they are.
    const std::size_t most = std::min<std::uint64_t>(wc.size(), messages(step.receive) - arrived_.messages);
    const std::size_t n = take(step.receive.partner, std::span(wc).first(most));
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i) {
      if (work_.of_round && wc[i].error.empty() && is_ahead(wc[i])) {
        // The partner has no part in this work.
        auto& held = connections_[step.receive.partner].held;
        held.insert(held.begin(), wc.begin() + i, wc.begin() + n);
        behind_ = true;
        return true;
      }
      if (!received(step, wc[i])) return true;
    }
    settle(arrived_, &Step::receive);
    some = true;
  }
  return some;
}

bool HostPath::received(const Step& step, const Completion& wc) {
  const Step::Part& part = step.receive;
  if (!wc.error.empty()) return !fail(part.partner, wc.error);
  if (wc.immediate && !work_.of_round) {
    return !fail(part.partner, "it has lost its switches in another place: ranks run different collectives");
  }
  if (wc.bytes != bytes_of(part, arrived_.messages)) {
    return !fail(part.partner, "a message of " + std::to_string(wc.bytes) + " bytes came, not of " +
                                   std::to_string(bytes_of(part, arrived_.messages)) +
                                   ": ranks run different collectives");
  }
  if (wc.bytes > 0) {
    const std::uint64_t offset = part.offset + arrived_.messages * shape_.message_bytes();
    std::uint8_t* to = at(offset);
    const std::uint8_t* from = buffer(part.partner, wc.wr_id);
    if (work_.own != nullptr && step.adds_own && to != own(offset)) std::memcpy(to, own(offset), wc.bytes);
    if (step.combine) {
      combine(work_.type, work_.op, to, from, wc.bytes);
    } else {
      std::memcpy(to, from, wc.bytes);
    }
  }
  post_receive(part.partner, wc.wr_id);
  ++arrived_.messages;
  return error_.empty();
}

bool HostPath::progress() {
  if (idle() || !error_.empty()) return false;
  // In this order: each may let the next one go on. No part of an expression that could leave one of them out.
  const bool acks = take_acks(), arrivals = receive(), posts = send();
  return acks || arrivals || posts;
}

/// Always true: the first error stays.
bool HostPath::fail(Partner partner, std::string_view why) {
  if (error_.empty()) {
    error_ = "rank " + std::to_string(partner_rank(rank_, ranks_, partner)) + ": " + std::string(why);
  }
  return true;
}

}  // namespace weft::inc::comm
