// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an agent on a host (nic/agent) tells the switch about the queue pairs there: arguments of the command `agent` of
// rdma_track. The list of changes travels as JSON text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "switch/tables/qp_entry.h"
#include "switch/wire/addresses.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// A connected queue pair of a host.
struct AgentQp {
  wire::IpAddress local{}, remote{};
  wire::Qpn qpn{}, remote_qpn{};
  tables::QpTransport transport = tables::QpTransport::rc;
  std::uint8_t pmtu_code = 0;             ///< as IBTA codes it; 0: not told
  std::optional<wire::Psn> first_sent{};  ///< PSN of its first request (sq_psn); of a new connection only
  std::optional<wire::Psn> first_due{};   ///< PSN of the first request that it expects (rq_psn); likewise
  std::string process{};                  ///< name of the program, "" when not told
  std::uint32_t pid = 0;                  ///< its process, as its host numbers it; 0: not told
  std::string device{};                   ///< RDMA device, "" when not told
};

struct AgentChange {
  bool up = false;  ///< connected, or told anew; false: the queue pair `qp.qpn` of `qp.local` is gone
  AgentQp qp{};
};

/// One message. Those of a session are numbered without gaps; a snapshot, told over one or more messages, has all that
/// the agent knows.
struct AgentMessage {
  std::string host{};
  std::uint64_t session = 0;   ///< a number that the agent draws when it starts
  std::uint64_t sequence = 0;  ///< of this message in its session
  bool begin = false;          ///< a snapshot begins
  bool end = false;            ///< a snapshot ends: what it did not name is gone
  std::vector<AgentChange> changes{};
};

/// Longest name of a host, process or device.
inline constexpr std::size_t kMaxAgentName = 64;
/// Most changes of one message.
inline constexpr std::size_t kMaxAgentChanges = 256;

/// Reads a JSON list of changes. Each is an object:
///   {"up": true, "local": "10.0.0.1", "qpn": 17, "remote": "10.0.0.2", "remote_qpn": 18, "transport": "rc",
///    "mtu": 1024, "sq_psn": 7, "rq_psn": 9, "process": "ib_send_bw", "pid": 4711, "device": "mlx5_0"}
///   {"up": false, "local": "10.0.0.1", "qpn": 17}
/// `transport` is rc or uc; it and all that follows may be missing, and other keys are not looked at.
/// @return what is wrong with it, in one sentence; "" when nothing is. `changes` are those before the mistake.
[[nodiscard]] std::string read_agent_changes(std::string_view text, std::vector<AgentChange>& changes);

}  // namespace weft::stages
