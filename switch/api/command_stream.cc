// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/command_stream.h"

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <deque>
#include <utility>

#include "switch/api/command_messages.h"
#include "switch/api/weft.grpc.pb.h"

namespace weft::api {

namespace v1 = control::v1;

struct CommandStream::Impl {
  enum Event : std::uintptr_t { kOpened = 1, kSent, kAnswered, kEnded };
  static void* tag(Event event) { return reinterpret_cast<void*>(event); }

  Impl(const std::shared_ptr<grpc::Channel>& channel, ToError to_error) : stub(channel), to_error(std::move(to_error)) {
    // With the first command, in one go.
    context.set_initial_metadata_corked(true);
    stream = stub.AsyncStageCommands(&context, &events, tag(kOpened));
    stream->Read(&reply, tag(kAnswered));
  }

  // Everything under way is cancelled, and comes back at once.
  ~Impl() {
    context.TryCancel();
    events.Shutdown();
    void* what = nullptr;
    for (bool ok = false; events.Next(&what, &ok);) {
    }
  }

  // One at a time: gRPC takes the next when the last one has left.
  void send_first() {
    writing = true;
    stream->Write(unsent.front(), tag(kSent));
    unsent.pop_front();
  }

  /// Takes one event, until that time.
  /// @return  whether there was one
  bool take_event(const gpr_timespec& until) {
    void* what = nullptr;
    bool ok = false;
    if (events.AsyncNext(&what, &ok, until) != grpc::CompletionQueue::GOT_EVENT) return false;
    if (what == tag(kEnded)) {
      error = to_error(status);
      if (!error) error = CallError{CallError::Kind::unreachable, "the stream of commands ended"};
    } else if (what == tag(kAnswered) && !ok) {
      stream->Finish(&status, tag(kEnded));
    } else if (what == tag(kAnswered)) {
      answers.push_back(result_of(reply));
      stream->Read(&reply, tag(kAnswered));
    } else if (what == tag(kSent)) {
      // When it could not be sent, the stream is over, and the read says so.
      writing = false;
      if (ok && !unsent.empty()) send_first();
    }
    return true;
  }

  grpc::ClientContext context;
  v1::Control::Stub stub;
  grpc::CompletionQueue events;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::StageCommandRequest, v1::StageCommandReply>> stream;
  v1::StageCommandReply reply;
  grpc::Status status;
  ToError to_error;
  bool writing = false;
  std::deque<v1::StageCommandRequest> unsent;
  std::deque<CommandResult> answers;
  std::optional<CallError> error;
};

CommandStream::CommandStream(const std::shared_ptr<grpc::Channel>& channel, ToError to_error)
    : impl_(std::make_unique<Impl>(channel, std::move(to_error))) {}

CommandStream::~CommandStream() = default;

void CommandStream::send(const CommandRequest& request) {
  impl_->unsent.push_back(message_of(request));
  // The last one has most likely left, and gRPC has not been asked.
  while (impl_->writing && impl_->take_event(gpr_inf_past(GPR_CLOCK_REALTIME))) {
  }
  if (!impl_->writing && !impl_->unsent.empty()) impl_->send_first();
}

bool CommandStream::take(std::chrono::milliseconds patience, CommandResult& result, std::optional<CallError>& error) {
  // The past costs gRPC no timer.
  const gpr_timespec until = patience.count() <= 0 ? gpr_inf_past(GPR_CLOCK_REALTIME)
                                                   : gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                                                  gpr_time_from_millis(patience.count(), GPR_TIMESPAN));
  while (impl_->answers.empty() && !impl_->error && impl_->take_event(until)) {
  }
  if (impl_->answers.empty()) {
    error = impl_->error;
    return error.has_value();
  }
  result = std::move(impl_->answers.front());
  impl_->answers.pop_front();
  return true;
}

}  // namespace weft::api
