// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank's part of a group: how it comes about, and its collectives, by switches or by hosts. No thread and no clock:
// whoever has it calls progress().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
};

/// The switch's end, where the caller knows it.
struct SwitchEnd {
  wire::IpAddress address{};
  std::uint32_t qpn = 0;
  std::uint32_t group = 0;
  std::uint32_t window = 0;
};

/// How a group speaks to its host's daemon. False: it is not there.
using TellDaemon = std::function<bool(const DaemonMessage&)>;

class Group {
 public:
  enum class State : std::uint8_t { created, meeting, asking, telling, joining, agreeing, ready, failed };
  static constexpr std::size_t kMaxRequests = 32;

  /// @param memory  outlives it, as its transport does
  Group(Memory& memory, TellDaemon tell, std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] Handle handle() const;
  /// Begins. What is wrong, in words, or an empty string.
  [[nodiscard]] std::string connect(std::vector<Handle> all, const std::optional<SwitchEnd>& known);
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// What the daemon says. `created` is for the group that asked first, the others name theirs.
  void on_daemon(const DaemonMessage& message);
  /// The daemon is gone: who waits for its answer gets none.
  void on_daemon_lost();
  /// Sent again to a daemon that has come back.
  [[nodiscard]] std::optional<HoldGroup> lease() const;

  /// Goes on with what can go on. True when something did.
  bool progress();

  [[nodiscard]] weft_inc_reason can(Collective collective, DataType type, Op op, std::uint64_t bytes) const;
  /// Begins a collective, which has been checked. nullptr: too many are under way.
  [[nodiscard]] std::shared_ptr<Request> post(const Call& call);
  /// A Barrier of the hosts, whatever the group's switches do: all are through with them.
  [[nodiscard]] std::shared_ptr<Request> post_barrier();
  /// Whether no request is under way.
  [[nodiscard]] bool idle() const noexcept { return queue_.empty(); }
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
  bool start_requests();
  bool end_requests();
  void fail(const std::string& why);

  Memory& memory_;
  TellDaemon tell_daemon_;
  std::uint32_t rank_, ranks_;
  GroupSettings settings_;
  HostPath hosts_;
  SwitchPath switch_;
  State state_ = State::created;
  std::string error_;
  std::vector<Handle> all_;
  std::optional<SwitchEnd> known_;
  // On the way to a group: what goes over the hosts' connections.
  std::vector<std::uint8_t> message_;
  std::uint32_t message_key_ = 0;
  GroupCreated verdict_;
  bool connected_ = false, held_ = false;
  weft_inc_reason reason_ = WEFT_INC_REASON_NOT_READY;
  std::string detail_;
  bool leased_ = false;
  std::uint32_t window_ = 0;
  std::deque<std::shared_ptr<Request>> queue_;
  std::array<std::uint64_t, WEFT_INC_REASONS> calls_{};
};

}  // namespace weft::inc::comm
