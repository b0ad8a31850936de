// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/switch_path.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "collectives/comm/combine.h"
#include "collectives/comm/rank_progress.h"

namespace weft::inc::comm {

SwitchPath::SwitchPath(Transport& transport, std::uint32_t rank, const MessageShape& shape)
    : transport_(transport),
      rank_(rank),
      shape_(shape),
      receives_(2 * shape.window + 8),
      slot_bytes_(std::max<std::size_t>(shape.message_bytes(), kControlPayloadBytes)),
      qp_(transport.create_qp({shape.mtu, shape.window, receives_})),
      memory_((std::size_t{receives_} + shape.window) * slot_bytes_) {
  key_ = transport_.register_memory(memory_.data(), memory_.size());
  for (std::uint32_t slot = 0; slot < receives_; ++slot) post_receive(slot);
}

SwitchPath::~SwitchPath() {
  qp_.reset();
  transport_.forget(key_);
}

ConnectState SwitchPath::connect(const QpEnd& peer, std::uint32_t group, std::uint32_t window) {
  group_ = group;
  window_ = std::clamp<std::uint32_t>(window, 1, shape_.window);
  return qp_->connect(peer, std::nullopt);
}

std::uint8_t* SwitchPath::receive_slot(std::uint64_t slot) noexcept {
  return memory_.data() + (shape_.window + slot) * slot_bytes_;
}

void SwitchPath::post_receive(std::uint64_t slot) {
  if (!qp_->receive(slot, receive_slot(slot), static_cast<std::uint32_t>(slot_bytes_), key_)) {
    fail("no room for a receive");
  }
}

std::uint64_t SwitchPath::messages(const Pending& p) const noexcept {
  return 1 + (p.control.bytes + shape_.message_bytes() - 1) / shape_.message_bytes();
}

bool SwitchPath::all_sent(const Pending& p) const noexcept {
  return !rank_sends(p.control, rank_) || p.posted == messages(p);
}

bool SwitchPath::all_came(const Pending& p) const noexcept {
  return !rank_receives(p.control, rank_) || p.arrived == messages(p);
}

/// A result to which everybody gives shows that the switch has what this rank gave: should it be asked for once more,
/// it is for the acknowledgement's sake, and the copy does.
bool SwitchPath::is_over(const Pending& p) const noexcept {
  if (!all_sent(p) || !all_came(p)) return false;
  const bool shown = rank_sends(p.control, rank_) && rank_receives(p.control, rank_);
  return p.acked == p.posted || (shown && (p.what.copied || p.control.bytes == 0));
}

void SwitchPath::submit(const Invocation& invocation) {
  const Invocation& i = invocation;
  queue_.push_back(
      {i,
       {i.primitive, i.op, i.type, static_cast<std::uint16_t>(submitted_), i.root, group_, i.bytes, i.turn, false},
       0,
       0,
       0});
  ++submitted_;
  if (i.turn == Turn::take) turn_.reset();
}

bool SwitchPath::all_posted() const noexcept {
  return std::all_of(queue_.begin(), queue_.end(), [&](const Pending& p) { return all_sent(p); });
}

bool SwitchPath::has_all(std::uint64_t invocation) const noexcept {
  if (invocation < completed()) return true;
  if (invocation >= submitted_) return false;
  const Pending& p = queue_[invocation - acknowledged()];
  // Who only sends does not know before its messages are acknowledged.
  return rank_receives(p.control, rank_) && all_came(p);
}

bool SwitchPath::is_through(std::uint64_t invocation) const noexcept {
  if (invocation < completed()) return true;
  if (invocation >= submitted_) return false;
  const Pending& p = queue_[invocation - acknowledged()];
  return all_sent(p) && all_came(p);
}

std::uint64_t SwitchPath::bytes_come(std::uint64_t invocation) const noexcept {
  if (invocation < completed() || invocation >= submitted_) return 0;
  const Pending& p = queue_[invocation - acknowledged()];
  // The first message is a control message.
  if (p.arrived <= 1) return 0;
  return std::min(p.control.bytes, (p.arrived - 1) * shape_.message_bytes());
}

bool SwitchPath::take_acks() {
  bool some = false;
  std::array<Completion, 16> wc;
  for (std::size_t n = qp_->poll_sent(wc); n > 0; n = qp_->poll_sent(wc)) {
    some = true;
    for (std::size_t i = 0; i < n; ++i) {
      if (!wc[i].error.empty()) {
        silent_ = error_.empty() && wc[i].silent;
        return fail(wc[i].error);
      }
      // Messages are acknowledged in the order in which they were posted.
      const auto first =
          std::find_if(queue_.begin(), queue_.end(), [](const Pending& p) { return p.acked < p.posted; });
      ++first->acked;
      --outstanding_;
    }
  }
  return some;
}

/// Messages come in the order of the invocations in which this rank receives. Those of one that has not been submitted
/// stay where they are.
bool SwitchPath::receive() {
  bool some = false;
  std::array<Completion, 1> wc;
  auto p = queue_.begin();
  while (error_.empty()) {
    p = std::find_if(p, queue_.end(), [&](const Pending& q) { return !all_came(q); });
    if (p == queue_.end() || qp_->poll_received(wc) == 0) return some;
    some = true;
    if (!received(*p, wc[0])) return true;
    post_receive(wc[0].wr_id);
  }
  return some;
}

bool SwitchPath::received(Pending& p, const Completion& wc) {
  if (!wc.error.empty()) return !fail(wc.error);
  if (p.arrived == 0) {
    const std::span<const std::uint8_t> payload(receive_slot(wc.wr_id), wc.bytes);
    ControlMessage heard;
    bool same = wc.immediate && !read_control(*wc.immediate, payload, heard);
    // Which is for the switches to say.
    const bool refused = std::exchange(heard.refused, false);
    same = same && heard == p.control;
    if (!same) return !fail("another collective than this rank's comes: ranks run different collectives");
    if (heard.turn == Turn::take) turn_ = !refused;
  } else if (!received_data(p, wc)) {
    return false;
  }
  ++p.arrived;
  return true;
}

bool SwitchPath::received_data(Pending& p, const Completion& wc) {
  const std::uint64_t offset = (p.arrived - 1) * shape_.message_bytes();
  const std::uint64_t right = std::min<std::uint64_t>(shape_.message_bytes(), p.control.bytes - offset);
  if (wc.immediate || wc.bytes != right) {
    return !fail("a message of " + std::to_string(wc.bytes) + " bytes came, not of " + std::to_string(right));
  }
  std::uint8_t* to = p.what.receive + offset;
  const std::uint8_t* from = receive_slot(wc.wr_id);
  const std::uint8_t* own = p.what.own == nullptr ? nullptr : p.what.own + offset;
  if (own == to) {
    combine(p.control.type, p.control.op, to, from, wc.bytes);
    return true;
  }
  std::memcpy(to, from, wc.bytes);
  if (own != nullptr) combine(p.control.type, p.control.op, to, own, wc.bytes);
  return true;
}

bool SwitchPath::post_message(Pending& p) {
  bool taken = false;
  if (p.posted == 0) {
    std::uint8_t* at = next_copy();
    const auto payload = control_payload(p.control);
    std::copy(payload.begin(), payload.end(), at);
    taken = qp_->send(0, at, kControlPayloadBytes, key_, control_immediate(p.control));
  } else {
    const std::uint64_t offset = (p.posted - 1) * shape_.message_bytes();
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(shape_.message_bytes(), p.control.bytes - offset));
    const std::uint8_t* from = p.what.send + offset;
    // A Broadcast's root has nothing to receive: what it gives is its result.
    std::uint8_t* to = p.what.primitive == Primitive::broadcast ? p.what.receive + offset : nullptr;
    if (to != nullptr && to != from) std::memcpy(to, from, bytes);
    std::uint32_t key = p.what.send_key;
    if (p.what.copied) {
      std::uint8_t* copy = next_copy();
      std::memcpy(copy, from, bytes);
      from = copy;
      key = key_;
    }
    taken = qp_->send(0, from, bytes, key, std::nullopt);
  }
  if (!taken) return !fail("a work request was refused");
  ++p.posted;
  ++outstanding_;
  return true;
}

/// An invocation begins when this rank has all that earlier ones bring it, and has sent all of them.
bool SwitchPath::post() {
  bool some = false;
  for (Pending& p : queue_) {
    if (p.control.turn == Turn::give && p.posted == 0 && outstanding_ > 0) break;
    while (!all_sent(p) && outstanding_ < window_) {
      if (!post_message(p)) return true;
      some = true;
    }
    if (!all_sent(p) || !all_came(p)) break;
  }
  return some;
}

bool SwitchPath::progress() {
  if (!error_.empty()) return false;
  const bool acks = take_acks(), arrivals = receive(), posts = error_.empty() && post();
  while (error_.empty() && over_ < queue_.size() && is_over(queue_[over_])) ++over_;
  for (; over_ > 0 && queue_.front().acked == queue_.front().posted; --over_) queue_.pop_front();
  return acks || arrivals || posts;
}

/// Always true: the first error stays.
bool SwitchPath::fail(std::string_view why) {
  if (error_.empty()) error_ = "switch: " + std::string(why);
  return true;
}

}  // namespace weft::inc::comm
