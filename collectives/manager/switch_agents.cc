// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/switch_agents.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "switch/api/client.h"

namespace weft::inc::manager {

using policy::NodeId;

namespace {

/// Processes that one call of ours speaks with at the same time. Many that answer at once keep the processor from what
/// else the manager does.
constexpr std::size_t kAtOnce = 16;
/// The same of a call with a pace, which does not need that limit but for processes that are slower than its pace.
constexpr std::size_t kAtOnceWithPace = 64;
constexpr std::chrono::milliseconds kBeat{2};

/// For a process whose queue of new connections is full, others do not wait longer.
constexpr std::chrono::milliseconds kConnectTime{20};

/// A connection is made anew before the other end closes it: then no call meets its end. Not all in the same moment:
/// a thousand take the processor for a good part of a second.
constexpr std::chrono::milliseconds kConnectionAge{20'000}, kLeastConnectionAge{10'000};

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
  out.from_ranks = row.value("from_ranks", std::uint64_t{0});
  out.to_ranks = row.value("to_ranks", std::uint64_t{0});
  out.bad_icrc = row.value("bad_icrc", std::uint64_t{0});
  out.turns = row.value("turns", std::uint64_t{0});
  out.turns_refused = row.value("turns_refused", std::uint64_t{0});
  out.memory_busy = row.value("memory_busy", std::uint64_t{0});
  out.state = row.value("state", "");
  out.collective = row.value("collective", "");
  out.waits_for = row.value("waits_for", "");
  out.waits_for_ranks = row.value("waits_for_ranks", std::vector<std::uint32_t>());
  out.failure = row.value("failure", "");
  out.neighbour_failed = row.value("neighbour_failed", false);
  out.still_ms = static_cast<std::uint64_t>(std::max(0.0, row.value("for_s", 0.0)) * 1e3);
  return out;
}

/// Modes and types that we do not know are nothing to us.
policy::Abilities read_abilities(const nlohmann::ordered_json& row) {
  policy::Abilities out;
  for (const std::string& one : row.at("modes").get<std::vector<std::string>>()) {
    for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
      if (name(mode) == one) out.modes |= policy::bit(mode);
    }
  }
  for (const std::string& one : row.at("types").get<std::vector<std::string>>()) {
    if (const auto type = data_type_from(one)) out.types |= policy::bit(*type);
  }
  out.fan_in = row.at("fan_in").get<std::uint16_t>();
  out.memory_bytes = row.at("memory_bytes").get<std::uint64_t>();
  out.blocks = row.value("blocks", false);
  return out;
}

}  // namespace

/// The connection with a process. Only the thread of the queue touches it.
class SwitchAgents::Line {
 public:
  /// @param age  of a connection, after which it is made anew
  Line(std::chrono::milliseconds call_time, std::chrono::milliseconds age, api::CallQueue& queue)
      : call_time_(call_time), age_(age), queue_(queue) {}

  /// Runs a command when all earlier ones are over.
  void call(const SwitchAccess& access, api::CommandRequest request, api::Client::CommandDone done) {
    waiting_.push_back({&access, std::move(request), std::move(done), std::chrono::steady_clock::now()});
    if (!busy_) begin();
  }

 private:
  struct Order {
    const SwitchAccess* access;
    api::CommandRequest request;
    api::Client::CommandDone done;
    std::chrono::steady_clock::time_point since;
  };

  void begin() {
    busy_ = !waiting_.empty();
    if (!busy_) return;
    auto order = std::make_shared<Order>(std::move(waiting_.front()));
    waiting_.pop_front();
    if (const auto error = open(*order)) {
      // By way of the queue: one that fails at once would call the next one, and so on, on the same stack.
      queue_.post([this, order, error] {
        api::CommandResult nothing;
        end(*order, error, nothing);
      });
      return;
    }
    client_->begin_command(order->request, queue_, [this, order](const auto& error, api::CommandResult& result) {
      end(*order, error, result);
    });
  }

  void end(const Order& order, const std::optional<api::CallError>& error, api::CommandResult& result) {
    if (error && error->kind == api::CallError::Kind::unreachable) client_.reset();
    order.done(error, result);
    begin();
  }

  [[nodiscard]] std::optional<api::CallError> open(const Order& order) {
    const auto now = std::chrono::steady_clock::now();
    if (now - order.since >= call_time_) {
      return api::CallError{api::CallError::Kind::unreachable, "earlier calls have not been answered"};
    }
    if (client_ != nullptr && client_->is_open() && now - opened_ <= age_) return std::nullopt;
    client_ = std::make_unique<api::Client>();
    opened_ = now;
    const SwitchAccess& access = *order.access;
    return access.socket.empty() ? client_->connect_tls(access.address, access.files, call_time_)
                                 : client_->connect(access.socket, call_time_, kConnectTime);
  }

  std::chrono::milliseconds call_time_, age_;
  api::CallQueue& queue_;
  std::deque<Order> waiting_;
  bool busy_ = false;
  std::unique_ptr<api::Client> client_;
  std::chrono::steady_clock::time_point opened_{};
};

SwitchAgents::SwitchAgents(std::vector<SwitchAccess> access, std::chrono::milliseconds call_time)
    : access_(std::move(access)), call_time_(call_time) {
  for (const SwitchAccess& one : access_) {
    if (one.name.empty()) {
      line_of_.push_back(nullptr);
      continue;
    }
    auto& line = lines_[process_of(one)];
    if (line == nullptr) {
      const auto part = static_cast<int>(line_of_.size());
      const auto age =
          kLeastConnectionAge + (kConnectionAge - kLeastConnectionAge) * part / static_cast<int>(access_.size());
      line = std::make_unique<Line>(call_time_, age, queue_);
    }
    line_of_.push_back(line.get());
  }
}

SwitchAgents::~SwitchAgents() = default;

/// Orders of one call of ours. Only the thread of the queue touches it, but for wait().
class SwitchAgents::Batch : public std::enable_shared_from_this<Batch> {
 public:
  using Each = std::function<void(std::size_t, const Next&)>;
  /// @param work  the orders of each process: one at least
  Batch(std::vector<std::vector<std::size_t>> work, const Each& each, const Pace& pace, api::CallQueue& queue)
      : work_(std::move(work)), each_(each), pace_(pace), queue_(queue) {}

  void begin() {
    if (pace_.time.count() > 0) return keep_pace();
    for (std::size_t i = 0; i < kAtOnce; ++i) begin_process();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  }

 private:
  void begin_process() {
    if (begun_ < work_.size()) order(begun_++, 0);
  }
  /// As many as are due. Beats that come late, because the machine is busy, are made up for slowly.
  void keep_pace() {
    if (pace_.stop.stop_requested()) return give_up();
    using Seconds = std::chrono::duration<double>;
    const double rate = static_cast<double>(work_.size()) / Seconds(pace_.time).count();
    const double passed = Seconds(std::chrono::steady_clock::now() - start_).count();
    const auto due = static_cast<std::size_t>(passed * rate) + 1;
    const auto most = static_cast<std::size_t>(2 * rate * Seconds(kBeat).count()) + 1;
    for (std::size_t i = 0; i < most && begun_ < due && begun_ - ended_ < kAtOnceWithPace; ++i) begin_process();
    if (begun_ < work_.size()) queue_.post([self = shared_from_this()] { self->keep_pace(); }, kBeat);
  }
  void give_up() {
    const std::size_t rest = work_.size() - std::exchange(begun_, work_.size());
    count(rest);
  }
  void order(std::size_t process, std::size_t at) {
    each_(work_[process][at], [self = shared_from_this(), process, at](bool answers) {
      const bool more = answers && at + 1 < self->work_[process].size();
      more ? self->order(process, at + 1) : self->end_process();
    });
  }
  void end_process() {
    if (pace_.time.count() == 0) begin_process();
    count(1);
  }
  void count(std::size_t processes) {
    ended_ += processes;
    if (ended_ < work_.size()) return;
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  const std::vector<std::vector<std::size_t>> work_;
  const Each& each_;
  const Pace pace_;
  api::CallQueue& queue_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t begun_ = 0, ended_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

void SwitchAgents::spread(const std::vector<NodeId>& nodes, const std::function<void(std::size_t, const Next&)>& each,
                          const Pace& pace) {
  std::map<Line*, std::vector<std::size_t>> by_process;
  for (std::size_t i = 0; i < nodes.size(); ++i) by_process[line_of_[nodes[i]]].push_back(i);
  std::vector<std::vector<std::size_t>> work;
  for (auto& [process, indices] : by_process) work.push_back(std::move(indices));
  if (work.empty()) return;
  const auto batch = std::make_shared<Batch>(std::move(work), each, pace, queue_);
  queue_.post([batch] { batch->begin(); });
  batch->wait();
}

void SwitchAgents::run(NodeId node, const std::string& verb, const std::string& word, Then then) {
  const SwitchAccess& access = access_[node];
  const auto done = [then = std::move(then)](const std::optional<api::CallError>& error, api::CommandResult& result) {
    if (!error) return then({}, result.rows);
    const bool refused = error->kind == api::CallError::Kind::refused;
    then({refused ? Outcome::Kind::refused : Outcome::Kind::unknown, error->message}, {});
  };
  line_of_[node]->call(access, {"inc", verb, {word}, access.name}, done);
}

void SwitchAgents::groups_at(NodeId node, const std::function<void(const Outcome&, std::vector<GroupId>)>& then) {
  run(node, "show", "groups", [then](const Outcome& outcome, const nlohmann::ordered_json& rows) {
    std::vector<GroupId> has;
    if (outcome.kind != Outcome::Kind::done) return then(outcome, has);
    const Outcome read = each_row(rows, [&](const auto& row) { has.push_back(row.value("group", GroupId{0})); });
    then(read, std::move(has));
  });
}

std::vector<Outcome> SwitchAgents::install(std::span<const InstallOrder> orders) {
  std::vector<NodeId> nodes;
  for (const InstallOrder& o : orders) nodes.push_back(o.node);
  std::vector<Outcome> out(orders.size(), not_asked());
  spread(nodes, [&](std::size_t i, const Next& next) {
    run(nodes[i], "create", "group=" + orders[i].spec, [&out, i, next](const Outcome& outcome, const auto&) {
      out[i] = outcome;
      next(outcome.kind != Outcome::Kind::unknown);
    });
  });
  return out;
}

std::vector<Outcome> SwitchAgents::remove(std::span<const RemoveOrder> orders) {
  std::vector<NodeId> nodes;
  for (const RemoveOrder& o : orders) nodes.push_back(o.node);
  std::vector<Outcome> out(orders.size(), not_asked());
  const auto look = [&](std::size_t i, const Next& next) {
    // It may say that it has no such group; then all is well.
    groups_at(nodes[i], [&out, i, group = orders[i].group, next](const Outcome& answer, const auto& has) {
      const bool gone = std::find(has.begin(), has.end(), group) == has.end();
      if (answer.kind == Outcome::Kind::done && gone) out[i] = {};
      next(answer.kind != Outcome::Kind::unknown);
    });
  };
  spread(nodes, [&](std::size_t i, const Next& next) {
    run(nodes[i], "remove", std::to_string(orders[i].group), [&, i, next](const Outcome& outcome, const auto&) {
      out[i] = outcome;
      if (outcome.kind == Outcome::Kind::refused) return look(i, next);
      next(outcome.kind == Outcome::Kind::done);
    });
  });
  return out;
}

std::vector<std::optional<std::vector<GroupId>>> SwitchAgents::list(std::span<const NodeId> nodes, const Pace& pace) {
  std::vector<std::optional<std::vector<GroupId>>> out(nodes.size());
  const std::vector<NodeId> asked(nodes.begin(), nodes.end());
  const auto ask = [&](std::size_t i, const Next& next) {
    groups_at(asked[i], [&out, i, next](const Outcome& answer, std::vector<GroupId> has) {
      if (answer.kind == Outcome::Kind::done) out[i] = std::move(has);
      next(answer.kind != Outcome::Kind::unknown);
    });
  };
  spread(asked, ask, pace);
  return out;
}

std::vector<std::optional<policy::Abilities>> SwitchAgents::abilities(std::span<const NodeId> nodes) {
  std::vector<std::optional<policy::Abilities>> out(nodes.size());
  const std::vector<NodeId> asked(nodes.begin(), nodes.end());
  spread(asked, [&](std::size_t i, const Next& next) {
    run(asked[i], "show", "abilities", [&out, i, next](const Outcome& outcome, const nlohmann::ordered_json& rows) {
      if (outcome.kind == Outcome::Kind::done) {
        static_cast<void>(each_row(rows, [&](const auto& row) { out[i] = read_abilities(row); }));
      }
      next(outcome.kind != Outcome::Kind::unknown);
    });
  });
  return out;
}

std::vector<std::optional<std::vector<GroupActivity>>> SwitchAgents::activity(std::span<const NodeId> nodes) {
  std::vector<std::optional<std::vector<GroupActivity>>> out(nodes.size());
  const std::vector<NodeId> asked(nodes.begin(), nodes.end());
  spread(asked, [&](std::size_t i, const Next& next) {
    run(asked[i], "show", "activity", [&out, i, next](const Outcome& outcome, const nlohmann::ordered_json& rows) {
      std::vector<GroupActivity> does;
      Outcome answer = outcome;
      if (answer.kind == Outcome::Kind::done) {
        answer = each_row(rows, [&](const auto& row) { does.push_back(read_activity(row)); });
      }
      if (answer.kind == Outcome::Kind::done) out[i] = std::move(does);
      next(answer.kind != Outcome::Kind::unknown);
    });
  });
  return out;
}

}  // namespace weft::inc::manager
