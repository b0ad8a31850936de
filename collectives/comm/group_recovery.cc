// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Of a Group: how it goes on when its switches are gone, and asks for others.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

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

bool Group::recovers() const {
  return !by_hand_ && !mixed_ && settings_.backend == WEFT_INC_BACKEND_AUTO;
}

/// What switches have run is kept until this rank knows that all others have it behind them, too.
void Group::keep(const Request& ended) {
  const bool all_begun = ended.shows_others() || !ended.by_switch;
  const std::size_t bytes = ended.past_bytes();
  if (all_begun || bytes > kKept) {
    if (!past_.empty()) spare_ = std::move(past_.back().vector);
    past_.clear();
    past_bytes_ = 0;
  }
  if (ended.by_switch && ended.shows_others()) proven_ = ended_ - 1;
  if (ended.confirms || (ended.by_switch && ended.is_root_of_reduce())) proven_ = ended_;
  if (!ended.by_switch || !recovers() || bytes > kKept) return;
  past_.push_back(ended.past(std::exchange(spare_, {})));
  for (past_bytes_ += bytes; past_bytes_ > kKept || past_.size() > kMaxPast; past_.pop_front()) {
    past_bytes_ -= past_.front().vector.size();
  }
}

/// Of the request with this number; nullptr: it is not kept.
const Past* Group::past_at(std::uint64_t number) const {
  const std::uint64_t first = ended_ - past_.size();
  return number < first || number >= ended_ ? nullptr : &past_[number - first];
}

/// The switches do not have the group any more. If hosts have run nothing beside them but what had no turn, the
/// collectives that a rank has behind it say where it is.
void Group::lose(const std::string& why) {
  if (state_ != State::ready || reason_ != WEFT_INC_REASON_NONE || !recovers()) return fail(why);
  switch_->close(why);
  connected_ = false;
  leave(true);
  reason_ = WEFT_INC_REASON_LOST;
  detail_ = why;
  if (log_) log_("by hosts: lost, " + why);
  lost_at_ = now_;
  // What runs again for others is kept.
  std::erase_if(queue_, [](const auto& request) { return request->again; });
  if (asks_for_turns_) hosts_.announce();
  unsure_ = asking_;
  const auto refused = std::find_if(queue_.begin(), queue_.end(), [](const auto& r) { return r->refused; });
  if (refused != queue_.end()) return finish_by_hosts(*refused);
  recount();
}

/// All ranks have asked for a turn, so what is in front of the collective is over everywhere; and all hear that there
/// was none. It comes to its end before anybody counts.
void Group::finish_by_hosts(const std::shared_ptr<Request>& refused) {
  while (queue_.front() != refused) end_first();
  proven_ = ended_;
  state_ = State::finishing;
  refused->refused = true;
  refused->by_switch = false;
  if (refused->state == Request::State::waiting) static_cast<void>(start(*refused));
}

/// Of the turn that this rank has waited for, others know that there was none: they are a round ahead. Nobody is more
/// than one: a turn is not answered before all have asked for it.
bool Group::hear_of_refusal() {
  if (unsure_ != nullptr) hosts_.listen();
  if (!hosts_.behind()) return false;
  if (unsure_ == nullptr) return fail(detail_ + "; ranks run different collectives"), true;
  hosts_.abandon();
  hosts_.next_round();
  hosts_.announce();
  // A copy: it goes on in the queue.
  const auto refused = std::exchange(unsure_, nullptr);
  finish_by_hosts(refused);
  return true;
}

/// All ranks come to this with the same collectives of hosts behind them.
void Group::recount() {
  end_what_is_proven();
  const auto first_not_through =
      std::find_if(queue_.begin(), queue_.end(), [&](const auto& r) { return !r->is_through(*switch_); });
  through_ = ended_ + static_cast<std::uint64_t>(first_not_through - queue_.begin());
  const bool allreduce = !queue_.empty() && queue_.front()->collective() == Collective::allreduce;
  come_ = allreduce ? queue_.front()->come(*switch_) : 0;
  lost_at_ = now_;
  for (const auto& request : queue_) request->begin_again(*switch_);
  forget_turns();
  // The largest of each: the most that a rank has behind it, the fewest, as a complement, and what all are through
  // with.
  state_ = State::recounting;
  ask_all({ended_, ~ended_, proven_});
}

/// Of what was under way, some is over: all of its result has come, or some of the result of a later one.
void Group::end_what_is_proven() {
  const auto last = std::find_if(queue_.rbegin(), queue_.rend(), [&](const auto& r) { return r->come(*switch_) > 0; });
  const auto begun = queue_.rend() - last;
  for (auto i = begun; i > 1; --i) end_first();
  if (begun > 0) proven_ = ended_;
  while (!queue_.empty() && queue_.front()->has_all(*switch_)) end_first();
}

/// All ranks get the largest of each number.
void Group::ask_all(std::initializer_list<std::uint64_t> numbers) {
  std::copy_n(reinterpret_cast<const std::uint8_t*>(numbers.begin()), numbers.size() * sizeof(std::uint64_t),
              message_.begin());
  hosts_.begin({host_schedule(Collective::allreduce, HostAlgorithm::tree, rank_, ranks_, 0, numbers.size(),
                              sizeof(std::uint64_t)),
                message_.data(), message_key_, DataType::uint64, Op::max, true});
}

template <std::size_t N>
std::array<std::uint64_t, N> Group::answer_of_all() const {
  std::array<std::uint64_t, N> numbers{};
  std::memcpy(numbers.data(), message_.data(), sizeof numbers);
  return numbers;
}

/// It is known how far all are. Who is ahead of the last says what it can give; who has a part of a result, too.
void Group::recounted() {
  unsure_.reset();
  const auto [most, not_fewest, proven] = answer_of_all<3>();
  if (proven > through_) return fail(detail_ + "; a result is not there at all ranks");
  if (ended_ < proven) come_ = 0;
  while (ended_ < proven) end_first();
  most_ = std::max(most, proven);
  fewest_ = std::max(~not_fewest, proven);
  next_question_ = now_ + pause_;
  const std::uint64_t me = kMaxGroupRanks - rank_;
  const bool level = most_ == fewest_;
  const Past* next = past_at(fewest_);
  const bool shared = next != nullptr && shares_result(next->call.collective);
  const bool forgot = ended_ - past_.size() > fewest_;
  state_ = State::comparing;
  ask_all({shared ? me : 0, level && come_ > 0 ? come_ * (2 * kMaxGroupRanks) + me : 0, forgot ? 1u : 0u});
}

/// It is known who has what.
void Group::compared() {
  const auto [helper, come, forgot] = answer_of_all<3>();
  if (forgot != 0) return fail(detail_ + "; ranks were not through with the same collectives");
  if (most_ == fewest_) {
    if (come == 0) return renew_end();
    return take_come(static_cast<std::uint32_t>(kMaxGroupRanks - come % (2 * kMaxGroupRanks)),
                     come / (2 * kMaxGroupRanks));
  }
  if (helper != 0) return catch_up(static_cast<std::uint32_t>(kMaxGroupRanks - helper));
  run_again();
  renew_end();
}

/// The rank `from` gives the next result to those that lack it.
void Group::catch_up(std::uint32_t from) {
  state_ = State::catching_up;
  const Past* past = past_at(fewest_);
  if (past == nullptr && (queue_.empty() || !queue_.front()->shares_result())) {
    return fail(detail_ + "; ranks run different collectives");
  }
  if (past == nullptr) {
    catching_ = queue_.front()->shared_result();
  } else {
    caught_ = past->vector;
    catching_ = caught_;
  }
  give(from);
}

/// What `from` has of the result in front is everybody's; the rest begins again.
void Group::take_come(std::uint32_t from, std::uint64_t bytes) {
  if (queue_.empty() || queue_.front()->collective() != Collective::allreduce ||
      bytes > queue_.front()->shared_result().size()) {
    return fail(detail_ + "; ranks run different collectives");
  }
  state_ = State::catching_up;
  queue_.front()->begins_at = bytes;
  queue_.front()->eligible = false;
  catching_ = queue_.front()->shared_result().first(bytes);
  give(from);
}

void Group::give(std::uint32_t from) {
  lost_at_ = now_;
  moved_ = catching_.size();
  if (catching_.empty()) return;
  try {
    kept_key_ = memory_.transport().register_memory(catching_.data(), catching_.size());
  } catch (const TransportError& e) {
    return fail(e.what());
  }
  hosts_.begin({host_schedule(Collective::broadcast, HostAlgorithm::tree, rank_, ranks_, from, catching_.size(), 1),
                catching_.data(), *kept_key_, DataType::uint8, Op::sum});
}

void Group::caught_up() {
  forget_kept();
  const bool whole = most_ != fewest_ || queue_.front()->begins_at == queue_.front()->shared_result().size();
  if (ended_ == fewest_ && whole) end_first();
  if (most_ != fewest_) run_again();
  renew_end();
}

void Group::forget_kept() {
  if (kept_key_) memory_.transport().forget(*kept_key_);
  kept_key_.reset();
  catching_ = {};
  caught_ = {};
}

/// What some have behind them and others do not, hosts run for those: everybody takes part, in the same order.
void Group::run_again() {
  const std::uint64_t from =
      fewest_ + (past_at(fewest_) == nullptr || shares_result(past_at(fewest_)->call.collective));
  for (std::uint64_t number = ended_; number > from; --number) {
    const Past* past = past_at(number - 1);
    if (past == nullptr) break;
    queue_.push_front(std::make_shared<Request>(memory_, *past, rank_, ranks_));
    queue_.front()->eligible = true;
  }
}

/// A queue pair that was connected cannot be again: all ranks make others, and tell each other.
void Group::renew_end() {
  said_of_it_.clear();
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

nic::Time Group::patience() const noexcept {
  constexpr nic::Time kLongest = 120'000 * nic::kMs;  // daemons renew once a minute at least
  const nic::Time half_a_lease = std::min(verdict_.lease_ms / 2 * nic::kMs, kLongest);
  return std::max(kMeetAgain, half_a_lease) + static_cast<nic::Time>(moved_) * kPerByte;
}

void Group::tick(nic::Time now) {
  now_ = now;
  const bool meets = state_ == State::finishing || state_ == State::recounting || state_ == State::comparing ||
                     state_ == State::catching_up;
  const bool late = meets && now_ - lost_at_ > patience();
  if (late) fail(detail_ + "; not all ranks have come to go on without them");
  if (state_ == State::explaining && now_ - refused_at_ > kExplained) fail(detail_);
}

/// A switch has refused what this rank sent, which is all that a NAK says. The manager can ask the switches more. The
/// group stays until there is an answer: with it the switches would forget what happened.
void Group::explain(const std::string& what) {
  const bool asks = state_ == State::ready && leased_ && said_of_it_.empty();
  if (!asks || !tell_daemon_(ExplainGroup{verdict_.group, verdict_.generation})) return fail(what);
  detail_ = what;
  refused_at_ = now_;
  state_ = State::explaining;
}

/// The answer; or what another rank's question has brought to light, in front of the news that the group is gone.
void Group::explained(const GroupExplained& why) {
  said_of_it_ = why.sentence;
  if (state_ == State::explaining) fail(detail_ + (said_of_it_.empty() ? "" : "; " + said_of_it_));
}

/// All ranks come to this at the same place: in front of a collective that hosts run.
bool Group::asks_again(const Request& next) const {
  return next.eligible && !by_hand_ && settings_.backend == WEFT_INC_BACKEND_AUTO && may_pass(reason_) &&
         is_pause(hosted_) && asked_at_ != hosted_;
}

}  // namespace weft::inc::comm
