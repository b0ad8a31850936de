// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the switch knows from agents on hosts. An agent is the one who knows; the book is its copy, kept in step by
// numbered messages. When a message is missing, or the switch has restarted, the switch asks for all of it again.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "switch/stages/rdma_track/agent_messages.h"

namespace weft::stages {

/// A host whose agent may report, and the addresses that are its own.
struct AgentHost {
  std::string name;
  std::vector<wire::IpPrefix> addresses;
};

/// The answer to a message.
struct AgentReply {
  bool expected = true;       ///< false: no agent is expected on that host, and nothing was done
  bool resync = false;        ///< nothing was done; the agent tells all that it knows, in a snapshot
  std::uint64_t refused = 0;  ///< changes of this message that were not accepted
};

/// What a message changes in the table of queue pairs.
struct AgentAction {
  bool up = false;
  bool snapshot = false;  ///< told again: the connection may be old
  AgentQp qp{};
};

/// Room is shared: a host that has less than its share of it, one of as many equal parts as there are hosts, always
/// finds some. What others have not taken is lent to whoever comes: when the room is used up, the host that has most
/// beyond its share gives back what it was told last. So a host that tells of endless queue pairs loses these, and
/// neither its first ones nor those of others.
///
/// Not thread-safe but for rows(), which may run beside one of the others.
class AgentBook {
 public:
  /// @param max_qps  queue pairs of all hosts that there is room for
  AgentBook(std::vector<AgentHost> hosts, std::uint32_t max_qps);

  /// Other hosts may report from now on. What hosts told that are not among them, or do not have the address any more,
  /// is gone.
  [[nodiscard]] std::vector<AgentAction> set_hosts(std::vector<AgentHost> hosts);

  /// Takes a message over; `actions` are what it changes, in order.
  [[nodiscard]] AgentReply apply(const AgentMessage& message, std::vector<AgentAction>& actions);

  /// What the book has of a host.
  struct HostRow {
    std::string host;
    std::uint64_t session;  ///< 0: it has told of nothing yet
    std::size_t qps;
    std::uint64_t messages, resyncs, refused, full, evicted;
  };
  [[nodiscard]] std::vector<HostRow> rows() const;

  /// Held over a message and what follows from it, so that two agents' news of a connection come one after the other.
  [[nodiscard]] std::mutex& order() noexcept { return order_; }

 private:
  using Key = std::pair<wire::IpAddress, std::uint32_t>;  // local address and QPN
  struct Host {
    AgentHost who;
    std::uint64_t session = 0, sequence = 0;
    std::uint32_t generation = 0;  // of snapshots
    bool in_snapshot = false;
    std::list<Key> qps{};  // in the order in which they were told
    std::uint64_t messages = 0, resyncs = 0, refused = 0, full = 0, evicted = 0;
  };
  struct Record {
    AgentQp qp;
    std::string host;
    std::uint32_t generation;
    std::list<Key>::iterator place;  // in its host's
  };
  using Records = std::map<Key, Record>;

  [[nodiscard]] static bool owns(const AgentHost& host, const wire::IpAddress& address) noexcept;
  [[nodiscard]] static bool in_turn(const Host& host, const AgentMessage& message) noexcept;
  [[nodiscard]] bool change(Host& host, const AgentChange& what, std::vector<AgentAction>& actions);
  [[nodiscard]] bool bring_up(Host& host, const AgentQp& qp, std::vector<AgentAction>& actions);
  [[nodiscard]] std::size_t share() const noexcept;
  [[nodiscard]] bool make_room(const Host& host, std::vector<AgentAction>& actions);
  Records::iterator erase(Host& host, Records::iterator at);
  void end_snapshot(Host& host, std::vector<AgentAction>& actions);

  mutable std::mutex mutex_;  // taken last, and for moments
  std::mutex order_;
  std::map<std::string, Host> hosts_;
  Records qps_;
  std::uint32_t max_qps_;
};

}  // namespace weft::stages
