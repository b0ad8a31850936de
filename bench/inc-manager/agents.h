// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Agents of a thousand switches without the switches: control services, the commands of the stage inc, and its groups
// in their memory, as in weft-switch. There are no ports, workers or packets.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::inc::manager_bench {

/// Processes with so many agents together, each with a socket. They end with this object.
class AgentProcesses {
 public:
  /// Forks: to be called before there are threads.
  /// @param sockets    of the agents, by number
  /// @param names      of their switches
  /// @param memory_kb  of each
  AgentProcesses(const std::vector<std::string>& sockets, const std::vector<std::string>& names, unsigned processes,
                 unsigned memory_kb);
  ~AgentProcesses();
  AgentProcesses(const AgentProcesses&) = delete;
  AgentProcesses& operator=(const AgentProcesses&) = delete;

  /// Waits until all listen. What went wrong, or nothing.
  [[nodiscard]] std::string wait_until_ready();
  [[nodiscard]] const std::vector<pid_t>& pids() const noexcept { return pids_; }

 private:
  struct Pipes {
    int ready = -1;  ///< says when it listens, or what went wrong
    int stop = -1;   ///< its end is the process's
  };
  std::vector<pid_t> pids_;
  std::vector<Pipes> pipes_;
};

}  // namespace weft::inc::manager_bench
