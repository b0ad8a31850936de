// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One thread for any number of calls that are under way. A call that blocks needs a thread of its own, which costs more
// than the call.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace grpc {
class CompletionQueue;
}

namespace weft::api {

/// Everything that it runs, it runs in its thread, one after the other: what only this thread touches needs no lock.
class CallQueue {
 public:
  /// An asynchronous call of gRPC: the tag of its completion. Belongs to the queue from then on, which deletes it.
  class Call {
   public:
    virtual ~Call() = default;
    /// It is over.
    virtual void over() = 0;
  };

  CallQueue();
  /// Returns when the thread has ended. Nothing may be under way or posted.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Runs `task` after `pause`. By any thread; `task` neither blocks nor throws.
  void post(std::function<void()> task, std::chrono::milliseconds pause = std::chrono::milliseconds{0});

  /// For calls whose tags are Call.
  [[nodiscard]] grpc::CompletionQueue& completions() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
