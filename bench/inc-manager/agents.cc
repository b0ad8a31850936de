// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "bench/inc-manager/agents.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "collectives/stage/stage.h"
#include "switch/api/service.h"
#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "switch/pipeline/set_words.h"
#include "switch/pipeline/stage_command.h"

namespace weft::inc::manager_bench {
namespace {

config::Value read(const config::Schema& schema, const std::vector<std::string>& words, const std::string& bare,
                   std::string& error) {
  config::DocumentNode document(config::DocumentNode::Kind::map);
  for (const std::string& word : words) {
    const bool is_bare = !bare.empty() && word.find('=') == std::string::npos;
    error = pipeline::apply_word(document, is_bare ? bare + "=" + word : word, schema);
    if (!error.empty()) return {};
  }
  config::Diagnostics diagnostics;
  config::Value value = config::validate(schema, document, "", nullptr, diagnostics);
  error = pipeline::mistakes_of(diagnostics);
  return value;
}

/// The stage of a switch with one worker, which stands still.
class Agent final : public api::Backend, public pipeline::StageAccess {
 public:
  Agent(const std::string& name, unsigned memory_kb) : type_(inc_stage_type()) {
    info_.name = name;
    info_.ports.emplace_back().mtu_bytes = 9000;
    std::string error;
    options_ = read(type_.options, {"memory_kb=" + std::to_string(memory_kb)}, "", error);
    const pipeline::StageBuild build{options_, info_, 0, 1};
    shared_ = type_.make_shared(build);
    stage_ = type_.make(build, shared_.get());
  }

  api::CommandResult run_command(const api::CommandRequest& request) override {
    api::CommandResult result;
    const auto command = std::find_if(type_.commands.begin(), type_.commands.end(),
                                      [&](const auto& c) { return c.verb == request.verb; });
    if (request.stage != type_.name || request.switch_name != info_.name || command == type_.commands.end()) {
      result.error = "unknown command";
      return result;
    }
    const config::Value arguments = read(command->arguments, request.words, command->word, result.error);
    if (!result.error.empty()) return result;
    for (const auto& row : command->run(*this, arguments, result.error)) {
      nlohmann::ordered_json with_switch{{"switch", info_.name}};
      with_switch.update(row);
      result.rows.push_back(std::move(with_switch));
    }
    return result;
  }

  [[nodiscard]] const pipeline::SwitchInfo& info() const override { return info_; }
  [[nodiscard]] std::uint16_t workers() const override { return 1; }
  bool on_worker(std::uint16_t, const std::function<void(pipeline::Stage&)>& task) override {
    const std::lock_guard lock(worker_);
    task(*stage_);
    return true;
  }
  bool with_shared(const std::function<void(pipeline::StageShared&)>& task) override {
    task(*shared_);
    return true;
  }

  // Nobody asks for these.
  [[nodiscard]] std::vector<api::TableInfo> tables() const override { return {}; }
  [[nodiscard]] std::vector<std::string> switch_names() const override { return {info_.name}; }
  api::ShowResult show(const std::string&, const std::string&, std::size_t) override { return {}; }
  api::ReloadResult diff(const std::string&) override { return {}; }
  api::ReloadResult reload() override { return {}; }
  [[nodiscard]] nlohmann::ordered_json about() const override { return nlohmann::ordered_json::object(); }
  api::SessionStart start_capture(const api::CaptureRequest&) override { return {0, "no packets"}; }
  api::SessionStart start_trace(const api::TraceRequest&) override { return {0, "no packets"}; }
  api::SessionStart start_record(const api::RecordRequest&) override { return {0, "no packets"}; }
  api::SessionPart read_session(std::uint64_t) override { return {}; }
  bool stop_session(std::uint64_t) override { return false; }
  api::Outcome clear(const std::vector<std::string>&, const std::string&) override { return {}; }
  api::Outcome set(const api::SetRequest&) override { return {}; }
  [[nodiscard]] std::vector<api::CommandInfo> commands() const override { return {}; }
  [[nodiscard]] bool checks_peer(const std::string&, const std::string&) const override { return false; }

 private:
  pipeline::StageType type_;
  pipeline::SwitchInfo info_;
  config::Value options_;
  std::unique_ptr<pipeline::StageShared> shared_;
  std::unique_ptr<pipeline::Stage> stage_;
  std::mutex worker_;
};

struct Running {
  Running(const std::string& name, unsigned memory_kb) : agent(name, memory_kb) {}
  Agent agent;
  api::Service service;
};

/// What went wrong, or "".
std::string start(const std::vector<std::string>& sockets, const std::vector<std::string>& names, unsigned memory_kb,
                  std::vector<std::unique_ptr<Running>>& out) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    out.push_back(std::make_unique<Running>(names[i], memory_kb));
    if (const auto error = out.back()->service.start(sockets[i], out.back()->agent)) return *error;
  }
  return "";
}

/// Runs agents until the pipe ends.
[[noreturn]] void serve(const std::vector<std::string>& sockets, const std::vector<std::string>& names,
                        unsigned memory_kb, int ready, int stop) {
  std::vector<std::unique_ptr<Running>> running;
  const std::string error = start(sockets, names, memory_kb, running);
  const std::string said = error.empty() ? "ok" : error;
  const bool told = write(ready, said.data(), said.size()) == static_cast<ssize_t>(said.size());
  close(ready);
  char end = 0;
  while (told && ::read(stop, &end, 1) < 0 && errno == EINTR) {
  }
  // Nothing outlives the process but the files of the sockets, which whoever made their folder removes.
  _exit(error.empty() && told ? 0 : 1);
}

}  // namespace

AgentProcesses::AgentProcesses(const std::vector<std::string>& sockets, const std::vector<std::string>& names,
                               unsigned processes, unsigned memory_kb) {
  const std::size_t share = (sockets.size() + processes - 1) / processes;
  for (std::size_t first = 0; first < sockets.size(); first += share) {
    int ready[2], stop[2];
    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(stop, O_CLOEXEC) != 0) return;
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(std::min(sockets.size(), first + share));
    const pid_t pid = fork();
    if (pid == 0) {
      close(ready[0]);
      close(stop[1]);
      for (const Pipes& p : pipes_) close(p.stop);
      serve({sockets.begin() + begin, sockets.begin() + end}, {names.begin() + begin, names.begin() + end}, memory_kb,
            ready[1], stop[0]);
    }
    close(ready[1]);
    close(stop[0]);
    pids_.push_back(pid);
    pipes_.push_back({ready[0], stop[1]});
  }
}

std::string AgentProcesses::wait_until_ready() {
  if (pids_.empty()) return "no process of agents could be started";
  for (Pipes& p : pipes_) {
    std::string said;
    char buffer[256];
    for (ssize_t n = 0; (n = ::read(p.ready, buffer, sizeof buffer)) > 0;) {
      said.append(buffer, static_cast<std::size_t>(n));
    }
    if (said != "ok") return "agents did not start: " + said;
  }
  return "";
}

AgentProcesses::~AgentProcesses() {
  for (const Pipes& p : pipes_) {
    close(p.ready);
    close(p.stop);
  }
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

}  // namespace weft::inc::manager_bench
