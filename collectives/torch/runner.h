// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The thread of a process group: it begins collectives in the order of the program's calls, and ends them.
#pragma once

#include <ATen/core/ivalue.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "collectives/comm/weft_inc.h"

namespace weft::inc::pytorch {

/// What a collective is made of. Its functions run on the runner's thread, and hold the tensors that they use.
struct Plan {
  ::c10d::OpType type = ::c10d::OpType::UNKNOWN;
  const char* title = "";           ///< for PyTorch's profiler: "weft:all_reduce"
  std::vector<at::Tensor> inputs;   ///< for the profiler
  std::vector<at::Tensor> outputs;  ///< what result() and the future give
  std::function<weft_inc_status(weft_inc_group*, weft_inc_request**)> begin;
  std::function<void()> deliver;  ///< copies the result to where the program wants it; may be empty
  std::chrono::steady_clock::time_point deadline;
};

/// A collective that the program waits for, by wait() or by its future.
class Work final : public ::c10d::Work {
 public:
  Work(int rank, Plan plan);
  std::vector<at::Tensor> result() override { return plan_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  /// Once, by the runner. what: went wrong; empty: it is over.
  void end(const std::string& what);

 private:
  Plan plan_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class Runner {
 public:
  /// @param group  connected; the runner destroys it
  explicit Runner(weft_inc_group* group);
  /// What is under way gets 2 s more: other ranks may need this one's part.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// @throws c10::Error  the group has failed
  void submit(c10::intrusive_ptr<Work> work);
  /// As of the last collective that is over.
  [[nodiscard]] weft_inc_group_info info() const;

 private:
  struct Begun {
    c10::intrusive_ptr<Work> work;
    weft_inc_request* request;
  };
  using Clock = std::chrono::steady_clock;

  void run();
  bool take();
  void begin();
  void wait_for_first();
  void fail(const std::string& why);
  void look();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<Work>> submitted_;
  bool stop_ = false;
  Clock::time_point stop_at_ = Clock::time_point::max();
  std::string error_;  ///< why the group takes no more
  weft_inc_group_info info_{};

  // Of the thread alone.
  weft_inc_group* group_;
  std::deque<c10::intrusive_ptr<Work>> waiting_;  ///< not begun
  std::deque<Begun> begun_;

  std::thread thread_;  ///< the last: it uses what is above
};

}  // namespace weft::inc::pytorch
