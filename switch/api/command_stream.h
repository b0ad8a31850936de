// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A client's end of a stream of commands (StageCommands of weft.proto).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "switch/api/client.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace weft::api {

/// Commands for agents, one after the other. The connection is looked at by take() alone: who has other things to do
/// asks for an answer when it is awake anyhow, and need not wake up for it. Client::open_stream() makes one; the client
/// outlives it. One thread at a time.
class CommandStream {
 public:
  /// Makes an error of how the stream ended.
  using ToError = std::function<std::optional<CallError>(const grpc::Status&)>;

  CommandStream(const std::shared_ptr<grpc::Channel>& channel, ToError to_error);
  ~CommandStream();
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  /// Gives a command; several may be under way.
  void send(const CommandRequest& request);

  /// Waits at most so long for the answer to the oldest one that has none.
  /// @param error  why there will be none: the command was refused, or nobody is there. The stream is over then
  /// @return  whether `result` or `error` has the answer
  [[nodiscard]] bool take(std::chrono::milliseconds patience, CommandResult& result, std::optional<CallError>& error);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
