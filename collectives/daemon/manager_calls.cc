// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/daemon/manager_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "collectives/manager/client.h"
#include "collectives/manager/inc.pb.h"

namespace weft::inc::daemon {
namespace {

constexpr std::chrono::milliseconds kCallTime{30'000};
/// Nobody's group waits longer for a manager that does not answer because we have asked before.
constexpr std::chrono::milliseconds kGreetingTime{2000};

/// A connection is used for so long, since making one costs both ends more than a call. The manager ends it after 30 s:
/// no call is on its way then. And files of certificates are read again.
constexpr std::chrono::seconds kConnectionAge{10};

constexpr std::array<const char*, comm::kGroupModes> kModes{"", "i", "ii", "iii"};

v1::CreateGroupRequest to_message(const comm::CreateGroup& from) {
  v1::CreateGroupRequest to;
  for (const comm::QpEnd& end : from.members) {
    auto& m = *to.add_members();
    m.set_address(end.address.to_string());
    m.set_qp(end.qpn);
    m.set_first_psn(end.first_psn);
    m.set_expects_psn(end.expects_psn);
  }
  auto& o = *to.mutable_options();
  o.set_mode(kModes[static_cast<std::size_t>(from.mode)]);
  o.set_mtu(from.mtu);
  o.set_message_packets(from.message_packets);
  o.set_window(from.window);
  o.set_reproducible(from.reproducible);
  o.set_duty_per_mille(from.rhythm.duty_per_mille);
  o.set_period_us(from.rhythm.period_us);
  o.set_job(from.rhythm.job);
  return to;
}

/// For the log.
std::string in_short(const std::string& why) {
  return why.empty() ? "its switches say nothing of it" : why;
}

comm::GroupCreated refused(const char* refusal, const std::string& sentence) {
  comm::GroupCreated out;
  out.refusal = refusal;
  out.sentence = sentence;
  return out;
}

comm::GroupCreated from_message(const v1::CreateGroupReply& from) {
  comm::GroupCreated to;
  to.refusal = from.refusal();
  if (to.refusal != "none") to.reason = from.reason();
  for (const auto& sentence : from.sentences()) to.sentence += (to.sentence.empty() ? "" : " ") + sentence;
  to.group = from.group();
  to.generation = from.generation();
  to.window = from.window();
  to.turns = to.refusal == "none" && from.turns();
  if (to.turns && from.staggered()) to.offset_ns = from.offset_ns();
  to.lease_ms = static_cast<std::uint32_t>(std::min<std::uint64_t>(from.lease_ms(), UINT32_MAX));
  for (const auto& end : from.endpoints()) {
    const auto address = wire::IpAddress::parse(end.address());
    if (!address) return refused("bad_request", "the manager names an endpoint '" + end.address() + "'");
    to.endpoints.push_back({*address, end.qp()});
  }
  return to;
}

}  // namespace

ManagerCalls::ManagerCalls(ManagerPlace place, std::function<void()> ready)
    : place_(std::move(place)), ready_(std::move(ready)) {
  for (std::size_t i = 0; i < kWorkers; ++i) workers_[i].thread = std::thread([this, i] { work(i); });
}

/// Groups that were to be destroyed are.
ManagerCalls::~ManagerCalls() {
  {
    const std::lock_guard held(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (Worker& w : workers_) w.thread.join();
}

void ManagerCalls::work(std::size_t worker) {
  std::deque<Job>& jobs = workers_[worker].jobs;
  std::unique_lock held(mutex_);
  for (;;) {
    wake_.wait(held, [&] { return stop_ || !jobs.empty(); });
    if (jobs.empty()) return;
    const Job job = std::move(jobs.front());
    jobs.pop_front();
    held.unlock();
    job();
    held.lock();
  }
}

void ManagerCalls::add(std::size_t worker, Job job) {
  {
    const std::lock_guard held(mutex_);
    workers_[worker].jobs.push_back(std::move(job));
  }
  wake_.notify_all();
}

void ManagerCalls::add(CallResult result) {
  {
    const std::lock_guard held(mutex_);
    results_.push_back(std::move(result));
  }
  ready_();
}

std::vector<CallResult> ManagerCalls::results() {
  const std::lock_guard held(mutex_);
  return std::exchange(results_, {});
}

std::optional<std::string> ManagerCalls::connect(Worker& worker) {
  const auto now = std::chrono::steady_clock::now();
  if (worker.client != nullptr && worker.client->is_open() && now - worker.connected < kConnectionAge) {
    return std::nullopt;
  }
  worker.client = std::make_unique<manager::Client>();
  worker.connected = now;
  return place_.address.empty() ? worker.client->connect(place_.socket, kCallTime)
                                : worker.client->connect_tls(place_.address, place_.files, kCallTime, leader_);
}

/// @param call  one of the client's
template <class Call>
std::optional<ManagerCalls::Failure> ManagerCalls::ask(std::size_t number, Call&& call) {
  Worker& worker = workers_[number];
  auto error = connect(worker);
  if (!error) error = call(*worker.client);
  leader_ = worker.client->answered_by();
  if (!error) return std::nullopt;
  const bool unanswered = worker.client->unanswered();
  if (unanswered) worker.client.reset();
  return Failure{std::move(*error), unanswered};
}

/// There is no group 0, so nothing is renewed.
void ManagerCalls::call_greet(std::size_t number) {
  v1::RenewLeaseReply reply;
  const auto failure = ask(number, [&](manager::Client& client) {
    client.set_call_time(kGreetingTime);
    auto error = client.renew({}, reply);
    client.set_call_time(kCallTime);
    return error;
  });
  if (number != kCreate) return;
  const std::string where = place_.address.empty() ? place_.socket : place_.address;
  if (failure) {
    spdlog::warn("the manager does not answer yet, and is asked again for each group: {}", failure->why);
  } else {
    spdlog::info("connected with the manager at {}", where);
  }
}

void ManagerCalls::greet() {
  // Those that a new group needs at its ranks' hosts.
  for (const std::size_t worker : {std::size_t{kCreate}, std::size_t{kLeases}}) {
    add(worker, [this, worker] { call_greet(worker); });
  }
}

comm::GroupCreated ManagerCalls::call_create(const comm::CreateGroup& request) {
  v1::CreateGroupReply reply;
  const auto create = [&](manager::Client& client) { return client.create(to_message(request), reply); };
  if (const auto failure = ask(kCreate, create)) {
    return refused(failure->unanswered ? "no_manager" : "bad_request", failure->why);
  }
  return from_message(reply);
}

void ManagerCalls::wait_for_destroyed(std::uint64_t count, std::chrono::steady_clock::time_point end) {
  std::unique_lock held(mutex_);
  wake_.wait_until(held, end, [&] { return destroyed_ >= count; });
}

void ManagerCalls::create(ClientId client, const comm::CreateGroup& request) {
  const auto end = std::chrono::steady_clock::now() + kDestroyedFirst;
  std::uint64_t before = 0;
  {
    const std::lock_guard held(mutex_);
    before = to_destroy_;
  }
  add(kCreate, [this, client, request, before, end] {
    wait_for_destroyed(before, end);
    Created result{client, request.rank, call_create(request)};
    const auto& a = result.answer;
    if (a.refusal == "none") {
      spdlog::info("group {} of {} ranks, generation {}", a.group, request.members.size(), a.generation);
    } else {
      spdlog::info("no group for {} ranks: {} {}: {}", request.members.size(), a.refusal, a.reason, a.sentence);
    }
    add(std::move(result));
  });
}

void ManagerCalls::call_renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) {
  v1::RenewLeaseRequest request;
  v1::RenewLeaseReply reply;
  request.set_group(name.group);
  request.set_generation(name.generation);
  for (const std::uint32_t rank : ranks) request.add_ranks(rank);
  if (const auto error = ask(kLeases, [&](manager::Client& client) { return client.renew(request, reply); })) {
    spdlog::warn("the lease of group {} is not renewed: {}", name.group, error->why);
    return add(Renewed{name, std::nullopt, ""});
  }
  if (!reply.running()) spdlog::warn("group {} is not there any more: {}", name.group, in_short(reply.why()));
  add(Renewed{name, reply.running(), reply.why()});
}

std::string ManagerCalls::call_explain(const GroupName& name) {
  v1::WhyEndedRequest request;
  v1::WhyEndedReply reply;
  request.set_group(name.group);
  request.set_generation(name.generation);
  if (const auto error = ask(kExplain, [&](manager::Client& client) { return client.why_ended(request, reply); })) {
    spdlog::warn("why the switches have ended group {} is not known: {}", name.group, error->why);
    return "";
  }
  spdlog::warn("the switches have ended group {}: {}", name.group, in_short(reply.why()));
  return reply.why();
}

void ManagerCalls::explain(ClientId client, const GroupName& name) {
  add(kExplain, [this, client, name] { add(Explained{client, name, call_explain(name)}); });
}

void ManagerCalls::renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) {
  add(kLeases, [this, name, ranks] { call_renew(name, ranks); });
}

void ManagerCalls::call_destroy(const GroupName& name) {
  v1::DestroyGroupRequest request;
  v1::DestroyGroupReply reply;
  request.set_group(name.group);
  request.set_generation(name.generation);
  if (const auto error = ask(kDestroy, [&](manager::Client& client) { return client.destroy(request, reply); })) {
    spdlog::warn("group {} is left to the end of its lease: {}", name.group, error->why);
  } else {
    spdlog::info("group {} is given back", name.group);
  }
}

void ManagerCalls::destroy(const GroupName& name) {
  {
    const std::lock_guard held(mutex_);
    ++to_destroy_;
  }
  add(kDestroy, [this, name] {
    call_destroy(name);
    {
      const std::lock_guard held(mutex_);
      ++destroyed_;
    }
    wake_.notify_all();
  });
}

}  // namespace weft::inc::daemon
