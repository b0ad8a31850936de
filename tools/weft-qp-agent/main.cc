// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-qp-agent: sees which queue pairs the programs of this host connect, and tells switches before their first
// packet.
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "nic/agent/device_gids.h"
#include "nic/agent/kernel_source.h"
#include "nic/agent/pid_namespace.h"
#include "nic/agent/state_text.h"
#include "nic/agent/verbs_source.h"
#include "switch/config/command_line.h"
#include "switch/system/clock.h"
#include "switch/system/output_file.h"
#include "tools/weft-qp-agent/capabilities.h"
#include "tools/weft-qp-agent/switch_link.h"

namespace weft::agent {
namespace {

constexpr TimeNs kExitLook = kSecond;  // for processes that have ended
// Ends of connections are told together: each message costs as much as all that is in it.
constexpr TimeNs kGather = 5 * kMs;
// Programs go from RTR to RTS without a pause, and none sends in between.
constexpr TimeNs kSettle = 200'000;
constexpr const char* kLibrary = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

struct Options {
  std::vector<std::string> sockets, addresses;
  SwitchPlace place;
  std::string source = "auto";
  std::vector<std::string> libraries;
  double scan_s = 30, heartbeat_s = 2, refresh_s = 200;
  std::string sysfs = "/sys/class/infiniband";
  std::string state = "/run/weft/qp-agent.json";
  std::string level = "info";
};

void add_options(CLI::App& app, Options& o) {
  std::string host(256, '\0');
  if (gethostname(host.data(), host.size()) == 0) host.resize(host.find('\0'));
  o.place.host = host;
  app.set_version_flag("--version", WEFT_VERSION);
  app.add_option("--host", o.place.host, "This host's name, in the switch's option `agents`")->capture_default_str();
  app.add_option("--socket", o.sockets, "Control socket of a weft-switch on this machine; may be given again");
  auto* address = app.add_option("--connect", o.addresses, "HOST:PORT of one on another; may be given again");
  auto* cert =
      app.add_option("--cert", o.place.files.certificate, "PEM file with the own certificate: it names --host");
  auto* key = app.add_option("--key", o.place.files.key, "PEM file with its private key");
  auto* ca = app.add_option("--ca", o.place.files.authority, "PEM file with the authorities of the switches'");
  address->needs(cert, key, ca);
  app.add_option("--switch", o.place.switch_name, "A switch of the process (default: all that track queue pairs)");
  app.add_option("--source", o.source,
                 "Where to look: kernel (all queue pairs of kernel drivers), verbs (calls of libibverbs), both, or "
                 "auto: kernel where that is possible, else verbs")
      ->check(CLI::IsMember({"auto", "kernel", "verbs", "both"}))
      ->capture_default_str();
  app.add_option("--library", o.libraries, "A libibverbs.so.1 to watch; may be given again")->default_str(kLibrary);
  app.add_option("--scan-s", o.scan_s, "Seconds between looks for other copies of it that processes use; 0: none")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--heartbeat-s", o.heartbeat_s, "Seconds after which an idle agent asks whether it is still known")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  app.add_option("--refresh-s", o.refresh_s,
                 "Seconds between reports of everything; less than a switch's idle_timeout_s")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--sysfs", o.sysfs, "Where RDMA devices are described")->capture_default_str();
  app.add_option("--state", o.state, "Where it leaves what it knows to its successor; \"\": nowhere")
      ->capture_default_str();
  app.add_option("--log-level", o.level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

TimeNs from_seconds(double seconds) {
  return static_cast<TimeNs>(seconds * 1e9);
}

// When a process started, which tells it from a later one with its number; nullopt when there is none.
std::optional<std::string> start_of(std::uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // Its name, in parentheses, may have any bytes; the state follows, and the start is the 20th word from there.
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  return word;
}

class Agent {
 public:
  explicit Agent(const Options& options)
      : options_(options),
        gids_(options.sysfs),
        list_([this](const std::string& device, unsigned port, unsigned index) {
          return gids_.address(monotonic_now(), device, port, index);
        }) {
    const Reporter::Times times{.heartbeat = from_seconds(options.heartbeat_s),
                                .refresh = from_seconds(options.refresh_s),
                                .gather = kGather,
                                .settle = kSettle};
    for (const bool tcp : {false, true}) {
      for (const std::string& each : tcp ? options.addresses : options.sockets) {
        SwitchPlace place = options.place;
        (tcp ? place.address : place.socket) = each;
        links_.push_back(std::make_unique<SwitchLink>(place, list_, times));
      }
    }
    if (links_.empty()) links_.push_back(std::make_unique<SwitchLink>(options.place, list_, times));
  }

  /// What an earlier one has left. Its processes are alive, and the same ones.
  void inherit() {
    std::ifstream file(options_.state);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const SavedQp& saved : read_state(text)) {
      const auto started = start_of(saved.qp.pid);
      if (!started || *started != saved.started) continue;
      started_[saved.qp.pid] = started;
      // Who sees them from here on is not who saw them then.
      list_.restore(saved.qp, saved.kernel && verbs_ == nullptr);
    }
    if (list_.size() > 0) spdlog::info("{} connections are known from before", list_.size());
  }

  /// What it leaves.
  void bequeath() const {
    if (options_.state.empty()) return;
    std::vector<SavedQp> qps;
    for (auto& [qp, kernel] : list_.all()) {
      const auto started = start_of(qp.pid);
      if (started) qps.push_back({qp, kernel, *started});
    }
    if (const std::string error = OutputFile(options_.state).write(state_text(qps)); !error.empty()) {
      spdlog::warn("{}: the next agent will not know what is connected now", error);
    }
  }

  /// "" or why nothing can be seen.
  std::string open() {
    std::string problem;
    if (options_.source != "verbs") {
      auto source = std::make_unique<KernelSource>();
      problem = source->open();
      if (problem.empty()) sources_.push_back(std::move(source));
      if (!problem.empty() && options_.source != "auto") return problem;
    }
    if (options_.source == "auto" && !sources_.empty()) return "";
    if (options_.source == "kernel") return "";
    if (!problem.empty()) spdlog::info("the kernel's queue pairs are not to be seen: {}", problem);
    return open_verbs();
  }

  /// Libraries that processes open later are looked for, and watched.
  [[nodiscard]] bool attaches_later() const noexcept { return verbs_ != nullptr && options_.scan_s > 0; }

  void run(int stop) {
    std::vector<pollfd> waits{{stop, POLLIN, 0}};
    for (const auto& source : sources_) waits.push_back({source->descriptor(), POLLIN, 0});
    while (true) {
      const TimeNs now = monotonic_now();
      look_around(now);
      for (const auto& link : links_) link->run(monotonic_now());
      const TimeNs next = deadline(), at = monotonic_now();
      // The kernel rounds up, so that it never wakes too early.
      const timespec wait{static_cast<time_t>((next > at ? next - at : 0) / kSecond),
                          static_cast<long>((next > at ? next - at : 0) % kSecond)};
      if (ppoll(waits.data(), waits.size(), &wait, nullptr) < 0 && errno != EINTR) return;
      if ((waits[0].revents & POLLIN) != 0) return;
    }
  }

 private:
  std::string open_verbs() {
    auto source = std::make_unique<VerbsSource>();
    if (std::string problem = source->open(); !problem.empty()) return problem;
    std::vector<std::string> libraries = options_.libraries;
    const bool by_default = libraries.empty();
    if (by_default) libraries.emplace_back(kLibrary);
    for (const std::string& library : libraries) {
      std::string problem = source->watch(library);
      if (problem.empty()) continue;
      if (!by_default) return problem;
      spdlog::info("{}; libraries that processes use are found by looking", problem);
    }
    verbs_ = source.get();
    sources_.push_back(std::move(source));
    if (attaches_later()) scan(monotonic_now());
    return "";
  }

  // For libraries that processes have open.
  void scan(TimeNs now) {
    verbs_->watch_processes([](const std::string& problem) { spdlog::warn("{}", problem); });
    next_scan_ = now + from_seconds(options_.scan_s);
  }

  // Events, and what nothing tells of.
  void look_around(TimeNs now) {
    for (const auto& source : sources_) {
      source->read([&](const weft_qp_event& event) { take(event, now); });
      if (source->lost() == lost_[source.get()]) continue;
      lost_[source.get()] = source->lost();
      spdlog::warn("{}: {} events were lost so far: their queue pairs are not known", source->name(), source->lost());
    }
    if (attaches_later() && now >= next_scan_) scan(now);
    if (now >= next_exit_look_) {
      bury(now);
      next_exit_look_ = now + kExitLook;
    }
  }

  void take(const weft_qp_event& event, TimeNs now) {
    // Of one whose end nobody would see, nothing is told: its number would be there for ever.
    if (event.kernel == 0 && event.pid == 0) {
      if (elsewhere_++ == 0) {
        spdlog::warn(
            "{} and others are in PID namespaces that this agent does not see: nothing is told of their queue "
            "pairs",
            std::string(event.process, strnlen(event.process, sizeof event.process)));
      }
      return;
    }
    if (event.kernel == 0 && !started_.contains(event.pid)) started_[event.pid] = start_of(event.pid);
    tell(list_.on_event(event), now);
  }

  // Processes that ended without destroying what they had.
  void bury(TimeNs now) {
    const std::vector<std::uint32_t> alive = list_.processes();
    std::set<std::uint32_t> gone;
    for (const std::uint32_t pid : alive) {
      if (start_of(pid) != started_[pid] || !started_[pid]) gone.insert(pid);
    }
    if (!gone.empty()) tell(list_.on_exit([&](std::uint32_t pid) { return gone.contains(pid); }), now);
    std::erase_if(started_, [&](const auto& each) {
      return gone.contains(each.first) || !std::binary_search(alive.begin(), alive.end(), each.first);
    });
  }

  static void describe(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      spdlog::debug("{} {} qp {} of {} ({}): {} qp {}", change.up ? "up" : "down", change.qp.local.to_string(),
                    change.qp.qpn, change.qp.process, change.qp.device, change.qp.remote.to_string(),
                    change.qp.remote_qpn);
    }
  }

  void tell(const std::vector<Change>& changes, TimeNs now) {
    if (spdlog::should_log(spdlog::level::debug)) describe(changes);
    for (const auto& link : links_) link->add(changes, now);
  }

  [[nodiscard]] TimeNs deadline() const {
    TimeNs next = list_.size() > 0 && verbs_ != nullptr ? next_exit_look_ : kNever;
    if (attaches_later()) next = std::min(next, next_scan_);
    for (const auto& link : links_) next = std::min(next, link->deadline());
    return next;
  }

  const Options& options_;
  GidReader gids_;
  QpList list_;
  std::vector<std::unique_ptr<SwitchLink>> links_;
  std::vector<std::unique_ptr<QpEventSource>> sources_;
  VerbsSource* verbs_ = nullptr;
  std::map<const QpEventSource*, std::uint64_t> lost_;
  std::map<std::uint32_t, std::optional<std::string>> started_;
  std::uint64_t elsewhere_ = 0;  // events of processes that have no number here
  TimeNs next_scan_ = 0, next_exit_look_ = 0;
};

int serve(const Options& o) {
  // Threads inherit the mask: signals come by the descriptor alone.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int stop = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (const std::string problem = problem_of_proc(); !problem.empty()) {
    spdlog::error("{}", problem);
    return config::kExitCannotRun;
  }
  if (own_pid_namespace().inode != 0) {
    spdlog::warn(
        "this PID namespace is not the machine's first: programs outside of it, and in namespaces within it, "
        "are not seen where they call libibverbs");
  }
  Agent agent(o);
  if (const std::string problem = agent.open(); !problem.empty()) {
    spdlog::error("{}", problem);
    return config::kExitCannotRun;
  }
  if (const std::string problem = drop_capabilities(agent.attaches_later()); !problem.empty()) {
    spdlog::warn("{}", problem);
  }
  agent.inherit();
  spdlog::info("watching");
  sd_notify(0, "READY=1");
  agent.run(stop);
  sd_notify(0, "STOPPING=1");
  agent.bequeath();
  close(stop);
  return 0;
}

int main_checked(int argc, char** argv) {
  Options o;
  CLI::App app("Tells switches which queue pairs the programs of this host have connected.", "weft-qp-agent");
  add_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return config::end_of_parsing(app, error);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("weft-qp-agent"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(o.level));
  return serve(o);
}

}  // namespace
}  // namespace weft::agent

int main(int argc, char** argv) {
  try {
    return weft::agent::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-qp-agent: %s\n", error.what());
    return weft::config::kExitCannotRun;
  }
}
