// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Of a Group: how it goes on when its switches are gone, and asks for others.
#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/comm/byte_order.h"
#include "collectives/comm/group.h"

namespace weft::inc::comm {
namespace {

/// Which numbers of collectives by the hosts are followed by a question for switches: soon, then seldom, since all
/// ranks hear of its answer.
constexpr bool is_pause(std::uint64_t hosted) noexcept {
  return hosted > 0 && ((hosted & (hosted - 1)) == 0 || hosted % 64 == 0);
}

/// Whether it may become better by itself.
bool may_pass(weft_inc_reason reason) noexcept {
  return reason == WEFT_INC_REASON_NO_DAEMON || reason == WEFT_INC_REASON_NO_MANAGER ||
         reason == WEFT_INC_REASON_NO_TREE || reason == WEFT_INC_REASON_SWITCH || reason == WEFT_INC_REASON_LOST;
}

}  // namespace

/// The switches do not have the group any more. If nobody has run anything beside them, the collectives that a rank has
/// behind it say where it is.
void Group::lose(const std::string& why) {
  const bool recovers = state_ == State::ready && reason_ == WEFT_INC_REASON_NONE && !by_hand_ && !mixed_ &&
                        settings_.backend == WEFT_INC_BACKEND_AUTO;
  if (!recovers) return fail(why);
  std::size_t whole = 0;
  while (whole < queue_.size() && queue_[whole]->has_all(*switch_)) ++whole;
  std::uint64_t stuck = 0;
  for (std::size_t i = whole; i < queue_.size(); ++i) stuck |= queue_[i]->can_begin_again(*switch_) ? 0 : 1;
  switch_->close(why);
  connected_ = false;
  for (; whole > 0; --whole) end_first();
  leave(true);
  reason_ = WEFT_INC_REASON_LOST;
  detail_ = why;
  lost_at_ = now_;
  for (const auto& request : queue_) request->begin_again();
  // The largest of each: who has the most behind it, and of these the first that has kept the last result; the fewest,
  // as a complement; whether anybody cannot begin again.
  const std::uint64_t helper = keeps_ ? kMaxGroupRanks - rank_ : 0;
  const std::array<std::uint64_t, 3> counts{ended_ * (2 * kMaxGroupRanks) + helper, ~ended_, stuck};
  std::memcpy(message_.data(), counts.data(), sizeof counts);
  state_ = State::recounting;
  hosts_.begin(
      {host_schedule(Collective::allreduce, HostAlgorithm::tree, rank_, ranks_, 0, counts.size(), sizeof counts[0]),
       message_.data(), message_key_, DataType::uint64, Op::max});
}

void Group::recounted() {
  std::array<std::uint64_t, 3> counts{};
  std::memcpy(counts.data(), message_.data(), sizeof counts);
  const std::uint64_t most = counts[0] / (2 * kMaxGroupRanks), helper = counts[0] % (2 * kMaxGroupRanks);
  const std::uint64_t fewest = ~counts[1];
  next_question_ = now_ + pause_;
  if (most == fewest) {
    if (counts[2] != 0) return fail(detail_ + "; results had come in the place of what a rank gave");
    return renew_end();
  }
  // Nobody is two ahead: a result needs what all ranks give behind the one before. Other collectives can be.
  const bool mine = ended_ == most;
  if (most != fewest + 1 || helper == 0 || (!mine && (queue_.empty() || !queue_.front()->shares_result()))) {
    return fail(detail_ + "; ranks were not through with the same collectives");
  }
  catch_up(static_cast<std::uint32_t>(kMaxGroupRanks - helper), mine);
}

/// The rank `from` gives the last result to those that lack it.
void Group::catch_up(std::uint32_t from, bool has_it) {
  lacks_ = !has_it;
  if (lacks_) kept_.resize(queue_.front()->shared_result().size());
  state_ = State::catching_up;
  if (kept_.empty()) return;
  kept_key_ = memory_.transport().register_memory(kept_.data(), kept_.size());
  hosts_.begin({host_schedule(Collective::broadcast, HostAlgorithm::tree, rank_, ranks_, from, kept_.size(), 1),
                kept_.data(), *kept_key_, DataType::uint8, Op::sum});
}

void Group::caught_up() {
  forget_kept();
  if (lacks_) {
    const std::span<std::uint8_t> to = queue_.front()->shared_result();
    std::copy(kept_.begin(), kept_.end(), to.begin());
    end_first();
  }
  renew_end();
}

void Group::forget_kept() {
  if (kept_key_) memory_.transport().forget(*kept_key_);
  kept_key_.reset();
}

/// A queue pair that was connected cannot be again: all ranks make others, and tell each other.
void Group::renew_end() {
  switch_ = std::make_unique<SwitchPath>(memory_.transport(), rank_, settings_.shape);
  connected_ = held_ = false;
  known_.reset();
  hosted_ = asked_at_ = 0;
  ByteWriter out;
  write_end(out, switch_->end());
  const auto bytes = out.take();
  std::copy(bytes.begin(), bytes.end(), message_.begin() + static_cast<std::ptrdiff_t>(rank_ * kEndBytes));
  state_ = State::renewing;
  hosts_.begin({host_schedule(Collective::allgather, HostAlgorithm::ring, rank_, ranks_, 0, kEndBytes, 1),
                message_.data(), message_key_, DataType::uint8, Op::sum});
}

void Group::renewed() {
  ByteReader in(std::span<const std::uint8_t>(message_).first(ranks_ * kEndBytes));
  for (Handle& handle : all_) read_end(in, handle.switch_end);
  state_ = State::ready;
}

void Group::tick(nic::Time now) {
  now_ = now;
  const bool late = (state_ == State::recounting || state_ == State::catching_up) && now_ - lost_at_ > kMeetAgain;
  if (late) fail(detail_ + "; not all ranks have come to go on without them");
}

/// All ranks come to this at the same place: in front of a collective that hosts run.
bool Group::asks_again(const Request& next) const {
  return next.eligible && !by_hand_ && settings_.backend == WEFT_INC_BACKEND_AUTO && may_pass(reason_) &&
         is_pause(hosted_) && asked_at_ != hosted_;
}

}  // namespace weft::inc::comm
