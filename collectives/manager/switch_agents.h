// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// IncAgents (EPIC 3.2) that are the control services of weft-switch: its `inc` commands make a group wholly or not at
// all, remove it and list what there is, for whoever may open the socket or has a certificate. A service of its own in
// the switch would need another port and another permission for the same.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "collectives/manager/agents.h"
#include "collectives/manager/config.h"
#include "switch/api/call_queue.h"

namespace weft::inc::manager {

/// Keeps a connection with each process for as long as it lasts, and makes one call on it at a time. Thousands of
/// processes take as many descriptors twice, and one thread.
class SwitchAgents : public Agents {
 public:
  /// @param access     by NodeId
  /// @param call_time  after which a switch counts as silent
  SwitchAgents(std::vector<SwitchAccess> access, std::chrono::milliseconds call_time);
  ~SwitchAgents() override;

  [[nodiscard]] std::vector<Outcome> install(std::span<const InstallOrder> orders) override;
  [[nodiscard]] std::vector<Outcome> remove(std::span<const RemoveOrder> orders) override;
  [[nodiscard]] std::vector<std::optional<std::vector<GroupId>>> list(std::span<const policy::NodeId> nodes,
                                                                      const Pace& pace) override;
  [[nodiscard]] std::vector<std::optional<policy::Abilities>> abilities(std::span<const policy::NodeId> nodes) override;
  [[nodiscard]] std::vector<std::optional<std::vector<GroupActivity>>> activity(
      std::span<const policy::NodeId> nodes) override;

 private:
  class Line;
  class Batch;
  /// What came of a command, with its rows.
  using Then = std::function<void(const Outcome& outcome, const nlohmann::ordered_json& rows)>;
  /// False: the process does not answer.
  using Next = std::function<void(bool answers)>;

  /// Calls `each` with the index of every order, in the thread of the queue, and returns when all are over; those of
  /// different processes at the same time, of one process after each other. When one says that its process does not
  /// answer, that is asked for nothing else: a hundred orders wait for it no longer than one.
  void spread(const std::vector<policy::NodeId>& nodes, const std::function<void(std::size_t, const Next&)>& each,
              const Pace& pace = {});
  // These are called in the thread of the queue.
  void run(policy::NodeId node, const std::string& verb, const std::string& word, Then then);
  void groups_at(policy::NodeId node, const std::function<void(const Outcome&, std::vector<GroupId>)>& then);

  std::vector<SwitchAccess> access_;
  std::chrono::milliseconds call_time_;
  std::map<std::string, std::unique_ptr<Line>> lines_;  ///< by process
  std::vector<Line*> line_of_;                          ///< by NodeId; of hosts nullptr
  api::CallQueue queue_;                                ///< last: its thread has ended before anything else goes
};

}  // namespace weft::inc::manager
