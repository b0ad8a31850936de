// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What agents on hosts have to do with the stage: the option that names them, the command by which they report, and the
// tables that show it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "switch/stages/rdma_track/stage.h"

namespace weft::stages {

using config::Schema;
using config::Value;
using nlohmann::ordered_json;
using pipeline::StageAccess;

namespace {

// Changes that a worker takes at a time: its packets wait meanwhile.
constexpr std::size_t kAtOnce = 32;

constexpr const char* kStageReplaced = "a reload replaced the stage meanwhile; try again";

std::vector<wire::IpPrefix> prefixes_of(const Value& host) {
  std::vector<wire::IpPrefix> prefixes;
  for (const Value& each : host["addresses"].list()) prefixes.push_back(*wire::IpPrefix::parse(each.string()));
  return prefixes;
}

// Over TCP the names in the certificate say who speaks; whoever may open the socket may speak for any host.
bool is_named(const Value& arguments) {
  if (!arguments.has("peer")) return true;
  std::istringstream names(arguments["peer"].string());
  for (std::string name; std::getline(names, name, ',');) {
    if (name == arguments["host"].string()) return true;
  }
  return false;
}

std::string read_message(const Value& arguments, AgentMessage& message) {
  message.host = arguments["host"].string();
  message.session = arguments["session"].unsigned_integer();
  message.sequence = arguments["sequence"].unsigned_integer();
  message.begin = arguments["begin"].boolean();
  message.end = arguments["end"].boolean();
  if (!is_named(arguments)) {
    return "host: the certificate does not name '" + message.host + "', but: " + arguments["peer"].string();
  }
  const std::string error = read_agent_changes(arguments["changes"].string(), message.changes);
  return error.empty() ? "" : "changes: " + error;
}

bool tell_each_worker(StageAccess& stage, std::span<const AgentAction> actions) {
  for (std::size_t first = 0; first < actions.size(); first += kAtOnce) {
    const auto some = actions.subspan(first, std::min(kAtOnce, actions.size() - first));
    for (std::uint16_t w = 0; w < stage.workers(); ++w) {
      const bool told = stage.on_worker(w, [&](pipeline::Stage& s) { dynamic_cast<RdmaTrackStage&>(s).take(some); });
      if (!told) return false;
    }
  }
  return true;
}

ordered_json take_report(StageAccess& stage, const Value& arguments, std::string& error) {
  AgentMessage message;
  error = read_message(arguments, message);
  if (!error.empty()) return {};
  std::shared_ptr<AgentBook> book;
  if (!stage.with_shared([&](pipeline::StageShared& s) { book = dynamic_cast<RdmaTrackShared&>(s).agents(); })) {
    error = kStageReplaced;
    return {};
  }
  const std::lock_guard one_after_the_other(book->order());
  std::vector<AgentAction> actions;
  const AgentReply reply = book->apply(message, actions);
  if (!tell_each_worker(stage, actions)) {
    error = kStageReplaced;
    return {};
  }
  return ordered_json::array(
      {{{"host", message.host}, {"expected", reply.expected}, {"resync", reply.resync}, {"refused", reply.refused}}});
}

}  // namespace

config::Schema::Key agents_option() {
  using Key = Schema::Key;
  const Schema host =
      Schema::map({Key::required_key("host", Schema::name(), "Name of the host, as its weft-qp-agent gives it."),
                   Key::required_key("addresses", Schema::list(Schema::prefix(), 1),
                                     "Prefixes of its own addresses: it may tell of no others' queue pairs.")});
  return Key::with_default("agents", Schema::list(host), Value(Value::List{}),
                           "Hosts whose weft-qp-agent tells of their queue pairs, by the command `agent`. Over TCP a "
                           "host's certificate must have its name.");
}

void check_agents(const Value& options, config::Diagnostics& diagnostics) {
  std::set<std::string> names;
  std::vector<std::pair<wire::IpPrefix, std::string>> taken;
  for (const Value& host : options["agents"].list()) {
    const std::string& name = host["host"].string();
    if (!names.insert(name).second) diagnostics.error(host["host"].mark(), "agents: '" + name + "' is there twice");
    for (const Value& each : host["addresses"].list()) {
      const auto prefix = *wire::IpPrefix::parse(each.string());
      for (const auto& [other, whose] : taken) {
        if (whose == name || (!other.contains(prefix.address) && !prefix.contains(other.address))) continue;
        diagnostics.error(
            each.mark(), "agents: " + prefix.to_string() + " is also '" + whose + "'s: an address belongs to one host");
      }
      taken.emplace_back(prefix, name);
    }
  }
}

std::vector<AgentHost> agent_hosts(const Value& options) {
  std::vector<AgentHost> hosts;
  for (const Value& host : options["agents"].list()) hosts.push_back({host["host"].string(), prefixes_of(host)});
  return hosts;
}

const RdmaTrackShared::AgentsChange& RdmaTrackShared::set_agents(const Value& options) {
  if (equal(agents_option_, options["agents"])) return agents_change_;
  agents_option_ = options["agents"];
  ++agents_change_.number;
  agents_change_.gone = agents_->set_hosts(agent_hosts(options));
  return agents_change_;
}

ordered_json RdmaTrackShared::rows(std::string_view /*table*/, std::uint64_t& cursor, std::size_t /*max*/) const {
  cursor = kEnd;
  ordered_json rows = ordered_json::array();
  for (const AgentBook::HostRow& host : agents_->rows()) {
    rows.push_back({{"host", host.host},
                    {"qps", host.qps},
                    {"messages", host.messages},
                    {"resyncs", host.resyncs},
                    {"refused", host.refused},
                    {"full", host.full},
                    {"evicted", host.evicted}});
  }
  return rows;
}

void RdmaTrackStage::apply_news(TimeNs now) {
  for (const AgentAction& action : news_) {
    const bool mine = worker_of(action.qp.local, action.qp.remote, workers_, owner_table_) == worker_;
    if (action.up) {
      owners_.set(action.qp);
      if (mine) (void)tracker_.on_agent_up(now, action.qp, action.snapshot);
    } else {
      owners_.remove(action.qp);
      if (mine) tracker_.on_agent_down(action.qp);
    }
  }
  news_.clear();
}

pipeline::StageCommand agent_command() {
  using Key = Schema::Key;
  constexpr std::int64_t kMost = INT64_MAX;
  const Schema arguments = Schema::map(
      {Key::required_key("host", Schema::name(), "The host, one of the option `agents`."),
       Key::required_key("session", Schema::integer(1, kMost), "A number that the agent drew when it started."),
       Key::required_key("sequence", Schema::integer(1, kMost), "Of this message: one more than that before it."),
       Key::with_default("begin", Schema::boolean(), Value(false), "A snapshot of all queue pairs begins."),
       Key::with_default("end", Schema::boolean(), Value(false), "It ends: what it did not name is gone."),
       Key::with_default("changes", Schema::string(), Value("[]"), "A JSON list of what has changed."),
       Key::optional_key("peer", Schema::string(),
                         "Names in the certificate of the client, which the service fills in.")});
  return {"agent", "Takes what weft-qp-agent on a host tells of the queue pairs there.", arguments, take_report, {}};
}

}  // namespace weft::stages
