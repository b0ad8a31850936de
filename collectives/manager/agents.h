// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the manager asks of the agents on switches, and of its store. Any call may fail, and the process may end within
// any: what happened is found out afterwards.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "collectives/manager/group_record.h"

namespace weft::inc::manager {

/// What became of a call to an agent.
struct Outcome {
  enum class Kind : std::uint8_t {
    done,       ///< it has happened; of remove(): the switch does not have the group
    refused,    ///< it has not, and the text says why
    unknown,    ///< no answer: it may happen, or have happened
    not_asked,  ///< of install(): the switch was not asked, because another manager may lead
  };
  Kind kind = Kind::done;
  std::string text{};
};

struct InstallOrder {
  policy::NodeId node = policy::kNoNode;
  GroupId group = 0;
  std::string spec;  ///< see switch_spec()
};

struct RemoveOrder {
  policy::NodeId node = policy::kNoNode;
  GroupId group = 0;
};

/// What a switch says of a group that it runs: `weftctl inc show activity`.
struct GroupActivity {
  GroupId group = 0;
  std::uint64_t collectives = 0;      ///< that have begun
  std::uint64_t completed_bytes = 0;  ///< of vectors; at the root of a tree, of each once
  std::string state{};                ///< for people
  std::string collective{};           ///< the oldest that waits, for people; empty: none
  std::string waits_for{};            ///< ends of edges, for people
  std::vector<std::uint32_t> waits_for_ranks{};
  std::uint64_t still_ms = 0;  ///< for so long nothing has gone on
  // Packets of ranks that are connected with this switch:
  std::uint64_t from_ranks = 0;  ///< that were taken
  std::uint64_t to_ranks = 0;    ///< that it sent, answers included
  std::uint64_t bad_icrc = 0;    ///< from ranks that it dropped because their ICRC was wrong
  // Of a group that takes turns:
  std::uint64_t turns = 0;          ///< times that it got one
  std::uint64_t turns_refused = 0;  ///< times that it did not, at any switch
  std::uint64_t memory_busy = 0;    ///< and because of this one
  std::string failure{};            ///< why the switch has ended the group, for people; empty: it has not
  bool neighbour_failed = false;    ///< all that the failure says is that the other end of an edge has failed
};

/// How a look at many switches goes on. All that are asked at once keep the processor from other calls meanwhile.
struct Pace {
  std::chrono::nanoseconds time{0};  ///< from the first question to the last; 0: as fast as they answer
  std::stop_token stop{};            ///< once requested, those that have not been asked yet count as silent
};

/// May be called by several threads at the same time.
class Agents {
 public:
  virtual ~Agents() = default;
  /// One outcome for each order; orders run in any order, or at the same time.
  [[nodiscard]] virtual std::vector<Outcome> install(std::span<const InstallOrder> orders) = 0;
  [[nodiscard]] virtual std::vector<Outcome> remove(std::span<const RemoveOrder> orders) = 0;
  /// The groups that switches have; nullopt for one that does not answer.
  [[nodiscard]] virtual std::vector<std::optional<std::vector<GroupId>>> list(std::span<const policy::NodeId> nodes,
                                                                              const Pace& pace) = 0;
  /// What groups do there; nullopt for a switch that does not answer.
  [[nodiscard]] virtual std::vector<std::optional<std::vector<GroupActivity>>> activity(
      std::span<const policy::NodeId> nodes) = 0;
  /// What groups can have there (`weftctl inc show abilities`); nullopt for a switch that does not say.
  [[nodiscard]] virtual std::vector<std::optional<policy::Abilities>> abilities(
      std::span<const policy::NodeId> nodes) = 0;
};

/// What outlives the process. What was written later is not there without what was written before.
class Store {
 public:
  struct Content {
    std::vector<std::string> records;  ///< see to_text()
    std::uint64_t last_generation = 0;
    std::string links{};  ///< see put_links(); "": none were written
  };
  virtual ~Store() = default;
  /// Writes a record, in place of an earlier one of its group, and its generation as the last one: both or neither. On
  /// the disk after sync(). An error as a sentence.
  [[nodiscard]] virtual std::optional<std::string> put(GroupId group, std::uint64_t generation,
                                                       const std::string& record) = 0;
  /// A record that is not there is erased.
  [[nodiscard]] virtual std::optional<std::string> erase(GroupId group) = 0;
  /// Links that were found: Discovery::to_text(), in place of the last one.
  [[nodiscard]] virtual std::optional<std::string> put_links(const std::string& text) = 0;
  [[nodiscard]] virtual std::optional<std::string> load(Content& content) = 0;
  /// All that was written before is on the disk when it returns. Unlike the others, several threads may call it at the
  /// same time, and while another call runs.
  [[nodiscard]] virtual std::optional<std::string> sync() = 0;
  /// Whether another manager may write to it, so that only sync() says who decides: then it comes before switches are
  /// asked, too.
  [[nodiscard]] virtual bool shared() const noexcept { return false; }
};

}  // namespace weft::inc::manager
