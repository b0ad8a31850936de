// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Verbs of stages, on the threads of the control service. Locks are taken for single tasks only, so that a verb that
// takes long stands in nobody's way.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/suggest.h"
#include "switch/pipeline/set_words.h"
#include "switch/runtime/commands.h"

namespace weft {
namespace {

using api::CommandInfo;
using api::CommandResult;
using api::Outcome;
using config::quote;
using config::suggestion;
using nlohmann::ordered_json;
using pipeline::StageCommand;
using pipeline::StageType;

constexpr const char* kSetVerb = "set";
// The argument of a verb that wants to know who asks: nobody else can give it.
constexpr const char* kPeerKey = "peer";
constexpr std::chrono::microseconds kExchangeAgain{100};

CommandResult refused(std::string why) {
  CommandResult result;
  result.error = std::move(why);
  return result;
}

std::vector<std::string> verbs_of(const StageType& type) {
  std::vector<std::string> verbs;
  for (const StageCommand& command : type.commands) verbs.push_back(command.verb);
  if (type.set) verbs.emplace_back(kSetVerb);
  return verbs;
}

bool wants_peer(const StageCommand& command) {
  const auto& keys = command.arguments.node().keys;
  return std::any_of(keys.begin(), keys.end(), [](const auto& key) { return key.name == kPeerKey; });
}

// What the words say, checked and with defaults; or what is wrong with them.
config::Value read_arguments(const StageCommand& command, const api::CommandRequest& request, std::string& error) {
  config::DocumentNode document(config::DocumentNode::Kind::map);
  std::vector<std::string> words = request.words;
  if (wants_peer(command)) {
    std::erase_if(words, [](const std::string& word) { return word.rfind(kPeerKey + std::string("="), 0) == 0; });
    if (!request.peer.empty()) words.push_back(kPeerKey + std::string("=") + request.peer);
  }
  for (const std::string& given : words) {
    const bool bare = !command.word.empty() && given.find('=') == std::string::npos;
    const std::string word = bare ? command.word + "=" + given : given;
    if (error = pipeline::apply_word(document, word, command.arguments); !error.empty()) return {};
  }
  config::Diagnostics diagnostics;
  config::Value arguments = config::validate(command.arguments, document, command.verb, nullptr, diagnostics);
  error = pipeline::mistakes_of(diagnostics);
  return arguments;
}

}  // namespace

// A stage of a switch that a reload may replace between two calls, by the number of its switch.
class Runtime::Commands::RunningStage final : public pipeline::StageAccess {
 public:
  RunningStage(Runtime& runtime, std::uint64_t switch_id, pipeline::SwitchInfo info, std::size_t position)
      : runtime_(runtime), switch_id_(switch_id), info_(std::move(info)), position_(position) {}

  [[nodiscard]] const pipeline::SwitchInfo& info() const override { return info_; }
  [[nodiscard]] std::uint16_t workers() const override { return static_cast<std::uint16_t>(runtime_.workers_.size()); }

  bool on_worker(std::uint16_t worker, const std::function<void(pipeline::Stage&)>& task) override {
    const std::shared_lock lock(runtime_.switches_mutex_);
    const Switch* s = find();
    if (s == nullptr) return false;
    runtime_.on_worker(worker, [&] { s->pipelines[worker]->change_stage(position_, task); });
    return true;
  }

  bool with_shared(const std::function<void(pipeline::StageShared&)>& task) override {
    const std::shared_lock lock(runtime_.switches_mutex_);
    const Switch* s = find();
    if (s == nullptr || s->state->shared(position_) == nullptr) return false;
    task(*s->state->shared(position_));
    return true;
  }

 private:
  // Under a lock on the switches.
  [[nodiscard]] const Switch* find() const {
    const auto& all = runtime_.switches_;
    const auto at = std::find_if(all.begin(), all.end(), [&](const Switch& s) { return s.id == switch_id_; });
    return at == all.end() ? nullptr : &*at;
  }

  Runtime& runtime_;
  std::uint64_t switch_id_;
  pipeline::SwitchInfo info_;
  std::size_t position_;
};

std::vector<CommandInfo> Runtime::Commands::list() const {
  std::vector<const StageType*> types;
  {
    const std::shared_lock lock(runtime_.switches_mutex_);
    for (const Switch& s : runtime_.switches_) {
      for (const StageType* type : s.state->types()) {
        if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
      }
    }
  }
  std::vector<CommandInfo> commands;
  for (const StageType* type : types) {
    for (const StageCommand& command : type->commands) {
      commands.push_back({type->name, command.verb, command.summary, command.arguments.to_json_schema()});
    }
    if (type->set) {
      commands.push_back({type->name, kSetVerb, "Changes options of the stage; weftctl set --help says how.",
                          type->options.to_json_schema()});
    }
  }
  return commands;
}

bool Runtime::Commands::checks_peer(const std::string& stage, const std::string& verb) const {
  const std::shared_lock lock(runtime_.switches_mutex_);
  for (const Switch& s : runtime_.switches_) {
    for (const StageType* type : s.state->types()) {
      if (type->name != stage) continue;
      const auto& all = type->commands;
      return std::any_of(all.begin(), all.end(),
                         [&](const StageCommand& command) { return command.verb == verb && wants_peer(command); });
    }
  }
  return false;
}

CommandResult Runtime::Commands::run(const api::CommandRequest& request) {
  if (auto error = unknown_switch(request.switch_name); !error.empty()) return refused(std::move(error));
  struct Target {
    std::string name;
    RunningStage stage;
  };
  std::vector<Target> targets;
  std::vector<std::string> known;
  const StageType* type = nullptr;
  {
    const std::shared_lock lock(runtime_.switches_mutex_);
    for (const Switch& s : runtime_.switches_) {
      const pipeline::SwitchInfo& info = s.state->info();
      for (std::size_t i = 0; i < s.state->types().size(); ++i) {
        const StageType* one = s.state->types()[i];
        if (std::find(known.begin(), known.end(), one->name) == known.end()) known.push_back(one->name);
        if (one->name != request.stage) continue;
        type = one;
        if (!request.switch_name.empty() && request.switch_name != info.name) continue;
        targets.push_back({info.name, RunningStage(runtime_, s.id, info, i)});
      }
    }
  }
  if (type == nullptr) return refused("unknown stage " + quote(request.stage) + suggestion(request.stage, known));
  if (targets.empty()) return refused("switch " + request.switch_name + " has no stage " + request.stage);
  if (request.verb == kSetVerb && type->set) {
    Outcome outcome = set_stage({request.stage, request.words, request.switch_name});
    CommandResult result;
    result.done = std::move(outcome.done);
    result.error = std::move(outcome.error);
    return result;
  }
  const auto command = std::find_if(type->commands.begin(), type->commands.end(),
                                    [&](const StageCommand& c) { return c.verb == request.verb; });
  if (command == type->commands.end()) {
    const auto verbs = verbs_of(*type);
    if (verbs.empty()) return refused("the stage " + type->name + " has no commands");
    return refused("unknown command " + quote(request.verb) + " of " + type->name + suggestion(request.verb, verbs));
  }
  std::string error;
  const config::Value arguments = read_arguments(*command, request, error);
  if (!error.empty()) return refused(type->name + " " + command->verb + ": " + error);
  CommandResult result;
  for (Target& target : targets) {
    const ordered_json rows = command->run(target.stage, arguments, error);
    if (!error.empty()) return refused(target.name + ": " + error);
    for (const auto& row : rows) {
      ordered_json with_switch{{"switch", target.name}};
      with_switch.update(row);
      result.rows.push_back(std::move(with_switch));
    }
  }
  return result;
}

// In every switch that has the stage, or in none: what one refuses, all are spared. While reloads wait, switches stay
// where they are, so that only what others see change needs a lock on them.
Outcome Runtime::Commands::set_stage(const api::SetRequest& request) {
  const std::lock_guard reload_lock(runtime_.reload_mutex_);
  const std::lock_guard lock(set_mutex_);
  struct Pending {
    Switch* target;
    std::size_t stage;
    pipeline::OptionChange change;
    std::vector<std::shared_ptr<pipeline::Stage>> made{};
  };
  std::vector<Pending> pending;
  {
    const std::shared_lock switches_lock(runtime_.switches_mutex_);
    for (Switch& s : runtime_.switches_) {
      const pipeline::SwitchInfo& info = s.state->info();
      if (!request.switch_name.empty() && info.name != request.switch_name) continue;
      for (std::size_t i = 0; i < s.state->types().size(); ++i) {
        const StageType& type = *s.state->types()[i];
        if (type.name != request.name) continue;
        pending.push_back({&s, i, type.set(info.pipeline[i].options, info, request.words, worker_count())});
        Pending& one = pending.back();
        if (one.change.error.empty()) {
          one.change.error = order_mistakes(runtime_.registry_, info.pipeline, i, one.change.options);
        }
        if (!one.change.error.empty()) return Outcome::refused(info.name + ": " + one.change.error);
        if (one.change.remake) one.made = remade(s, i, one.change.options);
      }
    }
  }
  if (pending.empty()) return Outcome::refused("switch " + request.switch_name + " has no stage " + request.name);
  std::string done;
  for (Pending& one : pending) {
    for (std::size_t w = 0; w < one.change.apply.size(); ++w) {
      runtime_.on_worker(w, [&] { one.target->pipelines[w]->change_stage(one.stage, one.change.apply[w]); });
    }
    pipeline::SwitchState& state = *one.target->state;
    Changed known{state.info().pipeline[one.stage].options, {}};
    changed_.try_emplace({state.info().name, request.name}, std::move(known)).first->second.now = one.change.options;
    if (one.change.remake) exchange_instances(*one.target, one.stage, one.made);
    // Others look at options.
    const std::lock_guard switches_lock(runtime_.switches_mutex_);
    state.set_options(one.stage, std::move(one.change.options));
    done += (done.empty() ? "" : "; ") + state.info().name + ": " + one.change.done;
  }
  return {done, ""};
}

// All instances are made before any takes its place: what cannot be made leaves no trace.
std::vector<std::shared_ptr<pipeline::Stage>> Runtime::Commands::remade(const Switch& s, std::size_t stage,
                                                                        const config::Value& options) const {
  const pipeline::SwitchState& state = *s.state;
  const StageType& type = *state.types()[stage];
  std::vector<std::shared_ptr<pipeline::Stage>> made;
  for (std::uint16_t w = 0; w < worker_count(); ++w) {
    made.push_back(type.make(state.build_of(stage, w).with(options), state.shared(stage)));
  }
  return made;
}

// Others look at instances under the shared lock. They do not wait until a worker comes by, because it is the worker
// that takes the exclusive lock; and it does not wait for them, because it tries again a little later when the lock is
// taken.
void Runtime::Commands::exchange_instances(Switch& s, std::size_t stage,
                                           std::vector<std::shared_ptr<pipeline::Stage>>& made) {
  std::vector<pipeline::PortIndex> ports(s.state->info().ports.size());
  std::iota(ports.begin(), ports.end(), pipeline::PortIndex{0});
  const pipeline::PortMap same(std::move(ports));
  for (std::uint16_t w = 0; w < worker_count(); ++w) {
    bool done = false;
    const auto exchange = [&] {
      const std::unique_lock lock(runtime_.switches_mutex_, std::try_to_lock);
      if (!lock.owns_lock()) return;
      s.pipelines[w]->exchange_stage(runtime_.clock_.now(), stage, made[w], same);
      done = true;
    };
    runtime_.on_worker(w, exchange);
    while (!done) {
      std::this_thread::sleep_for(kExchangeAgain);
      runtime_.on_worker(w, exchange);
    }
  }
}

}  // namespace weft
