// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/command_streams.h"

#include <utility>

namespace weft::api {

namespace v1 = control::v1;

/// One of them. It waits for one thing at a time, so its address is the tag of whatever that is.
class CommandStreams::Stream {
 public:
  Stream(CommandStreams& all) : all_(all) {
    all_.service_.RequestStageCommands(&context_, &stream_, all_.queue_.get(), all_.queue_.get(), this);
  }

  /// What it has waited for is over.
  /// @return  whether there is more to wait for
  bool go_on(bool ok) {
    switch (waits_for_) {
      case Event::opening:
        return ok && opened();
      case Event::request:
        ok ? answer() : finish(grpc::Status::OK);  // the client has no more, or has gone
        return true;
      case Event::reply:
        ok ? read() : finish(grpc::Status::CANCELLED);
        return true;
      case Event::end:
        break;
    }
    return false;
  }

 private:
  enum class Event : std::uint8_t { opening, request, reply, end };

  bool opened() {
    all_.expect_one();
    // The one that is expected is among them.
    if (all_.streams_.size() <= kMost + 1) {
      read();
    } else {
      finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams of commands are open; try again"});
    }
    return true;
  }
  void read() {
    waits_for_ = Event::request;
    stream_.Read(&request_, this);
  }
  void answer() {
    reply_.Clear();
    if (const grpc::Status status = all_.run_(context_, request_, reply_); !status.ok()) return finish(status);
    waits_for_ = Event::reply;
    stream_.Write(reply_, this);
  }
  void finish(const grpc::Status& status) {
    waits_for_ = Event::end;
    stream_.Finish(status, this);
  }

  CommandStreams& all_;
  Event waits_for_ = Event::opening;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::StageCommandReply, v1::StageCommandRequest> stream_{&context_};
  v1::StageCommandRequest request_;
  v1::StageCommandReply reply_;
};

CommandStreams::CommandStreams(ControlService& service, Run run) : service_(service), run_(std::move(run)) {}

CommandStreams::~CommandStreams() {
  end();
}

void CommandStreams::begin(std::unique_ptr<grpc::ServerCompletionQueue> queue) {
  queue_ = std::move(queue);
  thread_ = std::thread([this] { serve(); });
}

void CommandStreams::end() {
  if (thread_.joinable()) thread_.join();
}

void CommandStreams::expect_one() {
  auto stream = std::make_unique<Stream>(*this);
  const Stream* const name = stream.get();
  streams_.emplace(name, std::move(stream));
}

void CommandStreams::serve() {
  expect_one();
  void* tag = nullptr;
  for (bool ok = false; queue_->Next(&tag, &ok);) {
    auto* const stream = static_cast<Stream*>(tag);
    if (!stream->go_on(ok)) streams_.erase(stream);
    // One is always expected until the server is down. Streams that it has cut still say that they end.
    if (streams_.empty()) queue_->Shutdown();
  }
}

}  // namespace weft::api
