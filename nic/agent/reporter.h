// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the agent tells one switch, and when: numbered messages, one under way at a time, so that the switch knows what
// the host's QpList knows. A message without an answer is sent again. A switch that has restarted, or missed something,
// asks for all, and gets a snapshot. No sockets, no clock.
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
  std::vector<Change> changes{};
};

/// `changes` as JSON text. Snapshots do not tell first PSNs: those have passed.
[[nodiscard]] std::string changes_text(const Message& message, bool with_psns);

class Reporter {
 public:
  struct Times {
    TimeNs heartbeat = 2 * kSecond;  ///< an idle agent asks so often whether the switch still knows it
    TimeNs refresh = 200 * kSecond;  ///< it tells everything so often: what is never told again, the switch forgets
    TimeNs least_retry = 100 * kMs;  ///< after a failure; twice as long after each further one
    TimeNs longest_retry = 2 * kSecond;
    TimeNs gather =
        0;  ///< so long ends of connections wait for others to be told with, when nothing else is to be told
  };
  static constexpr std::size_t kMostChanges = 128;   ///< of a message: some 40 KiB
  static constexpr std::size_t kMostWaiting = 8192;  ///< changes; beyond, a snapshot takes less

  Reporter(const QpList& list, Times times) : list_(list), times_(times) {}

  /// What the list has said.
  void add(std::vector<Change> changes);

  /// What to send now; nullptr when there is nothing. Stays the same until answered() or failed().
  [[nodiscard]] const Message* next(TimeNs now);
  /// When next() is to be asked again, if add() is not called before.
  [[nodiscard]] TimeNs deadline() const noexcept;
  /// Whether the message under way is part of a snapshot.
  [[nodiscard]] bool in_snapshot() const noexcept { return snapshot_; }

  /// The switch has taken the message, or asks for a snapshot.
  void answered(TimeNs now, bool resync);
  /// Nobody has answered, or not what can be understood.
  void failed(TimeNs now);

  /// Everything is told and answered.
  [[nodiscard]] bool in_step() const noexcept { return !wants_snapshot_ && !snapshot_ && waiting_.empty() && !sent_; }
  [[nodiscard]] std::uint64_t snapshots() const noexcept { return snapshots_; }

 private:
  [[nodiscard]] Message make(TimeNs now);
  /// All that waits are ends of connections, which nobody is in a hurry for.
  [[nodiscard]] bool only_ends() const noexcept {
    return !wants_snapshot_ && !snapshot_ && !waiting_.empty() && ups_waiting_ == 0;
  }

  const QpList& list_;
  Times times_;
  std::deque<Change> waiting_;
  std::size_t ups_waiting_ = 0;  // of them, those that are no ends
  TimeNs gather_until_ = 0;      // 0: nothing is gathered
  std::optional<Message> sent_;
  std::uint64_t sequence_ = 0;
  bool wants_snapshot_ = true;
  bool snapshot_ = false;             // one is under way
  std::optional<QpList::Key> after_;  // the last one that it has told
  TimeNs not_before_ = 0;             // after a failure
  TimeNs retry_ = 0;
  TimeNs heartbeat_at_ = 0;
  TimeNs refresh_at_ = 0;
  std::uint64_t snapshots_ = 0;
};

}  // namespace weft::agent
