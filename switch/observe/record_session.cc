// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/record_session.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <charconv>

#include "switch/base/time.h"
#include "switch/qos/shared_buffer.h"
#include "switch/system/clock.h"

namespace weft {
namespace {

// Nanoseconds since 1970.
std::uint64_t time_of_day() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * kSecond + static_cast<std::uint64_t>(t.tv_nsec);
}

void sleep_until(std::uint64_t time) {
  const timespec t{static_cast<time_t>(time / kSecond), static_cast<long>(time % kSecond)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
}

bool chosen(const std::vector<std::string>& ports, const std::string& switch_name, const std::string& port) {
  return ports.empty() || std::any_of(ports.begin(), ports.end(),
                                      [&](const std::string& p) { return p == port || p == switch_name + "/" + port; });
}

void append_number(std::string& out, std::uint64_t number) {
  char text[20];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  out.append(text, end);
}

}  // namespace

void find_recorded_queues(const pipeline::SwitchState& state, const api::RecordRequest& request,
                          std::vector<RecordedQueue>& queues, std::vector<std::string>& ports) {
  if (state.buffer() == nullptr) return;
  const pipeline::SwitchInfo& info = state.info();
  for (const auto& port : info.ports) {
    ports.push_back(port.name);
    ports.push_back(info.name + "/" + port.name);
    if (!request.switch_name.empty() && info.name != request.switch_name) continue;
    if (!chosen(request.ports, info.name, port.name)) continue;
    for (std::uint32_t q = 0; q < qos::kClasses; ++q) {
      const auto& wanted = request.queues;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), q) == wanted.end()) continue;
      queues.push_back(
          {info.name + "/" + port.name + "/" + std::to_string(q), &state.buffer()->queue(port.index, q).bytes});
    }
  }
}

RecordSession::RecordSession(PipelineSet& pipelines, std::vector<RecordedQueue> queues,
                             const api::RecordRequest& request)
    : Session(pipelines),
      queues_(std::move(queues)),
      request_(request),
      ring_(queues_.size() + 1, std::size_t{request.buffer_mib} << 20),
      heading_("time_ns") {
  for (const RecordedQueue& queue : queues_) heading_ += "," + queue.name;
  heading_ += "\n";
  end_after(request.duration_ms);
  thread_ = std::thread([this] { sample(); });
}

RecordSession::~RecordSession() {
  detach();
}

void RecordSession::detach() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
  Session::detach();
}

// Late samples are taken late; what should have been sampled meanwhile is counted, so that the rate stays what it is.
void RecordSession::sample() {
  pthread_setname_np(pthread_self(), "weft-record");
  // The kernel may delay a sleeper by the slack, which by default is half of the shortest period that makes sense.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::uint64_t next = monotonic_now();
  std::uint64_t left = request_.max_samples == 0 ? ~std::uint64_t{0} : request_.max_samples;
  while (left != 0 && !stop_.load(std::memory_order_relaxed)) {
    sleep_until(next);
    if (const auto sample = ring_.back(); !sample.empty()) {
      sample[0] = time_of_day();
      for (std::size_t i = 0; i < queues_.size(); ++i) sample[i + 1] = queues_[i].bytes->value();
      ring_.push();
      --left;
    }
    next += request_.period_ns;
    const std::uint64_t now = monotonic_now();
    if (now < next) continue;
    const std::uint64_t missed = (now - next) / request_.period_ns;
    missed_.store(missed_.load(std::memory_order_relaxed) + missed, std::memory_order_relaxed);
    next += missed * request_.period_ns;
  }
}

void RecordSession::collect(api::SessionPart& part, std::size_t max_bytes) {
  part.data += heading_;
  heading_.clear();
  while (part.data.size() < max_bytes) {
    const auto sample = ring_.front();
    if (sample.empty()) break;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      if (i != 0) part.data += ',';
      append_number(part.data, sample[i]);
    }
    part.data += '\n';
    ring_.pop();
    ++samples_;
  }
  if (request_.max_samples != 0 && samples_ == request_.max_samples) stop("the number of samples was reached");
  count(part);
}

void RecordSession::finish(api::SessionPart& part) {
  count(part);
}

void RecordSession::count(api::SessionPart& part) const {
  part.packets = samples_;
  part.lost = ring_.lost();
  part.missed = missed_.load(std::memory_order_relaxed);
}

}  // namespace weft
