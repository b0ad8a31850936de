// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "bench/inc-manager/load.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bench/inc-manager/agents.h"
#include "collectives/manager/client.h"
#include "collectives/manager/inc.pb.h"
#include "switch/base/rng.h"
#include "switch/wire/addresses.h"

namespace weft::inc::manager_bench {
namespace {

namespace v1 = weft::inc::v1;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{20'000};
constexpr std::chrono::seconds kConnectionAge{20};
constexpr unsigned kAgentKb = 192;

/// A Clos network of three tiers, as the manager's file.
struct Network {
  std::vector<std::string> switches, hosts;  ///< names; addresses of hosts, those of a leaf next to each other
  std::string yaml;

  explicit Network(const LoadOptions& o) {
    std::string host_rows, link_rows;
    for (unsigned c = 0; c < o.half * o.half; ++c) switches.push_back("c" + std::to_string(c));
    for (unsigned pod = 0; pod < o.pods; ++pod) {
      for (unsigned i = 0; i < o.half; ++i) {
        const std::string number = std::to_string(pod * o.half + i), edge = "e" + number, agg = "a" + number;
        switches.push_back(edge);
        switches.push_back(agg);
        for (unsigned h = 0; h < o.half; ++h) {
          const auto [own, other] = ends();
          host_rows += "- {name: h" + std::to_string(hosts.size()) + ",address: " + own + ",switch: " + edge +
                       ",switch_address: " + other + "}\n";
          hosts.push_back(own);
        }
        for (unsigned j = 0; j < o.half; ++j) {
          link_rows += link(agg, "c" + std::to_string(i * o.half + j));
          link_rows += link(edge, "a" + std::to_string(pod * o.half + j));
        }
      }
    }
    yaml = "hosts:\n" + host_rows + "links:\n" + link_rows;
  }

 private:
  std::pair<std::string, std::string> ends() {
    next_ += 2;
    return {wire::IpAddress::v4(next_).to_string(), wire::IpAddress::v4(next_ + 1).to_string()};
  }
  std::string link(const std::string& a, const std::string& b) {
    const auto [own, other] = ends();
    return "- {a: " + a + ",a_address: " + own + ",b: " + b + ",b_address: " + other + "}\n";
  }
  std::uint32_t next_ = 0x0a000000;
};

/// Seconds of CPU that a process has used.
double cpu_s(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const auto after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(text.substr(after_name + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) fields >> skip;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// weft-inc-manager beside this program.
class ManagerProcess {
 public:
  explicit ManagerProcess(const std::string& config) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weft-inc-manager";
    const std::string path = program.string();
    const char* const argv[] = {path.c_str(), "-c", config.c_str(), "--log-level", "error", nullptr};
    if (posix_spawn(&pid_, path.c_str(), nullptr, nullptr, const_cast<char* const*>(argv), environ) != 0) {
      throw std::runtime_error("cannot start " + path);
    }
  }
  ~ManagerProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  ManagerProcess(const ManagerProcess&) = delete;
  ManagerProcess& operator=(const ManagerProcess&) = delete;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_ = 0;
};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/inc-manager-bench.XXXXXX";
    if (mkdtemp(name) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

/// What is to be done, and when.
struct Event {
  enum class Kind : std::uint8_t { create, renew, destroy };
  Clock::time_point at;
  Kind kind = Kind::create;
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  Clock::time_point end{};  ///< of the group

  friend bool operator>(const Event& a, const Event& b) { return a.at > b.at; }
};

class Load {
 public:
  Load(const LoadOptions& options, const Network& network, std::string socket)
      : o_(options), network_(network), socket_(std::move(socket)) {}

  void run() {
    const auto start = Clock::now();
    const auto count = static_cast<std::uint64_t>(o_.rate * o_.seconds);
    for (std::uint64_t i = 0; i < count; ++i) {
      queue_.push({start + seconds(static_cast<double>(i) / o_.rate), Event::Kind::create, 0, 0, {}});
    }
    open_ = count;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < o_.threads; ++t) threads.emplace_back([this, t] { work(t + 1); });
    for (auto& t : threads) t.join();
  }

  void print() {
    for (const auto& [what, n] : refused_)
      std::printf("  %-40s %llu\n", what.c_str(), static_cast<unsigned long long>(n));
    std::printf("  %-9s %8s %9s %9s %9s %9s\n", "call", "calls", "mean ms", "p50", "p99", "max");
    const char* const names[] = {"create", "renew", "destroy"};
    for (std::size_t k = 0; k < 3; ++k) {
      auto& ms = took_ms_[k];
      if (ms.empty()) continue;
      std::sort(ms.begin(), ms.end());
      double sum = 0;
      for (const double v : ms) sum += v;
      std::printf("  %-9s %8zu %9.2f %9.2f %9.2f %9.2f\n", names[k], ms.size(), sum / static_cast<double>(ms.size()),
                  ms[ms.size() / 2], ms[ms.size() * 99 / 100], ms.back());
    }
  }
  [[nodiscard]] bool all_made() const { return refused_.empty(); }

 private:
  static Clock::duration seconds(double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  }

  void work(std::uint64_t seed) {
    Rng rng(seed);
    std::unique_ptr<manager::Client> client;
    Clock::time_point since{};
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return open_ == 0 || (!queue_.empty() && !watched_); });
      if (open_ == 0) return;
      const Event e = queue_.top();
      if (e.at > Clock::now()) {
        // One thread watches the time for all: if each did, all would wake up for each call.
        watched_ = true;
        due_.wait_until(lock, e.at);
        watched_ = false;
        continue;
      }
      queue_.pop();
      lock.unlock();
      changed_.notify_one();
      if (client == nullptr || Clock::now() - since > kConnectionAge) {
        client = std::make_unique<manager::Client>();
        since = Clock::now();
        if (const auto error = client->connect(socket_, kPatience)) note_refusal(*error);
      }
      do_event(e, *client, rng);
    }
  }

  void do_event(const Event& e, manager::Client& client, Rng& rng) {
    if (e.kind == Event::Kind::create) return create(e, client, rng);
    if (e.kind == Event::Kind::renew) {
      v1::RenewLeaseRequest request;
      request.set_group(e.group);
      request.set_generation(e.generation);
      v1::RenewLeaseReply reply;
      if (const auto error = client.renew(request, reply)) note_refusal(*error);
      if (!reply.running()) note_refusal("a group was gone");
      took(e);
      return next(e);
    }
    v1::DestroyGroupRequest request;
    request.set_group(e.group);
    request.set_generation(e.generation);
    v1::DestroyGroupReply reply;
    if (const auto error = client.destroy(request, reply)) note_refusal(*error);
    took(e);
    close_one();
  }

  void create(const Event& e, manager::Client& client, Rng& rng) {
    v1::CreateGroupRequest request;
    const std::size_t all = network_.hosts.size(), first = rng.below(all - o_.hosts + 1);
    std::set<std::size_t> hosts;
    while (hosts.size() < o_.hosts) hosts.insert(o_.scattered ? rng.below(all) : first + hosts.size());
    for (const std::size_t h : hosts) {
      auto* m = request.add_members();
      m->set_address(network_.hosts[h]);
      m->set_qp(17);
    }
    request.mutable_options()->set_window(1);
    request.mutable_options()->set_message_packets(1);
    v1::CreateGroupReply reply;
    const auto error = client.create(request, reply);
    took(e);
    if (error || reply.refusal() != "none") {
      note_refusal(error ? *error : reply.refusal() + ": " + (reply.sentences().empty() ? "" : reply.sentences(0)));
      return close_one();
    }
    next({Clock::now(), Event::Kind::create, reply.group(), reply.generation(), Clock::now() + seconds(o_.hold_s)});
  }

  /// The next renewal, or the end.
  void next(const Event& e) {
    const auto renewal = e.at + std::chrono::milliseconds(o_.lease_ms / 3);
    const bool ends = renewal >= e.end;
    const std::lock_guard lock(mutex_);
    queue_.push(
        {ends ? e.end : renewal, ends ? Event::Kind::destroy : Event::Kind::renew, e.group, e.generation, e.end});
    due_.notify_one();
    changed_.notify_one();
  }
  void close_one() {
    const std::lock_guard lock(mutex_);
    if (--open_ > 0) return;
    due_.notify_all();
    changed_.notify_all();
  }
  /// Waiting for a thread of this program counts: whoever asks waits, too.
  void took(const Event& e) {
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - e.at).count();
    const std::lock_guard lock(mutex_);
    took_ms_[static_cast<std::size_t>(e.kind)].push_back(ms);
  }
  void note_refusal(const std::string& why) {
    const std::lock_guard lock(mutex_);
    ++refused_[why];
  }

  const LoadOptions& o_;
  const Network& network_;
  std::string socket_;
  std::mutex mutex_;
  std::condition_variable changed_, due_;
  bool watched_ = false;  ///< by a thread, which waits for due_
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::uint64_t open_ = 0;  ///< groups that are not over
  std::vector<double> took_ms_[3];
  std::map<std::string, std::uint64_t> refused_;
};

/// All switches answer the manager.
void wait_until_up(const std::string& socket, std::size_t switches, unsigned probe_ms) {
  for (const auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(probe_ms));
    manager::Client client;
    v1::ShowTopologyReply reply;
    if (client.connect(socket, kPatience) || client.topology(reply)) continue;
    std::size_t up = 0;
    for (const auto& node : reply.nodes()) up += node.tier() > 0 && node.up() ? 1 : 0;
    if (up == switches) return;
  }
  throw std::runtime_error("the manager does not reach all switches");
}

}  // namespace

int run_load(const LoadOptions& o) {
  const Network network(o);
  const Folder folder;
  std::vector<std::string> sockets;
  std::string rows;
  for (const auto& name : network.switches) {
    sockets.push_back(folder.path + "/" + name);
    rows +=
        "  - { name: " + name + ", control: " + sockets.back() + ", memory_kb: " + std::to_string(kAgentKb) + " }\n";
  }
  AgentProcesses agents(sockets, network.switches, o.processes, kAgentKb);
  const std::string socket = folder.path + "/manager", config = folder.path + "/manager.yaml";
  std::ofstream(config) << "control: { socket: " << socket << " }\n"
                        << "store: " << (o.store.empty() ? folder.path + "/groups.db" : o.store) << "\n"
                        << "probe_ms: " << o.probe_ms << "\nlease_ms: " << o.lease_ms << "\nswitches:\n"
                        << rows << network.yaml;
  if (const std::string error = agents.wait_until_ready(); !error.empty()) throw std::runtime_error(error);
  const ManagerProcess process(config);
  wait_until_up(socket, network.switches.size(), o.probe_ms);
  std::printf("%zu switches, %zu hosts; %g groups of %u hosts a second for %g s, each for %g s; probe_ms %u\n",
              network.switches.size(), network.hosts.size(), o.rate, o.hosts, o.seconds, o.hold_s, o.probe_ms);
  const auto agents_cpu = [&] {
    double sum = 0;
    for (const pid_t pid : agents.pids()) sum += cpu_s(pid);
    return sum;
  };
  const double before = cpu_s(process.pid()), agents_before = agents_cpu();
  const auto start = Clock::now();
  Load load(o, network, socket);
  load.run();
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  load.print();
  std::printf("  CPU: manager %.2f, agents %.2f of one\n", (cpu_s(process.pid()) - before) / wall,
              (agents_cpu() - agents_before) / wall);
  return load.all_made() ? 0 : 1;
}

}  // namespace weft::inc::manager_bench
