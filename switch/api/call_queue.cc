// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/call_queue.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <thread>
#include <utility>

namespace weft::api {
namespace {

/// A task that is due when its alarm goes off.
class PostedTask final : public CallQueue::Call {
 public:
  explicit PostedTask(std::function<void()> task) : task_(std::move(task)) {}
  void over() override { task_(); }
  grpc::Alarm alarm;

 private:
  std::function<void()> task_;
};

}  // namespace

struct CallQueue::Impl {
  void run() {
    void* tag = nullptr;
    // Whether a call succeeded, its status says.
    for (bool ok = false; completions.Next(&tag, &ok);) {
      const std::unique_ptr<Call> call(static_cast<Call*>(tag));
      call->over();
    }
  }

  grpc::CompletionQueue completions;
  std::thread thread;
};

CallQueue::CallQueue() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

CallQueue::~CallQueue() {
  impl_->completions.Shutdown();
  impl_->thread.join();
}

void CallQueue::post(std::function<void()> task, std::chrono::milliseconds pause) {
  auto posted = std::make_unique<PostedTask>(std::move(task));
  grpc::Alarm& alarm = posted->alarm;
  Call* const tag = posted.release();
  // What is due at once needs no timer: gRPC's thread for those would have to wake up, a millisecond later.
  pause.count() == 0 ? alarm.Set(&impl_->completions, gpr_inf_past(GPR_CLOCK_REALTIME), tag)
                     : alarm.Set(&impl_->completions, std::chrono::system_clock::now() + pause, tag);
}

grpc::CompletionQueue& CallQueue::completions() noexcept {
  return impl_->completions;
}

}  // namespace weft::api
