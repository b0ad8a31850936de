// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collectives/comm/byte_order.h"

namespace weft::inc::comm {
namespace {

/// What rank 0 tells the others: its length, and the message.
constexpr std::size_t kVerdictBytes = 4096;

std::size_t verdict_bytes(std::uint32_t ranks) noexcept {
  return kVerdictBytes + std::size_t{ranks} * 21;
}

GroupCreated refused(std::string refusal, std::string sentence) {
  GroupCreated out;
  out.refusal = std::move(refusal);
  out.sentence = std::move(sentence);
  return out;
}

weft_inc_reason reason_of(const GroupCreated& verdict) {
  const std::string& r = verdict.refusal;
  if (r == "none") return WEFT_INC_REASON_NONE;
  if (r == "hosts_asked") return WEFT_INC_REASON_HOSTS_ASKED;
  if (r == "no_daemon") return WEFT_INC_REASON_NO_DAEMON;
  if (r == "no_manager" || r == "store_failed") return WEFT_INC_REASON_NO_MANAGER;
  if (r == "no_tree" || r == "over_quota") return WEFT_INC_REASON_NO_TREE;
  if (r == "switch_refused" || r == "switch_unreachable") return WEFT_INC_REASON_SWITCH;
  return WEFT_INC_REASON_BAD_REQUEST;
}

}  // namespace

Group::Group(Memory& memory, TellDaemon tell, std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings)
    : memory_(memory),
      tell_daemon_(std::move(tell)),
      rank_(rank),
      ranks_(ranks),
      settings_(settings),
      hosts_(memory.transport(), rank, ranks, settings.shape),
      switch_(std::make_unique<SwitchPath>(memory.transport(), rank, settings.shape)),
      message_(verdict_bytes(ranks)),
      message_key_(memory.transport().register_memory(message_.data(), message_.size())) {}

Group::~Group() {
  fail("the group was destroyed");
  memory_.transport().forget(message_key_);
}

Handle Group::handle() const {
  return {rank_, ranks_, settings_.shape, switch_->end(), hosts_.ends()};
}

std::string Group::connect(std::vector<Handle> all, const std::optional<SwitchEnd>& known) {
  if (state_ != State::created) return "the group is connected, or has failed, already";
  if (all.size() != ranks_) return "a group of " + std::to_string(ranks_) + " ranks has as many handles";
  if (auto why = disagreement(all); !why.empty()) return why;
  if (all[rank_] != handle()) return "the handle of rank " + std::to_string(rank_) + " is not this group's";
  all_ = std::move(all);
  known_ = known;
  by_hand_ = known.has_value();
  state_ = State::meeting;
  if (ranks_ == 1) {
    use_hosts(WEFT_INC_REASON_SINGLE_RANK, "");
    formed_ = true;
    if (state_ != State::failed) state_ = State::ready;
  }
  return "";
}

/// Rank 0 finds out what becomes of the group; the others wait to be told.
void Group::ask() {
  state_ = State::asking;
  if (rank_ != 0) return tell({});
  if (settings_.backend == WEFT_INC_BACKEND_RING || settings_.backend == WEFT_INC_BACKEND_TREE) {
    return tell(refused("hosts_asked", ""));
  }
  if (known_) {
    GroupCreated verdict = refused("none", "");
    verdict.group = known_->group;
    verdict.window = known_->window;
    return tell(verdict);
  }
  if (formed_ && now_ < next_question_) return tell(refused("not_yet", ""));
  CreateGroup request;
  request.rank = rank_;
  request.mode = settings_.mode;
  request.reproducible = settings_.reproducible;
  request.mtu = settings_.shape.mtu;
  request.message_packets = settings_.shape.message_packets;
  request.window = settings_.shape.window;
  request.rhythm = settings_.rhythm;
  for (const Handle& h : all_) request.members.push_back(h.switch_end);
  if (!tell_daemon_(request)) tell(refused("no_daemon", "weft-incd cannot be reached on the host of rank 0"));
}

void Group::tell(const GroupCreated& verdict) {
  state_ = State::telling;
  ByteWriter out;
  const auto text = write_message(verdict);
  out.number(text.size(), 4);
  const auto head = out.take();
  std::copy(head.begin(), head.end(), message_.begin());
  std::copy(text.begin(), text.end(), message_.begin() + static_cast<std::ptrdiff_t>(head.size()));
  hosts_.begin({host_schedule(Collective::broadcast, HostAlgorithm::tree, rank_, ranks_, 0, message_.size(), 1),
                message_.data(), message_key_, DataType::uint8, Op::sum});
}

/// All have rank 0's message.
void Group::told() {
  ByteReader in(message_);
  const std::uint64_t bytes = in.number(4);
  std::optional<DaemonMessage> message;
  if (bytes <= message_.size() - 4) message = read_message(std::span(message_).subspan(4, bytes));
  const auto* verdict = message ? std::get_if<GroupCreated>(&*message) : nullptr;
  if (verdict == nullptr) return fail("rank 0 speaks another version of the library");
  // Rank 0 has not asked: all stays as it is.
  if (verdict->refusal == "not_yet") {
    state_ = State::ready;
    return;
  }
  verdict_ = *verdict;
  detail_ = verdict_.sentence;
  if (!verdict_.reason.empty()) detail_ = verdict_.reason + ": " + detail_;
  state_ = State::joining;
  if (verdict_.refusal != "none") return begin_vote(reason_of(verdict_));
  if (!known_ && verdict_.endpoints.size() != ranks_) {
    detail_ = "rank 0 knows its switch, and this rank has not been told of one";
    return begin_vote(WEFT_INC_REASON_NO_PATH);
  }
  if (!known_) {
    const auto& ours = verdict_.endpoints[rank_];
    known_ = {ours.address, ours.qpn, verdict_.group, verdict_.window};
    leased_ = true;
    held_ = rank_ == 0;
    if (!held_ && !tell_daemon_(HoldGroup{verdict_.group, verdict_.generation, rank_, verdict_.lease_ms})) {
      detail_ = "weft-incd cannot be reached on the host of rank " + std::to_string(rank_);
      return begin_vote(WEFT_INC_REASON_NO_DAEMON);
    }
  } else {
    held_ = true;
  }
}

/// Connects to the switch, and has the lease.
bool Group::join() {
  if (!connected_) {
    const QpEnd peer{known_->address, known_->qpn, 0, 0};
    window_ = std::min(known_->window, settings_.shape.window);
    const ConnectState state = switch_->connect(peer, known_->group, window_);
    if (state == ConnectState::waiting) return false;
    if (state == ConnectState::unreachable) {
      detail_ = "rank " + std::to_string(rank_) + " does not reach its switch, " + known_->address.to_string();
      begin_vote(WEFT_INC_REASON_NO_PATH);
      return true;
    }
    connected_ = true;
  }
  if (!held_) return false;
  begin_vote(WEFT_INC_REASON_NONE);
  return true;
}

/// All ranks go the same way: the largest reason that one of them has decides.
void Group::begin_vote(weft_inc_reason reason) {
  state_ = State::agreeing;
  const auto vote = static_cast<std::uint32_t>(reason);
  reason_ = reason;
  std::memcpy(message_.data(), &vote, sizeof vote);
  hosts_.begin({host_schedule(Collective::allreduce, HostAlgorithm::tree, rank_, ranks_, 0, 1, sizeof vote),
                message_.data(), message_key_, DataType::uint32, Op::max});
}

void Group::agreed() {
  std::uint32_t vote = 0;
  std::memcpy(&vote, message_.data(), sizeof vote);
  if (vote >= WEFT_INC_REASONS) return fail("another rank speaks another version of the library");
  state_ = State::ready;
  formed_ = true;
  const auto all = static_cast<weft_inc_reason>(vote);
  if (all == WEFT_INC_REASON_NONE) {
    reason_ = all;
    detail_.clear();
    asks_for_turns_ = verdict_.turns;
    hosted_ = asked_at_ = moved_ = 0;
    mixed_ = false;
    pause_ = kFirstPause;
    if (log_) log_("group " + std::to_string(known_->group) + ", by switches");
    return;
  }
  next_question_ = now_ + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  leave();
  use_hosts(all, all == reason_ ? detail_ : "another rank says so");
  // Some may have connected with their switch.
  if (verdict_.refusal == "none" && !by_hand_ && state_ == State::ready) renew_end();
}

/// The request in front is over.
void Group::end_first() {
  Request& r = *queue_.front();
  r.finish();
  if (!r.again) ++ended_;
  if (!r.again) keep(r);
  queue_.pop_front();
}

void Group::use_hosts(weft_inc_reason reason, const std::string& detail) {
  reason_ = reason;
  detail_ = detail;
  const std::string why = weft_inc_reason_name(reason) + (detail.empty() ? "" : ", " + detail);
  if (log_) log_("by hosts: " + why);
  if (settings_.backend == WEFT_INC_BACKEND_SWITCH) fail("the group gets no switches: " + why);
}

void Group::note(const Request& by_hosts, weft_inc_reason reason) const {
  if (!log_) return;
  log_(std::string(to_string(by_hosts.collective())) + " of " + std::to_string(by_hosts.largest_bytes()) +
       " bytes by hosts: " + weft_inc_reason_name(reason));
}

bool Group::advance() {
  switch (state_) {
    case State::meeting: {
      const ConnectState state = hosts_.connect([&] {
        std::vector<QpEnd> peers;
        for (Partner p = 0; p < partners(ranks_); ++p) {
          peers.push_back(all_[partner_rank(rank_, ranks_, p)].ends[opposite(p)]);
        }
        return peers;
      }());
      if (state == ConnectState::connected) ask();
      return state != ConnectState::waiting;
    }
    case State::telling:
    case State::agreeing:
      if (!hosts_.idle()) return false;
      state_ == State::telling ? told() : agreed();
      return true;
    case State::finishing:
      if (!hosts_.idle()) return false;
      end_first();
      recount();
      return true;
    case State::recounting:
      if (hear_of_refusal()) return true;
      [[fallthrough]];
    case State::comparing:
    case State::catching_up:
    case State::renewing:
      if (!hosts_.idle()) return false;
      if (state_ == State::recounting) return recounted(), true;
      if (state_ == State::comparing) return compared(), true;
      state_ == State::catching_up ? caught_up() : renewed();
      return true;
    case State::joining:
      return join();
    case State::ready: {
      const bool heard = hear_of_turn(), ended = end_requests(), started = start_requests();
      return heard || ended || started;
    }
    case State::created:
    case State::asking:
    case State::explaining:
    case State::failed:
      break;
  }
  return false;
}

bool Group::progress() {
  if (state_ == State::failed || state_ == State::created) return false;
  const bool by_hosts = hosts_.progress(), by_switch = connected_ && switch_->progress();
  if (!hosts_.error().empty()) fail(hosts_.error());
  // As long as there is something to do, they come to it.
  if (by_hosts && (state_ == State::finishing || state_ == State::catching_up)) lost_at_ = now_;
  const bool closed = state_ == State::finishing || state_ == State::recounting || state_ == State::comparing ||
                      state_ == State::catching_up || state_ == State::explaining;
  if (!switch_->error().empty() && !closed) {
    switch_->silent() ? lose("the switch does not answer any more: " + switch_->error()) : explain(switch_->error());
  }
  const bool advanced = advance();
  return by_hosts || by_switch || advanced;
}

void Group::on_daemon(const DaemonMessage& message) {
  if (const auto* created = std::get_if<GroupCreated>(&message); created != nullptr && state_ == State::asking) {
    if (created->refusal == "none" && created->endpoints.size() != ranks_) {
      return tell(refused("bad_request", "weft-incd names another number of endpoints than ranks"));
    }
    return tell(*created);
  }
  if (!leased_) return;
  const auto about_us = [&](const auto* m) {
    return m != nullptr && m->group == verdict_.group && m->generation == verdict_.generation;
  };
  if (const auto* why = std::get_if<GroupExplained>(&message); about_us(why)) return explained(*why);
  const auto* held = std::get_if<GroupHeld>(&message);
  const bool gone = about_us(std::get_if<GroupGone>(&message)) || (about_us(held) && !held->running);
  if (gone && state_ == State::joining) {
    detail_ = "the group ended before rank " + std::to_string(rank_) + " had joined it";
    begin_vote(WEFT_INC_REASON_SWITCH);
  } else if (gone && state_ == State::explaining) {
    // The answer is under way, or refused_at_ ends it.
  } else if (gone && !said_of_it_.empty()) {
    fail("the switches have ended the group: " + said_of_it_);
  } else if (gone) {
    lose("the group is gone from the switches: a rank died, a switch was restarted, or somebody destroyed it");
  } else if (about_us(held)) {
    held_ = true;
  }
}

void Group::on_daemon_lost() {
  if (state_ == State::asking) tell(refused("no_daemon", "weft-incd went away on the host of rank 0"));
  if (state_ == State::explaining) return fail(detail_);
  if (state_ != State::joining || held_) return;
  detail_ = "weft-incd went away on the host of rank " + std::to_string(rank_);
  begin_vote(WEFT_INC_REASON_NO_DAEMON);
}

std::optional<HoldGroup> Group::lease() const {
  if (!leased_ || state_ == State::failed) return std::nullopt;
  return HoldGroup{verdict_.group, verdict_.generation, rank_, verdict_.lease_ms};
}

void Group::leave() {
  // Nobody can go on with a group that has failed.
  leave(rank_ == 0 || state_ == State::failed);
}

void Group::leave(bool ends) {
  if (!leased_) return;
  leased_ = false;
  // Without a daemon the lease ends by itself.
  static_cast<void>(tell_daemon_(LeaveGroup{verdict_.group, verdict_.generation, ends}));
}

/// Why no switch would run a collective, whatever the group has.
weft_inc_reason Group::refusal_of(Collective collective, DataType type, Op op, std::uint64_t bytes) const {
  const bool reduces = collective == Collective::allreduce || collective == Collective::reduce ||
                       collective == Collective::reduce_scatter;
  const bool known = static_cast<std::size_t>(collective) < kCollectives;
  const bool typed = collective == Collective::barrier || element_bytes(type) > 0;
  if (!known || !typed || (reduces && arithmetic(type, op) == nullptr)) return WEFT_INC_REASON_NO_OPERATION;
  if (collective == Collective::barrier) return WEFT_INC_REASON_NONE;
  if (bytes < settings_.min_bytes) return WEFT_INC_REASON_TOO_SMALL;
  if (settings_.max_bytes != 0 && bytes > settings_.max_bytes) return WEFT_INC_REASON_TOO_LARGE;
  return WEFT_INC_REASON_NONE;
}

weft_inc_reason Group::can(Collective collective, DataType type, Op op, std::uint64_t bytes) const {
  const weft_inc_reason refusal = refusal_of(collective, type, op, bytes);
  if (refusal == WEFT_INC_REASON_NO_OPERATION) return refusal;
  if (!formed()) return WEFT_INC_REASON_NOT_READY;
  return refusal != WEFT_INC_REASON_NONE ? refusal : reason_;
}

std::shared_ptr<Request> Group::post(const Call& call) {
  // What runs again for others is beside those of the program.
  if (queue_.size() >= kMaxRequests) return nullptr;
  auto request = std::make_shared<Request>(memory_, call, rank_, ranks_);
  const std::uint64_t bytes = call.count * element_bytes(call.type);
  const weft_inc_reason reason = can(call.collective, call.type, call.op, bytes);
  // Of a group that asks for turns, the answer decides who runs it.
  const bool alone = ranks_ == 1 || (call.count == 0 && call.collective != Collective::barrier);
  request->counted = reason != WEFT_INC_REASON_NONE || !asks_for_turns_ || alone;
  if (request->counted) ++calls_[reason];
  request->eligible = refusal_of(call.collective, call.type, call.op, bytes) == WEFT_INC_REASON_NONE;
  // Of others it is known when they begin.
  if (ranks_ > 1 && !request->eligible) note(*request, reason);
  if (alone) {
    request->run_alone();
    return request;
  }
  request->algorithm = host_algorithm(settings_.backend, bytes);
  queue_.push_back(request);
  start_requests();
  return request;
}

std::shared_ptr<Request> Group::post_barrier() {
  Call barrier;
  barrier.collective = Collective::barrier;
  auto request = std::make_shared<Request>(memory_, barrier, rank_, ranks_);
  if (ranks_ == 1) {
    request->run_alone();
    return request;
  }
  queue_.push_back(request);
  start_requests();
  return request;
}

/// Those for switches follow each other closely; one for the hosts waits for all before it, and lets none pass.
bool Group::start_requests() {
  bool some = false;
  if (state_ != State::ready) return some;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    Request& r = *queue_[i];
    const bool waits = r.state == Request::State::waiting;
    if (waits) r.by_switch = r.eligible && reason_ == WEFT_INC_REASON_NONE && !r.refused;
    if (!r.by_switch && i > 0) break;
    if (waits && r.by_switch && asks_for_turns_ && !r.has_turn) {
      if (asking_ != nullptr) break;
      asking_ = queue_[i];
      switch_->submit({.primitive = Primitive::barrier, .turn = Turn::take});
      return true;
    }
    if (waits && !r.by_switch && asks_again(r)) {
      asked_at_ = hosted_;
      ask();
      return true;
    }
    if (waits) {
      if (!start(r)) return true;
      some = true;
    }
    if (!r.by_switch) break;
  }
  return some;
}

/// False: the group has failed.
bool Group::start(Request& r) {
  if (!r.by_switch) {
    ++hosted_;
    moved_ = r.largest_bytes();
  }
  // Of one that had no turn all know where it stands.
  mixed_ |= !r.by_switch && !r.refused && reason_ == WEFT_INC_REASON_NONE;
  r.confirms = r.by_switch && recovers() && r.largest_bytes() > kKept;
  const weft_inc_reason reason = r.refused ? WEFT_INC_REASON_BUSY : reason_;
  if (!std::exchange(r.counted, true)) ++calls_[reason];
  if (!r.by_switch && r.eligible && !r.again) note(r, reason);
  try {
    r.by_switch ? r.start(*switch_) : r.start(hosts_);
  } catch (const TransportError& e) {
    fail(e.what());
    return false;
  }
  if (!r.by_switch || !r.has_turn) return true;
  switch_->submit({.primitive = Primitive::barrier, .turn = Turn::give});
  return true;
}

/// The switches' answer, which is the same for all ranks. All have come as far as this, so they have behind them what
/// hosts have run before.
bool Group::hear_of_turn() {
  if (asking_ == nullptr || !switch_->turn()) return false;
  const auto request = std::exchange(asking_, nullptr);
  (*switch_->turn() ? request->has_turn : request->refused) = true;
  if (request->refused) hosts_.next_round();
  mixed_ = false;
  moved_ = 0;
  return true;
}

/// These switches have none any more.
void Group::forget_turns() {
  asking_.reset();
  for (const auto& request : queue_) request->has_turn = false;
}

bool Group::end_requests() {
  bool some = false;
  while (!queue_.empty()) {
    Request& r = *queue_.front();
    if (r.state != Request::State::running) break;
    if (r.by_switch ? switch_->completed() < r.last_invocation : !hosts_.idle()) break;
    // Its turn is given back before the program goes its way, which may be long without a look at this.
    if (r.has_turn && !switch_->all_posted()) break;
    end_first();
    some = true;
  }
  return some;
}

void Group::fail(const std::string& why) {
  if (state_ == State::failed) return;
  state_ = State::failed;
  error_ = why;
  // Before requests give their memory back.
  hosts_.close(why);
  forget_kept();
  switch_->close(why);
  unsure_.reset();
  for (const auto& request : queue_) request->fail(why);
  queue_.clear();
  forget_turns();
  leave();
}

weft_inc_group_info Group::info() const {
  weft_inc_group_info out{};
  out.size = sizeof out;
  out.reason = formed() ? reason_ : WEFT_INC_REASON_NOT_READY;
  const std::string& detail = state_ == State::failed ? error_ : detail_;
  detail.copy(out.detail, sizeof out.detail - 1);
  if (known_ && reason_ == WEFT_INC_REASON_NONE) out.group = known_->group;
  out.generation = reason_ == WEFT_INC_REASON_NONE ? verdict_.generation : 0;
  out.window = window_;
  std::copy(calls_.begin(), calls_.end(), out.calls);
  if (reason_ == WEFT_INC_REASON_NONE && asks_for_turns_) {
    out.turns = 1;
    out.staggered = verdict_.offset_ns.has_value() ? 1 : 0;
    out.offset_ns = verdict_.offset_ns.value_or(0);
  }
  return out;
}

}  // namespace weft::inc::comm
