// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/context.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "collectives/comm/rnic_transport.h"
#include "collectives/comm/verbs_transport.h"

namespace weft::inc::comm {
namespace {

/// A daemon that does not run is looked for again after so long.
constexpr nic::Time kReconnect = 200 * nic::kMs;
/// What is not waited for by a descriptor (neighbours, a daemon) is looked at as often.
constexpr nic::Time kLook = 2 * nic::kMs, kIdle = 20 * nic::kMs;
/// A program that waits for one collective after the other runs everything itself: the thread takes over when nobody
/// has waited for so long, which is well below what peers take for a loss.
constexpr nic::Time kLinger = 1 * nic::kMs;
/// The daemon's messages are looked for at most so often.
constexpr nic::Time kDaemonLook = 200 * nic::kUs;
/// An interface's queue that is full is tried again after so long.
constexpr nic::Time kFull = 20 * nic::kUs;

}  // namespace

std::unique_ptr<RunningTransport> open_transport(const ContextSettings& settings, std::string& why) {
  if (settings.device.empty()) {
    auto made = std::make_unique<RnicTransport>();
    if (!settings.memif.empty()) {
      nic::MemifPortConfig config;
      config.socket = settings.memif;
      config.interface = settings.interface.empty() ? "weftinc%d" : settings.interface;
      config.address = {*settings.address, settings.prefix_bits};
      why = made->open_memif(config);
      return made;
    }
    why = made->open(settings.address, settings.interface);
    return made;
  }
  const Verbs* verbs = load_verbs(why);
  if (verbs == nullptr) return nullptr;
  auto made = std::make_unique<VerbsTransport>(*verbs);
  why = made->open(settings.device, settings.address);
  return made;
}

Context::~Context() {
  {
    const auto held = lock();
    stop_ = true;
    wake();
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Context::wake() {
  const std::uint64_t one = 1;
  if (wake_.valid()) static_cast<void>(write(wake_.get(), &one, sizeof one) < 0);
  sleeps_until_ = 0;
}

std::string Context::open(const ContextSettings& settings) {
  std::string why;
  transport_ = open_transport(settings, why);
  if (!why.empty()) return why;
  memory_ = std::make_unique<Memory>(*transport_, settings.cache);
  poll_ns_ = settings.poll_ns;
  logs_ = settings.logs;
  wake_ = nic::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return "no file descriptor is left";
  daemon_.connect();
  was_connected_ = daemon_.connected();
  thread_ = std::thread([this] { thread(); });
  return "";
}

Group& Context::add(std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings) {
  // The group says who it is when it exists; it does not speak before.
  const auto self = std::make_shared<Group*>(nullptr);
  const auto say = [this, self](const DaemonMessage& message) { return tell(message, *self); };
  groups_.push_back(std::make_unique<Group>(*memory_, say, rank, ranks, settings));
  *self = groups_.back().get();
  if (logs_) {
    const std::string who = "weftinc: info: rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": ";
    (*self)->log_to([who](const std::string& what) { std::fprintf(stderr, "%s%s\n", who.c_str(), what.c_str()); });
  }
  // Who sleeps does not listen to its connections yet.
  if (sleeps_until_ != 0) wake();
  return **self;
}

void Context::remove(Group& group) {
  // Its answer may still come, in its turn.
  std::replace(asking_.begin(), asking_.end(), &group, static_cast<Group*>(nullptr));
  std::erase_if(groups_, [&](const auto& one) { return one.get() == &group; });
}

bool Context::tell(const DaemonMessage& message, Group* from) {
  if (daemon_.wanted()) daemon_.connect();
  if (!daemon_.send(message)) return false;
  was_connected_ = true;
  if (std::holds_alternative<CreateGroup>(message)) asking_.push_back(from);
  return true;
}

void Context::hear(const DaemonMessage& message) {
  if (std::holds_alternative<GroupCreated>(message)) {
    if (asking_.empty()) return;
    Group* group = asking_.front();
    asking_.erase(asking_.begin());
    // nullptr: it was destroyed meanwhile, and nobody wants what came of it.
    if (group != nullptr) return group->on_daemon(message);
    const auto& created = std::get<GroupCreated>(message);
    if (created.refusal == "none")
      static_cast<void>(tell(LeaveGroup{created.group, created.generation, true}, nullptr));
    return;
  }
  for (const auto& group : groups_) group->on_daemon(message);
}

/// A daemon that was started again takes the leases up.
void Context::run_daemon() {
  const nic::Time now = nic::monotonic_now();
  if (now < next_daemon_look_) return;
  next_daemon_look_ = now + kDaemonLook;
  while (const auto message = daemon_.receive()) hear(*message);
  if (was_connected_ && !daemon_.connected()) {
    asking_.clear();
    for (const auto& group : groups_) group->on_daemon_lost();
  }
  was_connected_ = daemon_.connected();
  const bool leases = std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return g->lease().has_value(); });
  if (daemon_.connected() || !leases || now < next_connect_) return;
  next_connect_ = now + kReconnect;
  if (!daemon_.connect()) return;
  was_connected_ = true;
  for (const auto& group : groups_) {
    if (const auto lease = group->lease()) static_cast<void>(daemon_.send(*lease));
  }
}

bool Context::run() {
  run_daemon();
  transport_->receive();
  return push();
}

bool Context::push() {
  bool any = false;
  for (bool some = true; some; any |= some) {
    some = false;
    const nic::Time now = nic::monotonic_now();
    for (const auto& group : groups_) {
      group->tick(now);
      some |= group->progress();
    }
  }
  transport_->flush();
  // What was just posted may be due before the thread would look.
  if (sleeps_until_ != 0 && transport_->next_deadline() < sleeps_until_) wake();
  return any;
}

void Context::sleep(std::unique_lock<std::mutex>& held, std::int64_t limit_ns) {
  if (!transport_->may_wait()) return;
  const nic::Time now = nic::monotonic_now();
  const bool looks = std::any_of(groups_.begin(), groups_.end(), [](const auto& g) {
    return g->state() != Group::State::ready && g->state() != Group::State::created &&
           g->state() != Group::State::failed;
  });
  nic::Time ns = std::min<nic::Time>(looks ? kLook : kIdle, limit_ns);
  // A deadline that has passed: the interface's queue is full, and has room soon.
  const nic::Time next = transport_->next_deadline();
  if (next != nic::kNever) ns = std::min(ns, std::max(next - now, kFull));
  sleeps_until_ = now + ns;
  std::array<pollfd, 3> wait{
      {{transport_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {daemon_.descriptor(), POLLIN, 0}}};
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  held.unlock();
  static_cast<void>(ppoll(wait.data(), wait.size(), &limit, nullptr));
  held.lock();
  sleeps_until_ = 0;
  std::uint64_t ignored = 0;
  if (wait[1].revents != 0) static_cast<void>(read(wake_.get(), &ignored, sizeof ignored) < 0);
}

void Context::thread() {
  auto held = lock();
  while (!stop_) {
    while (!stop_ && (waiters_ > 0 || nic::monotonic_now() < last_wait_ + kLinger)) {
      stopped_.wait_for(held, std::chrono::nanoseconds(kLinger));
    }
    if (stop_) return;
    run();
    sleep(held, kIdle);
  }
}

bool Context::wait(const std::function<bool()>& condition, std::int64_t limit_ns) {
  const nic::Time start = nic::monotonic_now();
  nic::Time last = start;
  auto held = lock();
  ++waiters_;
  bool reached = false;
  for (;;) {
    const bool some = run();
    reached = condition();
    const nic::Time now = nic::monotonic_now();
    if (some) last = now;
    if (reached || (limit_ns >= 0 && now - start >= limit_ns)) break;
    if (now - last < poll_ns_) {
      // Other threads post their requests meanwhile.
      held.unlock();
      std::this_thread::yield();
      held.lock();
    } else {
      sleep(held, limit_ns < 0 ? kIdle : limit_ns - (now - start));
    }
  }
  --waiters_;
  last_wait_ = nic::monotonic_now();
  return reached;
}

}  // namespace weft::inc::comm
