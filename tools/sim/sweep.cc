// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/sweep.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

extern char** environ;

namespace weft::sim {
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
      std::ostringstream out;
      out << v;
      return out.str();
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

std::string label_of(const std::vector<Override>& point) {
  std::string label;
  for (const Override& o : point) label += (label.empty() ? "" : " ") + o.key + "=" + o.value;
  return label.empty() ? "as it is" : label;
}

// A name that the same point has in the next sweep: the file's contents count, as far as they decide the run.
std::string name_of(const SweepOptions& options, const std::vector<Override>& point) {
  std::ifstream in(options.file);
  std::ostringstream text;
  text << in.rdbuf() << label_of(point);
  for (const std::string& set : options.sets) text << set;
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text.str()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
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

pid_t start(const SweepOptions& options, const std::vector<Override>& point, const std::string& result) {
  std::vector<std::string> arguments{"weft-sim", "run", options.file, "--quiet", "--json", result};
  for (const std::string& set : options.sets) arguments.insert(arguments.end(), {"--set", set});
  for (const Override& o : point) arguments.insert(arguments.end(), {"--set", o.key + "=" + o.value});
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  if (posix_spawn(&pid, "/proc/self/exe", &files, nullptr, pointers.data(), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

struct Point {
  std::vector<Override> overrides;
  std::filesystem::path result;
};

void print_row(const Point& point, const ordered_json& summary) {
  std::printf("%-60s %10.3f ms  %8.2f Gbit/s  spurious %.4f  %s\n", label_of(point.overrides).c_str(),
              summary["completion_ms"].get<double>(), summary["goodput_gbps"].get<double>(),
              summary["spurious_retransmit_ratio"].get<double>(), summary["complete"].get<bool>() ? "" : "incomplete");
}

int collect(const SweepOptions& options, const std::vector<Point>& points) {
  ordered_json all = ordered_json::array();
  int missing = 0;
  for (const Point& point : points) {
    std::ifstream in(point.result);
    const ordered_json report = in ? ordered_json::parse(in, nullptr, false) : ordered_json();
    if (!report.is_object()) {
      std::printf("%-60s no result\n", label_of(point.overrides).c_str());
      ++missing;
      continue;
    }
    ordered_json keys = ordered_json::object();
    for (const Override& o : point.overrides) keys[o.key] = o.value;
    all.push_back({{"set", keys}, {"trace_hash", report["trace_hash"]}, {"summary", report["summary"]}});
    print_row(point, report["summary"]);
  }
  std::ofstream(std::filesystem::path(options.folder) / "sweep.json") << all.dump(1) << "\n";
  return missing == 0 ? 0 : 5;
}

}  // namespace

std::vector<std::vector<Override>> sweep_points(const Value& sweep) {
  std::vector<std::vector<Override>> points(1);
  if (!sweep.is_map()) return points;
  for (const auto& [keys, values] : sweep.map()) {
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

int run_sweep(const SweepOptions& options, const Experiment& experiment, const std::atomic<bool>& stop) {
  std::filesystem::create_directories(options.folder);
  std::vector<Point> points;
  for (auto& overrides : sweep_points(experiment.source["sweep"])) {
    const auto result = std::filesystem::path(options.folder) / (name_of(options, overrides) + ".json");
    points.push_back({std::move(overrides), result});
  }
  std::vector<const Point*> todo;
  for (const Point& point : points) {
    if (!std::filesystem::exists(point.result)) todo.push_back(&point);
  }
  std::fprintf(stderr, "%zu runs, %zu to do\n", points.size(), todo.size());
  const unsigned jobs = options.jobs != 0 ? options.jobs : cpus();
  const auto begun = std::chrono::steady_clock::now();
  std::map<pid_t, const Point*> running;
  std::size_t next = 0, done = 0;
  while (!running.empty() || (next < todo.size() && !stop)) {
    while (running.size() < jobs && next < todo.size() && !stop) {
      const Point* point = todo[next++];
      // Under its own name only when it is whole: what was cut off is run again.
      const pid_t pid = start(options, point->overrides, point->result.string() + ".part");
      if (pid < 0) return 3;
      running[pid] = point;
    }
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    const auto at = running.find(pid);
    if (at == running.end()) {
      if (pid < 0 && errno == EINTR) {
        for (const auto& child : running) kill(child.first, SIGINT);
        continue;
      }
      break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      std::filesystem::rename(at->second->result.string() + ".part", at->second->result);
    }
    running.erase(at);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    ++done;
    std::fprintf(stderr, "%zu of %zu runs, %.0f s, about %.0f s left\n", done, todo.size(), wall,
                 wall / static_cast<double>(done) * static_cast<double>(todo.size() - done));
  }
  return collect(options, points);
}

}  // namespace weft::sim
