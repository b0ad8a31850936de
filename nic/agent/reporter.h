// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the agent tells one switch, and when: numbered messages, some of them under way at a time, so that the switch
// knows what the host's QpList knows. Messages without an answer are sent again, in order. A switch that has restarted,
// or missed something, asks for all, and gets a snapshot. No sockets, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "nic/agent/qp_list.h"
#include "switch/base/time.h"

namespace weft::agent {

/// What the command `agent` of rdma_track takes (switch/stages/rdma_track/agent_messages.h).
struct Message {
  std::uint64_t sequence = 0;
  bool begin = false, end = false;  ///< a snapshot begins, ends
  bool of_snapshot = false;         ///< it is part of one; not told
  std::vector<Change> changes{};
};

/// `changes` as JSON text. Snapshots do not tell first PSNs: those have passed.
[[nodiscard]] std::string changes_text(const Message& message);

class Reporter {
 public:
  struct Times {
    TimeNs heartbeat = 2 * kSecond;  ///< an idle agent asks so often whether the switch still knows it
    TimeNs refresh = 200 * kSecond;  ///< it tells everything so often: what is never told again, the switch forgets
    TimeNs least_retry = 100 * kMs;  ///< after a failure; twice as long after each further one
    TimeNs longest_retry = 2 * kSecond;
    /// Ends of connections wait so long for others to be told with, when nothing else is to be told.
    TimeNs gather = 0;
    /// A connection that goes to RTR waits so long for its RTS, which tells its first PSN: one message for both.
    TimeNs settle = 0;
  };
  static constexpr std::size_t kMostChanges = 128;   ///< of a message: some 40 KiB
  static constexpr std::size_t kMostWaiting = 8192;  ///< changes; beyond, a snapshot takes less
  static constexpr std::size_t kMostUnderWay = 32;   ///< messages

  Reporter(const QpList& list, Times times) : list_(list), times_(times) {}

  /// What the list has said, at that time.
  void add(std::vector<Change> changes, TimeNs now);

  /// What to send now; nullptr when there is nothing, or too much is under way. Each is given once, and once more after
  /// failed(). It is to be used before anything else is called.
  [[nodiscard]] const Message* next(TimeNs now);
  /// When next() is to be asked again, if add() and answered() are not called before.
  [[nodiscard]] TimeNs deadline() const noexcept;
  /// Messages that were given and not answered.
  [[nodiscard]] std::size_t under_way() const noexcept { return given_; }
  /// The oldest of them, to which the next answer is.
  [[nodiscard]] const Message& oldest() const noexcept { return sent_.front(); }
  /// As many as may be, and there is more to tell at that time: only an answer helps.
  [[nodiscard]] bool is_blocked(TimeNs now) const noexcept { return given_ == kMostUnderWay && due() <= now; }

  /// The switch has taken the oldest message that is under way, or asks for a snapshot.
  void answered(TimeNs now, bool resync);
  /// The connection is another one: all that is under way is to be sent again.
  void again() noexcept { given_ = 0; }
  /// Nobody has answered, or not what can be understood. The same, but some time later.
  void failed(TimeNs now);

  /// Everything is told and answered.
  [[nodiscard]] bool in_step() const noexcept {
    return !wants_snapshot_ && !snapshot_ && waiting_.empty() && sent_.empty();
  }
  [[nodiscard]] std::uint64_t snapshots() const noexcept { return snapshots_; }

 private:
  /// Of the changes that wait: what they are, and how long the agent may keep them.
  struct Kinds {
    std::size_t whole = 0;   ///< connections with all that is to be known of them, which are told at once
    std::size_t halves = 0;  ///< those without their first PSN
    std::size_t ends = 0;
    [[nodiscard]] std::size_t& of(const Change& change) noexcept {
      return !change.up ? ends : change.qp.sq_psn ? whole : halves;
    }
  };

  [[nodiscard]] Message make(TimeNs now);
  void add(Change change, TimeNs now);
  /// When the next message is to be made.
  [[nodiscard]] TimeNs due() const noexcept;

  const QpList& list_;
  Times times_;
  std::deque<Change> waiting_;
  Kinds kinds_;
  TimeNs settle_until_ = 0, gather_until_ = 0;  // of the oldest half, and the oldest end
  std::deque<Message> sent_;                    // not answered
  std::size_t given_ = 0;                       // the first ones of them, which are under way
  std::uint64_t sequence_ = 0;                  // of the last message
  std::uint64_t last_begin_ = 0;                // of the last snapshot's first message
  bool wants_snapshot_ = true;
  bool snapshot_ = false;             // one is being made
  std::optional<QpList::Key> after_;  // the last one that it has told
  TimeNs not_before_ = 0;             // after a failure
  TimeNs retry_ = 0;
  TimeNs heartbeat_at_ = 0;
  TimeNs refresh_at_ = 0;
  std::uint64_t snapshots_ = 0;
};

}  // namespace weft::agent
