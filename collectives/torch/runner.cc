// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/torch/runner.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace weft::inc::pytorch {
namespace {

/// The thread looks for new calls as often while it waits for one. Where nothing is under way it sleeps.
constexpr int kLookMs = 1;
constexpr std::chrono::seconds kLeave{2};

}  // namespace

Work::Work(int rank, Plan plan)
    : ::c10d::Work(rank, plan.type, plan.title, c10::optional<std::vector<at::Tensor>>(plan.inputs)),
      plan_(std::move(plan)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

void Work::end(const std::string& what) {
  std::exception_ptr error;
  try {
    if (!what.empty()) throw std::runtime_error(what);
    if (plan_.deliver) {
      // The tensors may be parameters, which are written here without a gradient.
      const c10::NoGradGuard no_grad;
      plan_.deliver();
    }
  } catch (...) {
    error = std::current_exception();
  }
  // The functions hold tensors that nobody needs any more.
  plan_.begin = nullptr;
  plan_.deliver = nullptr;
  // Who is called back by the future finds the work over.
  finish(error);
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(plan_.outputs));
  }
}

Runner::Runner(weft_inc_group* group) : group_(group), thread_() {
  info_.size = sizeof info_;
  weft_inc_group_info_get(group_, &info_);
  thread_ = std::thread([this] { run(); });
}

Runner::~Runner() {
  {
    const std::lock_guard held(mutex_);
    stop_ = true;
    stop_at_ = Clock::now() + kLeave;
  }
  changed_.notify_one();
  thread_.join();
  weft_inc_group_destroy(group_);
}

void Runner::submit(c10::intrusive_ptr<Work> work) {
  {
    const std::lock_guard held(mutex_);
    TORCH_CHECK(error_.empty(), error_);
    submitted_.push_back(std::move(work));
  }
  changed_.notify_one();
}

weft_inc_group_info Runner::info() const {
  const std::lock_guard held(mutex_);
  return info_;
}

void Runner::run() {
  while (take()) {
    begin();
    if (!begun_.empty()) wait_for_first();
  }
}

/// What the program has called meanwhile. False: it has called nothing, and will not any more.
bool Runner::take() {
  std::unique_lock held(mutex_);
  if (begun_.empty() && waiting_.empty()) changed_.wait(held, [&] { return stop_ || !submitted_.empty(); });
  std::move(submitted_.begin(), submitted_.end(), std::back_inserter(waiting_));
  submitted_.clear();
  return !begun_.empty() || !waiting_.empty();
}

void Runner::begin() {
  while (!waiting_.empty()) {
    weft_inc_request* request = nullptr;
    const weft_inc_status status = waiting_.front()->plan().begin(group_, &request);
    // The library ends one of those that it has first.
    if (status == WEFT_INC_AGAIN) return;
    if (status != WEFT_INC_OK && status != WEFT_INC_INVALID) {
      fail(weft_inc_last_error());
      return;
    }
    const auto work = std::move(waiting_.front());
    waiting_.pop_front();
    if (status == WEFT_INC_OK) {
      begun_.push_back({work, request});
    } else {
      work->end(std::string(work->plan().title) + ": " + weft_inc_last_error());
    }
  }
}

void Runner::wait_for_first() {
  const weft_inc_status status = weft_inc_wait(&begun_.front().request, kLookMs);
  if (status == WEFT_INC_OK) {
    look();
    const auto work = std::move(begun_.front().work);
    begun_.pop_front();
    work->end("");
    return;
  }
  if (status != WEFT_INC_AGAIN) {
    fail(weft_inc_last_error());
    return;
  }
  const auto now = Clock::now();
  Clock::time_point stop_at;
  {
    const std::lock_guard held(mutex_);
    stop_at = stop_at_;
  }
  if (now >= stop_at) {
    fail("the process group is gone");
  } else if (now >= begun_.front().work->plan().deadline) {
    fail("the time is over, and not all ranks have called it");
  }
}

/// Whatever is under way or comes later has the same end.
void Runner::fail(const std::string& why) {
  look();
  // Before the tensors go: the library writes into them until then.
  weft_inc_group_destroy(std::exchange(group_, nullptr));
  {
    const std::lock_guard held(mutex_);
    error_ = "weft: the process group has failed: " + why;
    std::move(submitted_.begin(), submitted_.end(), std::back_inserter(waiting_));
    submitted_.clear();
  }
  for (const Begun& one : std::exchange(begun_, {})) {
    one.work->end(std::string(one.work->plan().title) + ": " + why);
  }
  for (const auto& work : std::exchange(waiting_, {})) work->end(std::string(work->plan().title) + ": " + why);
}

void Runner::look() {
  weft_inc_group_info now{};
  now.size = sizeof now;
  if (group_ == nullptr || weft_inc_group_info_get(group_, &now) != WEFT_INC_OK) return;
  const std::lock_guard held(mutex_);
  info_ = now;
}

}  // namespace weft::inc::pytorch
