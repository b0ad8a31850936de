// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The ranks of collectives that switches add up: an RC queue pair of each host with its switch, and the messages that
// it sends and receives. Operation k of rank r of a group is one transfer of the plan.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/comm/test_vector.h"
#include "tools/sim/host.h"
#include "tools/sim/inc_plan.h"

namespace weft::sim {

/// Hears of operations; `transfer` is the index in the plan.
class IncListener {
 public:
  virtual ~IncListener() = default;
  virtual void operation_started(TimeNs now, std::uint32_t transfer) = 0;
  /// The rank has all that it gets, and has sent all that it gives; then that is acknowledged, too.
  virtual void operation_received(TimeNs now, std::uint32_t transfer) = 0;
  virtual void operation_ended(TimeNs now, std::uint32_t transfer) = 0;
  /// A queue pair gave up; `transfer` is the first one of its rank.
  virtual void rank_failed(std::uint32_t transfer) = 0;
};

/// The transfers of all ranks, in the order of their numbers: by group, rank and operation.
[[nodiscard]] Plan inc_transfers(const IncSpec& spec);

class IncRun {
 public:
  /// @param values  packets carry bytes, and results are compared
  IncRun(const IncSpec& spec, const Topology& topology, bool values, IncListener& listener);

  /// Makes the queue pairs of all ranks, and the trees.
  void connect(const std::vector<std::unique_ptr<Host>>& hosts, const std::function<nic::QpConfig(std::uint32_t)>& qp);
  /// The items of stage inc's `groups` for a switch.
  [[nodiscard]] config::Value::List groups_at(std::uint32_t sw, std::uint32_t mtu) const;
  [[nodiscard]] const std::vector<nic::Qp*>& qps() const noexcept { return qps_; }

  /// Lets those ranks begin whose time has come. When it is to be called again; kNever: all have begun.
  TimeNs start(TimeNs now);
  void completed(TimeNs now, Host& host, const nic::Wc& wc);
  /// "" when every result that has arrived was right; otherwise what was not, at the first rank that noticed.
  [[nodiscard]] std::string wrong() const;
  /// Messages.
  [[nodiscard]] std::uint64_t compared() const noexcept;

 private:
  struct Rank {
    Host* host = nullptr;
    nic::Qp* qp = nullptr;
    std::uint32_t group = 0, rank = 0, transfer = 0;  ///< the first of its transfers
    TimeNs begins = 0;
    std::vector<inc::ControlMessage> program;
    std::optional<inc::RankProgress> progress;
    std::uint32_t per_operation = 1;      ///< invocations
    std::uint64_t sent = 0;               ///< messages, for places in memory
    std::deque<std::size_t> under_way{};  ///< collectives of messages that are not acknowledged, in their order
    std::uint32_t started = 0, received = 0, ended = 0;  ///< operations
    std::vector<std::uint8_t> memory{};                  ///< slots of messages that are sent, then of those that come
    nic::Mr small{}, large{};                            ///< control messages, and data
    std::string wrong{};                                 ///< the first thing that was
    std::uint64_t compared = 0;                          ///< messages
  };

  void make_rank(std::uint32_t group, std::uint32_t rank, Host& host, const nic::QpConfig& config);
  void work(TimeNs now, Rank& r);
  void post(TimeNs now, Rank& r, const inc::RankMessage& m);
  void post_receive(Rank& r, std::uint32_t slot);
  void received(Rank& r, const nic::Wc& wc);
  void note_operations(TimeNs now, Rank& r);
  [[nodiscard]] std::uint32_t slots() const noexcept { return spec_.window + 1; }
  [[nodiscard]] std::uint32_t receives() const noexcept { return 2 * spec_.window + 8; }

  const IncSpec& spec_;
  const Topology& topology_;
  const bool values_;
  IncListener& listener_;
  std::uint32_t message_bytes_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<const Host*, std::uint32_t>, Rank*> by_qp_;
  std::vector<nic::Qp*> qps_;
  std::vector<std::vector<IncNode>> trees_;  ///< by group
};

}  // namespace weft::sim
