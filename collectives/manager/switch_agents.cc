// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/switch_agents.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "switch/api/client.h"

namespace weft::inc::manager {

using policy::NodeId;

namespace {

/// Processes that are spoken with at the same time.
constexpr std::size_t kThreads = 32;

/// A connection is made anew before the other end closes it: then no call meets its end.
constexpr std::chrono::seconds kConnectionAge{20};

std::string process_of(const SwitchAccess& access) {
  return access.socket + "\n" + access.address;
}

/// Rows of another form than ours are no answer.
template <class Each>
Outcome each_row(const nlohmann::ordered_json& rows, Each&& each) {
  try {
    for (const auto& row : rows) each(row);
    return {};
  } catch (const nlohmann::json::exception& error) {
    return {Outcome::Kind::refused, error.what()};
  }
}

/// An earlier order found its process silent.
Outcome not_asked() {
  return {Outcome::Kind::unknown, "it does not answer"};
}

GroupActivity read_activity(const nlohmann::ordered_json& row) {
  GroupActivity out;
  out.group = row.value("group", GroupId{0});
  out.collectives = row.value("collectives", std::uint64_t{0});
  out.completed_bytes = row.value("completed_bytes", std::uint64_t{0});
  out.state = row.value("state", "");
  out.collective = row.value("collective", "");
  out.waits_for = row.value("waits_for", "");
  out.waits_for_ranks = row.value("waits_for_ranks", std::vector<std::uint32_t>());
  out.still_ms = static_cast<std::uint64_t>(std::max(0.0, row.value("for_s", 0.0)) * 1e3);
  return out;
}

}  // namespace

/// The connection with a process.
class SwitchAgents::Line {
 public:
  /// Calls `body` with a client that is connected, when all earlier calls are over. What went wrong, or nothing.
  std::optional<api::CallError> call(const SwitchAccess& access, std::chrono::milliseconds call_time,
                                     const std::function<std::optional<api::CallError>(api::Client&)>& body) {
    using Kind = api::CallError::Kind;
    const std::unique_lock lock(mutex_, call_time);
    if (!lock) return api::CallError{Kind::unreachable, "earlier calls have not been answered"};
    const auto now = std::chrono::steady_clock::now();
    if (client_ == nullptr || !client_->is_open() || now - since_ > kConnectionAge) {
      client_ = std::make_unique<api::Client>();
      since_ = now;
      const auto error = access.socket.empty() ? client_->connect_tls(access.address, access.files, call_time)
                                               : client_->connect(access.socket, call_time);
      if (error) return drop(error);
    }
    const auto error = body(*client_);
    return error && error->kind == Kind::unreachable ? drop(error) : error;
  }

 private:
  std::optional<api::CallError> drop(const std::optional<api::CallError>& error) {
    client_.reset();
    return error;
  }

  std::timed_mutex mutex_;
  std::unique_ptr<api::Client> client_;
  std::chrono::steady_clock::time_point since_{};
};

SwitchAgents::SwitchAgents(std::vector<SwitchAccess> access, std::chrono::milliseconds call_time)
    : access_(std::move(access)), call_time_(call_time) {
  for (const SwitchAccess& one : access_) {
    if (one.name.empty()) {
      line_of_.push_back(nullptr);
      continue;
    }
    auto& line = lines_[process_of(one)];
    if (line == nullptr) line = std::make_unique<Line>();
    line_of_.push_back(line.get());
  }
}

SwitchAgents::~SwitchAgents() = default;

void SwitchAgents::spread(const std::vector<NodeId>& nodes, const std::function<bool(std::size_t)>& each) const {
  std::map<std::string, std::vector<std::size_t>> by_process;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    by_process[process_of(access_[nodes[i]])].push_back(i);
  }
  std::vector<std::vector<std::size_t>> work;
  for (auto& [process, indices] : by_process) work.push_back(std::move(indices));
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t at = next++; at < work.size(); at = next++) {
      static_cast<void>(std::all_of(work[at].begin(), work[at].end(), each));
    }
  };
  std::vector<std::thread> others;
  try {
    for (std::size_t t = 1; t < std::min(kThreads, work.size()); ++t) others.emplace_back(run);
  } catch (const std::system_error&) {
    // The process has as many threads as it may have: those that there are do the work.
  }
  run();
  for (std::thread& t : others) t.join();
}

Outcome SwitchAgents::run(NodeId node, const std::string& verb, const std::string& word,
                          nlohmann::ordered_json* rows) const {
  const SwitchAccess& access = access_[node];
  api::CommandResult result;
  const auto error = line_of_[node]->call(access, call_time_, [&](api::Client& client) {
    return client.run_command({"inc", verb, {word}, access.name}, result);
  });
  if (error) {
    const bool refused = error->kind == api::CallError::Kind::refused;
    return {refused ? Outcome::Kind::refused : Outcome::Kind::unknown, error->message};
  }
  if (rows != nullptr) *rows = std::move(result.rows);
  return {};
}

Outcome SwitchAgents::groups_at(NodeId node, std::vector<GroupId>& out) const {
  nlohmann::ordered_json rows;
  Outcome outcome = run(node, "show", "groups", &rows);
  if (outcome.kind != Outcome::Kind::done) return outcome;
  return each_row(rows, [&](const auto& row) { out.push_back(row.value("group", GroupId{0})); });
}

std::vector<Outcome> SwitchAgents::install(std::span<const InstallOrder> orders) {
  std::vector<NodeId> nodes;
  for (const InstallOrder& o : orders) nodes.push_back(o.node);
  std::vector<Outcome> out(orders.size(), not_asked());
  spread(nodes, [&](std::size_t i) {
    out[i] = run(nodes[i], "create", "group=" + orders[i].spec, nullptr);
    return out[i].kind != Outcome::Kind::unknown;
  });
  return out;
}

std::vector<Outcome> SwitchAgents::remove(std::span<const RemoveOrder> orders) {
  std::vector<NodeId> nodes;
  for (const RemoveOrder& o : orders) nodes.push_back(o.node);
  std::vector<Outcome> out(orders.size(), not_asked());
  spread(nodes, [&](std::size_t i) {
    out[i] = run(nodes[i], "remove", std::to_string(orders[i].group), nullptr);
    if (out[i].kind != Outcome::Kind::refused) return out[i].kind == Outcome::Kind::done;
    // It may say that it has no such group; then all is well.
    std::vector<GroupId> has;
    const Outcome answer = groups_at(nodes[i], has);
    const bool gone = std::find(has.begin(), has.end(), orders[i].group) == has.end();
    if (answer.kind == Outcome::Kind::done && gone) out[i] = {};
    return answer.kind != Outcome::Kind::unknown;
  });
  return out;
}

std::vector<std::optional<std::vector<GroupId>>> SwitchAgents::list(std::span<const NodeId> nodes) {
  std::vector<std::optional<std::vector<GroupId>>> out(nodes.size());
  spread({nodes.begin(), nodes.end()}, [&](std::size_t i) {
    std::vector<GroupId> has;
    const Outcome answer = groups_at(nodes[i], has);
    if (answer.kind == Outcome::Kind::done) out[i] = std::move(has);
    return answer.kind != Outcome::Kind::unknown;
  });
  return out;
}

std::vector<std::optional<std::vector<GroupActivity>>> SwitchAgents::activity(std::span<const NodeId> nodes) {
  std::vector<std::optional<std::vector<GroupActivity>>> out(nodes.size());
  spread({nodes.begin(), nodes.end()}, [&](std::size_t i) {
    nlohmann::ordered_json rows;
    std::vector<GroupActivity> does;
    Outcome answer = run(nodes[i], "show", "activity", &rows);
    if (answer.kind == Outcome::Kind::done) {
      answer = each_row(rows, [&](const auto& row) { does.push_back(read_activity(row)); });
    }
    if (answer.kind == Outcome::Kind::done) out[i] = std::move(does);
    return answer.kind != Outcome::Kind::unknown;
  });
  return out;
}

}  // namespace weft::inc::manager
