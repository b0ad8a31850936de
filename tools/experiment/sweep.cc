// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/sweep.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "switch/config/exit_status.h"
#include "switch/system/output_file.h"
#include "tools/experiment/files.h"
#include "tools/experiment/memory.h"
#include "tools/experiment/sweep_report.h"

namespace weft::experiment {
namespace {

using config::Value;
using nlohmann::ordered_json;

std::string text_of(const Value& value) {
  return value.visit([](const auto& v) -> std::string {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::string>) {
      return v;
    } else if constexpr (std::is_same_v<T, bool>) {
      return v ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      constexpr auto kWhole = static_cast<T>(1'000'000'000'000'000);
      // Keys that take whole numbers take no exponent.
      if (v == std::trunc(v) && v < kWhole && v > -kWhole) return std::to_string(static_cast<std::int64_t>(v));
      std::array<char, 32> out;  // the shortest text that means the same number
      return {out.data(), std::to_chars(out.data(), out.data() + out.size(), v).ptr};
    } else {
      return "";
    }
  });
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<Override> overrides_of(const std::string& keys, const std::string& values) {
  const auto names = split(keys, ',');
  if (names.size() == 1) return values.empty() ? std::vector<Override>{} : std::vector<Override>{{keys, values}};
  const auto parts = split(values, ';');
  std::vector<Override> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i < parts.size() && !parts[i].empty()) out.push_back({names[i], parts[i]});
  }
  return out;
}

std::vector<std::vector<Override>> product_of(const Value& section) {
  std::vector<std::vector<Override>> points(1);
  for (const auto& [keys, values] : section.map()) {
    std::vector<std::vector<Override>> next;
    for (const auto& point : points) {
      for (const Value& value : values.list_or_empty()) {
        auto longer = point;
        const auto more = overrides_of(keys, text_of(value));
        longer.insert(longer.end(), more.begin(), more.end());
        next.push_back(std::move(longer));
      }
    }
    points = std::move(next);
  }
  return points;
}

std::string label_of(const std::vector<Override>& point) {
  std::string label;
  for (const Override& o : point) label += (label.empty() ? "" : " ") + o.key + "=" + o.value;
  return label.empty() ? "as it is" : label;
}

// A name that the same point has in the next sweep: the file's contents count, as far as they decide the run.
std::string name_of(const SweepOptions& options, const std::vector<Override>& point) {
  std::string text = options.text + label_of(point);
  for (const Override& set : options.sets) text += set.key + "=" + set.value;
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  char name[24];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

unsigned cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

struct Point {
  std::vector<Override> overrides;
  std::string result;  ///< path
  RunDemand demand{};
};

// One run in a process of its own, which does not outlive this one. -1 when there is none.
pid_t start(const SweepOptions& options, const Point& point, unsigned threads) {
  std::vector<std::string> arguments{options.program.name, "run", options.file, "--quiet", "--json", point.result};
  for (const auto* list : {&options.sets, &point.overrides}) {
    for (const Override& o : *list) arguments.insert(arguments.end(), {"--set", o.key + "=" + o.value});
  }
  if (threads > 1) arguments.insert(arguments.end(), {"--threads", std::to_string(threads)});
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  // The parent may have ended before it could be watched.
  if (getppid() == parent && null >= 0 && dup2(null, STDOUT_FILENO) >= 0) execv("/proc/self/exe", pointers.data());
  _exit(127);
}

// A field of CSV (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// A line for every result: what was set, and the numbers of the summary; empty where a run could not tell.
std::string to_csv(const ordered_json& list) {
  std::vector<std::string> sets, numbers;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const ordered_json& item : list) {
    for (const auto& [key, value] : item["set"].items()) note(sets, key);
    for (const auto& [key, value] : item["summary"].items()) {
      if (!value.is_structured()) note(numbers, key);
    }
  }
  std::string out;
  for (const auto* names : {&sets, &numbers}) {
    for (const std::string& name : *names) out += csv_field(name) + ",";
  }
  out += "trace_hash\r\n";
  for (const ordered_json& item : list) {
    for (const auto& name : sets) out += csv_field(item["set"].value(name, "")) + ",";
    for (const auto& name : numbers) {
      const auto at = item["summary"].find(name);
      const bool known = at != item["summary"].end() && !at->is_null();
      out += (known ? csv_field(at->is_string() ? at->get<std::string>() : at->dump()) : "") + ",";
    }
    out += item["trace_hash"].get<std::string>() + "\r\n";
  }
  return out;
}

// What a sweep leaves beside the results of its runs.
struct SweepFiles {
  explicit SweepFiles(const std::filesystem::path& folder)
      : json((folder / "sweep.json").string()),
        csv((folder / "sweep.csv").string()),
        html((folder / "sweep.html").string()) {}

  OutputFile json, csv, html;
};

// The table of all results, and the files. Tells whether every run has one, and whether each of these is
// complete.
struct Collected {
  bool all = true, complete = true;
  std::string error;
};

Collected collect(const SweepOptions& options, const std::vector<Point>& points, const SweepFiles& files) {
  Collected out;
  ordered_json list = ordered_json::array();
  for (const Point& point : points) {
    const auto report = options.program.read_result(point.result);
    if (!report) {
      std::printf("%-60s no result\n", label_of(point.overrides).c_str());
      out.all = false;
      continue;
    }
    ordered_json keys = ordered_json::object();
    for (const Override& o : point.overrides) keys[o.key] = o.value;
    const ordered_json& summary = (*report)["summary"];
    list.push_back({{"set", keys}, {"trace_hash", (*report)["trace_hash"]}, {"summary", summary}});
    out.complete = out.complete && summary["complete"].get<bool>();
    options.program.print_row(label_of(point.overrides), summary);
  }
  out.error = files.json.write(list.dump(1) + "\n");
  if (out.error.empty()) out.error = files.csv.write(to_csv(list));
  const std::string title = "Sweep of " + std::filesystem::path(options.file).filename().string();
  if (out.error.empty()) out.error = files.html.write(sweep_report(title, list));
  return out;
}

int fail(const SweepOptions& options, int code, const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", options.program.name.c_str(), message.c_str());
  return code;
}

// Whether every run can be built. Mistakes are reported with the run that has them.
bool check_points(const SweepOptions& options, const std::vector<Point>& points) {
  bool fine = true;
  for (const Point& point : points) {
    std::vector<Override> overrides = options.sets;
    overrides.insert(overrides.end(), point.overrides.begin(), point.overrides.end());
    const std::string mistakes = options.program.check(overrides);
    if (mistakes.empty()) continue;
    std::fprintf(stderr, "%s: run '%s':\n%s", options.program.name.c_str(), label_of(point.overrides).c_str(),
                 mistakes.c_str());
    fine = false;
  }
  return fine;
}

// "" or why the results cannot be kept in the folder, which is made.
std::string prepare_folder(const std::string& folder, const SweepFiles& files) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return "cannot make the folder " + folder + ": " + error.message();
  for (const OutputFile* file : {&files.json, &files.csv, &files.html}) {
    if (const std::string problem = file->probe(); !problem.empty()) return problem;
  }
  return "";
}

std::vector<const Point*> missing_of(const SweepOptions& options, const std::vector<Point>& points) {
  std::vector<const Point*> todo;
  std::set<std::string> seen;  // the same values may be named twice
  for (const Point& point : points) {
    if (!seen.insert(point.result).second || options.program.read_result(point.result)) continue;
    todo.push_back(&point);
    std::error_code error;
    if (std::filesystem::exists(point.result, error)) {
      std::fprintf(stderr, "%s: %s is no whole result; the run is repeated\n", options.program.name.c_str(),
                   point.result.c_str());
    }
  }
  return todo;
}

class Runs {
 public:
  Runs(const SweepOptions& options, std::vector<const Point*> todo, const std::atomic<bool>& stop)
      : options_(options), todo_(std::move(todo)), stop_(stop), begun_(std::chrono::steady_clock::now()) {
    std::stable_partition(todo_.begin(), todo_.end(), [](const Point* point) { return !point->demand.large; });
  }

  // Runs all of them, until `stop`. Returns the worst of their exit codes; an incomplete run has a result.
  int all() {
    const unsigned most = options_.jobs != 0 ? options_.jobs : cpus();
    while (!running_.empty() || may_start()) {
      while (busy_ < most && may_start()) {
        const unsigned threads = threads_for_next(most - busy_);
        if (threads == 0) break;
        const Point* point = todo_[next_++];
        const pid_t pid = start(options_, *point, threads);
        if (pid < 0) return end_all(std::string("cannot start a process: ") + std::strerror(errno));
        running_[pid] = {point, threads};
        busy_ += threads;
      }
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid > 0) {
        ended(pid, status);
      } else if (pid < 0 && errno != EINTR) {
        return end_all(std::string("cannot wait for the runs: ") + std::strerror(errno));
      } else {
        if (stop_ && !std::exchange(told_, true)) {
          for (const auto& child : running_) kill(child.first, SIGINT);
        }
        // A signal may come at any moment: to wait for nothing but a run would miss those right before it.
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return worst_;
  }

 private:
  [[nodiscard]] bool may_start() const { return next_ < todo_.size() && !stop_ && worst_ != config::kExitUnbalanced; }

  // 0 while it has to wait: for memory, which others will give back when they end.
  [[nodiscard]] unsigned threads_for_next(unsigned free) const {
    const RunDemand& demand = todo_[next_]->demand;
    if (options_.jobs != 0 || !demand.large) return 1;
    const std::uint64_t available = available_bytes();
    const std::uint64_t slots = demand.bytes == 0 || available == 0 ? free : available / demand.bytes;
    // Those that run may not have taken all that they will take: the first one alone tells that there is room.
    if (slots < 2 && !running_.empty()) return 0;
    return threads_of(free, todo_.size() - next_, slots);
  }

  int end_all(const std::string& why) {
    for (const auto& child : running_) {
      kill(child.first, SIGKILL);
      waitpid(child.first, nullptr, 0);
    }
    return fail(options_, config::kExitCannotRun, why);
  }

  void ended(pid_t pid, int status) {
    const auto at = running_.find(pid);
    if (at == running_.end()) return;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : config::kExitCannotRun;
    if (code != 0 && code != config::kExitIncomplete) {
      const std::string how = WIFEXITED(status) ? "exit code " + std::to_string(code)
                                                : std::string("ended by signal ") + strsignal(WTERMSIG(status));
      fail(options_, code, "run '" + label_of(at->second.point->overrides) + "': " + how);
      worst_ = code == config::kExitUnbalanced || worst_ == config::kExitUnbalanced ? config::kExitUnbalanced
                                                                                    : config::kExitCannotRun;
      // What it had begun to write.
      ::unlink((at->second.point->result + "." + std::to_string(pid)).c_str());
    }
    const Point& point = *at->second.point;
    busy_ -= at->second.threads;
    running_.erase(at);
    // A run that was told to end has said what it knew, which is no result.
    if (told_ && !options_.program.read_result(point.result)) return;
    ++done_;
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    std::fprintf(stderr, "%zu of %zu runs, %.0f s, about %.0f s left\n", done_, todo_.size(), wall,
                 wall / static_cast<double>(done_) * static_cast<double>(todo_.size() - done_));
  }

  const SweepOptions& options_;
  std::vector<const Point*> todo_;
  const std::atomic<bool>& stop_;
  std::chrono::steady_clock::time_point begun_;
  struct Running {
    const Point* point;
    unsigned threads;
  };
  std::map<pid_t, Running> running_;
  unsigned busy_ = 0;  ///< CPUs that they use
  std::size_t next_ = 0, done_ = 0;
  bool told_ = false;  ///< the runs, that they are to end
  int worst_ = 0;
};

}  // namespace

std::vector<std::vector<Override>> sweep_points(const Value& sweep) {
  if (sweep.is_map()) return product_of(sweep);
  if (sweep.is_null()) return {{}};
  std::vector<std::vector<Override>> points;
  for (const Value& section : sweep.list()) {
    auto more = product_of(section);
    std::move(more.begin(), more.end(), std::back_inserter(points));
  }
  return points;
}

std::optional<ordered_json> read_whole(const std::string& path, const std::vector<std::string>& keys) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  ordered_json report = ordered_json::parse(*text, nullptr, false);
  if (!report.is_object() || !report.contains("trace_hash") || !report["trace_hash"].is_string()) return std::nullopt;
  if (!report.contains("interrupted") || report["interrupted"] != false) return std::nullopt;
  if (!report.contains("summary") || !report["summary"].is_object()) return std::nullopt;
  const ordered_json& summary = report["summary"];
  if (!summary.contains("complete") || !summary["complete"].is_boolean()) return std::nullopt;
  for (const std::string& key : keys) {
    if (!summary.contains(key)) return std::nullopt;
  }
  return report;
}

int run_sweep(const SweepOptions& options, const Value& sweep, const std::atomic<bool>& stop) {
  const std::filesystem::path folder = options.folder;
  std::vector<Point> points;
  for (auto& overrides : sweep_points(sweep)) {
    const auto result = folder / (name_of(options, overrides) + ".json");
    points.push_back({std::move(overrides), result.string()});
  }
  if (!check_points(options, points)) return config::kExitUsage;
  const SweepFiles files(folder);
  if (const auto error = prepare_folder(options.folder, files); !error.empty()) {
    return fail(options, config::kExitCannotRun, error);
  }
  if (options.program.demand) {
    for (Point& point : points) {
      std::vector<Override> overrides = options.sets;
      overrides.insert(overrides.end(), point.overrides.begin(), point.overrides.end());
      point.demand = options.program.demand(overrides);
    }
  }
  auto todo = missing_of(options, points);
  std::fprintf(stderr, "%zu runs, %zu to do\n", points.size(), todo.size());
  const int worst = Runs(options, std::move(todo), stop).all();
  const Collected collected = collect(options, points, files);
  if (!collected.error.empty())
    return fail(options, worst == config::kExitUnbalanced ? worst : config::kExitCannotRun, collected.error);
  if (worst != 0) return worst;
  return collected.all && collected.complete ? 0 : config::kExitIncomplete;
}

unsigned threads_of(unsigned free, std::size_t left, std::uint64_t slots) noexcept {
  const std::uint64_t at_once = std::min<std::uint64_t>(left, slots);
  return static_cast<unsigned>(std::max<std::uint64_t>(1, free / std::max<std::uint64_t>(1, at_once)));
}

std::string shown(const ordered_json& value, int decimals) {
  if (!value.is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value.get<double>());
  return text;
}

}  // namespace weft::experiment
