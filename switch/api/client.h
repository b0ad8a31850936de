// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Client of the control service (weft.proto).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "switch/api/backend.h"
#include "switch/config/tls_files.h"

namespace weft::api {

/// Why a call gave no answer, in one sentence for an operator.
struct CallError {
  enum class Kind : std::uint8_t {
    refused,      ///< the service answered, and says no
    unreachable,  ///< nobody answered, or not in time; the sentence names the socket
  };
  Kind kind = Kind::refused;
  std::string message;
};

/// What about() answers.
struct ProcessInfo {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  std::vector<std::string> switches;  ///< in the order of the configuration
};

/// What show() asks.
struct Question {
  std::string table;
  std::string switch_name;     ///< empty: all
  std::uint64_t max_rows = 0;  ///< 0: as many as the service gives
};

/// What show() says besides the rows.
struct ShowSummary {
  std::vector<std::string> switches;  ///< those that were asked, with or without rows
  bool truncated = false;             ///< more rows exist than were asked for
};

class CallQueue;
class CommandStream;

/// One connection, which the service closes after about 30 s: connect again for later calls, or when is_open() says so.
/// Calls block, from one thread at a time, and fail as unreachable when they take longer than the time that connect()
/// was given.
class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Connects to the unix socket `path`; replaces an earlier connection.
  /// @param connect_time  waits no longer for a listener that has too many new connections; nullopt: `call_time`
  [[nodiscard]] std::optional<CallError> connect(const std::string& path, std::chrono::milliseconds call_time,
                                                 std::optional<std::chrono::milliseconds> connect_time = std::nullopt);

  /// Connects to a service on another machine, both sides showing certificates; replaces an earlier connection. That
  /// the service can be reached, and that both accept the other's certificate, only the first call finds out.
  /// @param address  HOST:PORT; the service's certificate must name the host
  [[nodiscard]] std::optional<CallError> connect_tls(const std::string& address, const config::TlsFiles& files,
                                                     std::chrono::milliseconds call_time);

  /// Whether there is a connection that the service has not closed. Over TCP gRPC connects again by itself.
  [[nodiscard]] bool is_open() const;

  [[nodiscard]] std::optional<CallError> about(ProcessInfo& info);
  [[nodiscard]] std::optional<CallError> tables(std::vector<TableInfo>& tables);

  /// See Backend. `path` is absolute.
  [[nodiscard]] std::optional<CallError> diff(const std::string& path, ReloadResult& result);
  [[nodiscard]] std::optional<CallError> reload(ReloadResult& result);

  /// Calls `on_row` with the JSON text of each row as it arrives, possibly some before an error.
  [[nodiscard]] std::optional<CallError> show(const Question& question,
                                              const std::function<void(const std::string& row_json)>& on_row,
                                              ShowSummary& summary);

  /// Sessions; see Backend. They outlive connections: connect again, and read on.
  [[nodiscard]] std::optional<CallError> start(const CaptureRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> start(const TraceRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> start(const RecordRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> read(std::uint64_t session, SessionPart& part);
  [[nodiscard]] std::optional<CallError> stop(std::uint64_t session);

  /// `text` becomes the sentence that says what was done.
  [[nodiscard]] std::optional<CallError> clear(const std::vector<std::string>& tables, const std::string& switch_name,
                                               std::string& text);
  [[nodiscard]] std::optional<CallError> set(const SetRequest& request, std::string& text);

  [[nodiscard]] std::optional<CallError> commands(std::vector<CommandInfo>& commands);
  /// Refused ones are errors; `result.error` stays empty.
  [[nodiscard]] std::optional<CallError> run_command(const CommandRequest& request, CommandResult& result);

  using CommandDone = std::function<void(const std::optional<CallError>& error, CommandResult& result)>;
  /// run_command() that does not block: `done` is called once, in the thread of `queue`, and not within this call. The
  /// client stays until then; `done` may end it.
  void begin_command(const CommandRequest& request, CallQueue& queue, CommandDone done);

  /// run_command() for commands of agents, one after the other, at a fraction of the cost: see command_stream.h.
  [[nodiscard]] std::unique_ptr<CommandStream> open_stream();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
