// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank's part of a group: how it comes about, and its collectives, by switches or by hosts. No thread and no clock:
// whoever has it calls progress().
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/comm/daemon_messages.h"
#include "collectives/comm/handle.h"
#include "collectives/comm/host_path.h"
#include "collectives/comm/request.h"
#include "collectives/comm/switch_path.h"
#include "collectives/comm/weft_inc.h"

namespace weft::inc::comm {

struct GroupSettings {
  weft_inc_backend backend = WEFT_INC_BACKEND_AUTO;
  MessageShape shape;
  GroupMode mode = GroupMode::any;
  bool reproducible = false;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;  ///< 0: none are too large
  CreateGroup::Rhythm rhythm{};
};

/// The switch's end, where the caller knows it.
struct SwitchEnd {
  wire::IpAddress address{};
  std::uint32_t qpn = 0;
  std::uint32_t group = 0;
  std::uint32_t window = 0;
};

/// Sentences about a group, for who wants to know why hosts run its collectives.
using Log = std::function<void(const std::string&)>;

/// How a group speaks to its host's daemon. False: it is not there.
using TellDaemon = std::function<bool(const DaemonMessage&)>;

class Group {
 public:
  /// From `finishing` on the group has lost its switches: hosts end the collective for which there was no turn; ranks
  /// find out how many collectives each has behind it, and who has what others lack; those get it, and all tell each
  /// other new ends for the next switches.
  enum class State : std::uint8_t {
    created,
    meeting,
    asking,
    telling,
    joining,
    agreeing,
    ready,
    finishing,
    recounting,
    comparing,
    catching_up,
    renewing,
    explaining,  ///< its switches have refused what a rank sent; the daemon is asked why, and then it fails
    failed
  };
  /// What others may lack is kept, of no more bytes than this; a larger collective ends when all ranks are through with
  /// it.
  static constexpr std::size_t kKept = 256 * 1024;
  /// Ranks that have lost their switches have to meet within so long; see patience().
  static constexpr nic::Time kMeetAgain = 5000 * nic::kMs;
  /// What hosts move meanwhile may take them so long for each byte: 1 MB/s.
  static constexpr nic::Time kPerByte = nic::kUs;
  /// A group that its switches have ended fails after so long, whether or not it is known why.
  static constexpr nic::Time kExplained = 2000 * nic::kMs;
  /// From one question for switches to the next: doubled after each that was in vain.
  static constexpr nic::Time kFirstPause = 1000 * nic::kMs, kLongestPause = 60'000 * nic::kMs;
  static constexpr std::size_t kMaxRequests = 32;
  /// How many are kept at most: windows bound how far a rank can be ahead of others.
  static constexpr std::size_t kMaxPast = 1024;

  /// @param memory  outlives it, as its transport does
  Group(Memory& memory, TellDaemon tell, std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// What becomes of the group, and each collective that hosts run, with the reason.
  void log_to(Log log) { log_ = std::move(log); }
  [[nodiscard]] Handle handle() const;
  /// Begins. What is wrong, in words, or an empty string.
  [[nodiscard]] std::string connect(std::vector<Handle> all, const std::optional<SwitchEnd>& known);
  [[nodiscard]] State state() const noexcept { return state_; }
  /// It has been ready once, and not failed since: requests may be posted.
  [[nodiscard]] bool formed() const noexcept { return formed_ && state_ != State::failed; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// What the daemon says. `created` is for the group that asked first, the others name theirs.
  void on_daemon(const DaemonMessage& message);
  /// The daemon is gone: who waits for its answer gets none.
  void on_daemon_lost();
  /// Sent again to a daemon that has come back.
  [[nodiscard]] std::optional<HoldGroup> lease() const;

  /// What time it is, from time to time: before progress().
  void tick(nic::Time now);
  /// Goes on with what can go on. True when something did.
  bool progress();

  [[nodiscard]] weft_inc_reason can(Collective collective, DataType type, Op op, std::uint64_t bytes) const;
  /// Begins a collective, which has been checked. nullptr: too many are under way.
  [[nodiscard]] std::shared_ptr<Request> post(const Call& call);
  /// A Barrier of the hosts, whatever the group's switches do: all are through with them.
  [[nodiscard]] std::shared_ptr<Request> post_barrier();
  /// Whether no request of the program is under way.
  [[nodiscard]] bool idle() const noexcept {
    return std::all_of(queue_.begin(), queue_.end(), [](const auto& r) { return r->again; });
  }
  /// Gives the lease back; the first rank ends the group for all.
  void leave();

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] weft_inc_group_info info() const;

 private:
  void ask();
  void tell(const GroupCreated& verdict);
  void begin_vote(weft_inc_reason reason);
  bool advance();
  bool join();
  void told();
  void agreed();
  void use_hosts(weft_inc_reason reason, const std::string& detail);
  void note(const Request& by_hosts, weft_inc_reason reason) const;
  /// A rank that has lost its switches fails if it has nothing to do for so long and the others do not come: they hear
  /// of it from their daemons, which renew a lease four times in its length, and may be at work as hosts.
  [[nodiscard]] nic::Time patience() const noexcept;
  bool start_requests();
  bool start(Request& request);
  [[nodiscard]] bool hear_of_turn();
  void forget_turns();
  bool end_requests();
  void fail(const std::string& why);
  void lose(const std::string& why);
  void finish_by_hosts(const std::shared_ptr<Request>& refused);
  void recount();
  [[nodiscard]] bool hear_of_refusal();
  void explain(const std::string& what);
  void explained(const GroupExplained& why);
  void end_what_is_proven();
  void recounted();
  void compared();
  void catch_up(std::uint32_t from);
  void take_come(std::uint32_t from, std::uint64_t bytes);
  void give(std::uint32_t from);
  void ask_all(std::initializer_list<std::uint64_t> numbers);
  template <std::size_t N>
  [[nodiscard]] std::array<std::uint64_t, N> answer_of_all() const;
  void run_again();
  [[nodiscard]] bool recovers() const;
  [[nodiscard]] const Past* past_at(std::uint64_t number) const;
  void keep(const Request& ended);
  void forget_kept();
  void caught_up();
  void end_first();
  void renew_end();
  void renewed();
  [[nodiscard]] bool asks_again(const Request& next) const;
  [[nodiscard]] weft_inc_reason refusal_of(Collective collective, DataType type, Op op, std::uint64_t bytes) const;
  void leave(bool ends);

  Memory& memory_;
  TellDaemon tell_daemon_;
  Log log_;  ///< may be none
  std::uint32_t rank_, ranks_;
  GroupSettings settings_;
  HostPath hosts_;
  std::unique_ptr<SwitchPath> switch_;  ///< never null; one after the other
  State state_ = State::created;
  std::string error_;
  std::vector<Handle> all_;
  std::optional<SwitchEnd> known_;
  bool by_hand_ = false;  ///< the program gave it
  // On the way to a group: what goes over the hosts' connections.
  std::vector<std::uint8_t> message_;
  std::uint32_t message_key_ = 0;
  GroupCreated verdict_;
  bool connected_ = false, held_ = false;
  weft_inc_reason reason_ = WEFT_INC_REASON_NOT_READY;
  std::string detail_;
  bool leased_ = false;
  std::uint32_t window_ = 0;
  std::deque<Past> past_;  ///< of the last requests that switches have run, which other ranks may lack
  std::size_t past_bytes_ = 0;
  std::vector<std::uint8_t> spare_;      ///< memory for the next one
  std::uint64_t proven_ = 0;             ///< so many requests all ranks are through with, as this one knows
  std::uint64_t fewest_ = 0, most_ = 0;  ///< of all ranks, requests that are over; while the group recovers
  std::uint64_t through_ = 0;            ///< requests that this rank is through with
  std::uint64_t come_ = 0;               ///< of the request in front, if it is an AllReduce
  std::vector<std::uint8_t> caught_;     ///< while catching up: what comes in place of the request in front
  std::span<std::uint8_t> catching_;     ///< where it comes
  std::optional<std::uint32_t> kept_key_;
  std::uint64_t moved_ = 0;  ///< bytes of the vector that hosts have begun to move last
  std::string said_of_it_;   ///< what its switches say of the group, which they have ended; "": nothing is known
  nic::Time now_ = 0, lost_at_ = 0, refused_at_ = 0;
  nic::Time next_question_ = 0, pause_ = kFirstPause;  ///< of rank 0
  bool formed_ = false;
  bool asks_for_turns_ = false;      ///< the switches' memory is other groups', too: see README, "Turns"
  std::shared_ptr<Request> asking_;  ///< waits for its turn
  std::shared_ptr<Request> unsure_;  ///< waited when the switches were lost: others may know that there is no turn
  bool mixed_ = false;          ///< hosts have run collectives beside the switches: where they are is not agreed on
  std::uint64_t ended_ = 0;     ///< requests
  std::uint64_t hosted_ = 0;    ///< begun by the hosts, since the group has no switches
  std::uint64_t asked_at_ = 0;  ///< of these, when switches were asked for last
  std::deque<std::shared_ptr<Request>> queue_;
  std::array<std::uint64_t, WEFT_INC_REASONS> calls_{};
};

}  // namespace weft::inc::comm
