// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The service's end of streams of commands (StageCommands of weft.proto): all of them in one thread, so that agents on
// many hosts take none of those that answer calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "switch/api/rpc_server.h"
#include "switch/api/weft.grpc.pb.h"

namespace weft::api {

/// The calls of weft.proto, of which streams of commands take no thread.
using ControlService = control::v1::Control::WithAsyncMethod_StageCommands<control::v1::Control::Service>;

class CommandStreams final : public AsyncCalls {
 public:
  /// Runs one command; what is not OK ends its stream. Called by the thread of the streams.
  using Run = std::function<grpc::Status(const grpc::ServerContext&, const control::v1::StageCommandRequest&,
                                         control::v1::StageCommandReply&)>;
  /// Streams that are open at the same time: further ones end at once with RESOURCE_EXHAUSTED.
  static constexpr std::size_t kMost = 128;

  CommandStreams(ControlService& service, Run run);
  ~CommandStreams() override;
  void begin(std::unique_ptr<grpc::ServerCompletionQueue> queue) override;
  void end() override;

 private:
  class Stream;

  void serve();
  /// Waits for another stream to be opened.
  void expect_one();

  ControlService& service_;
  Run run_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::map<const Stream*, std::unique_ptr<Stream>> streams_;  // of the thread alone; one of them is not open yet
  std::thread thread_;
};

}  // namespace weft::api
