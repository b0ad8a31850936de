// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "collectives/manager/inc.pb.h"
#include "tools/weft-inc/commands.h"
#include "tools/weft-inc/json.h"
#include "tools/weftctl/format.h"

namespace weft::inc_tool {

namespace v1 = inc::v1;
using inc::manager::Client;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// Lines of a rank are a few hundred bytes.
constexpr std::size_t kMaxLine = 4096;

void write_options(const Options& from, v1::CreateGroupRequest& to) {
  to.set_group(from.group);
  auto& o = *to.mutable_options();
  o.set_mode(from.mode);
  o.set_prefer(from.prefer);
  o.set_mtu(from.mtu);
  o.set_message_packets(from.message_packets);
  o.set_window(from.window);
  o.set_least_window(from.least_window);
  o.set_rate_mbps(from.rate_mbps);
  o.set_reproducible(from.reproducible);
  o.set_duty_per_mille(from.rhythm.duty_per_mille());
  o.set_period_us(from.rhythm.period_us);
  o.set_job(from.rhythm.job);
}

/// A line of a rank; false: it is none.
bool read_member(const std::string& line, std::map<std::uint32_t, v1::Member>& members) {
  const json j = json::parse(line, nullptr, false);
  const auto number = [&](const char* key) {
    return j.contains(key) && j[key].is_number_unsigned() && j[key].get<std::uint64_t>() <= UINT32_MAX;
  };
  if (!j.is_object() || !j.contains("address") || !j["address"].is_string()) return false;
  for (const char* key : {"rank", "qp", "first_psn", "expects_psn"}) {
    if (!number(key)) return false;
  }
  v1::Member m;
  m.set_address(j["address"].get<std::string>());
  m.set_qp(j["qp"].get<std::uint32_t>());
  m.set_first_psn(j["first_psn"].get<std::uint32_t>());
  m.set_expects_psn(j["expects_psn"].get<std::uint32_t>());
  if (j.contains("loss_recovery") && j["loss_recovery"].is_string()) {
    m.set_loss_recovery(j["loss_recovery"].get<std::string>());
  }
  return members.emplace(j["rank"].get<std::uint32_t>(), m).second;
}

/// Ranks from the standard input, up to an empty line or its end. An error in words, or "".
std::string read_members(v1::CreateGroupRequest& request) {
  std::map<std::uint32_t, v1::Member> members;
  std::string line;
  while (std::getline(std::cin, line) && !line.empty()) {
    if (line.size() > kMaxLine || !read_member(line, members)) {
      return "line " + std::to_string(members.size() + 1) +
             ": expected a rank that is not there yet, as weft-rnic inc prints it, found '" + line.substr(0, 80) + "'";
    }
  }
  std::uint32_t next = 0;
  for (const auto& [rank, member] : members) {
    if (rank != next++) return "rank " + std::to_string(next - 1) + " is missing";
    *request.add_members() = member;
  }
  return "";
}

int print_reply(const Options& options, const v1::CreateGroupReply& reply) {
  if (options.json) {
    print_json(reply);
  } else {
    for (const auto& sentence : reply.sentences()) std::puts(sentence.c_str());
  }
  return reply.refusal() == "none" ? kExitFine : kExitFailed;
}

volatile sig_atomic_t stopped = 0;

/// True when the input has ended, or somebody stops the program, before so much time has passed.
bool ended_within(int ms) {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&in, 1, ms);
  if (stopped != 0 || (ready < 0 && errno == EINTR)) return stopped != 0;
  if (ready != 1) return false;
  char some[256];
  return read(STDIN_FILENO, some, sizeof some) <= 0;
}

int hold(const Options& options, const v1::CreateGroupReply& group) {
  struct sigaction action {};
  action.sa_handler = [](int) { stopped = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  const int pause = static_cast<int>(std::clamp<std::uint64_t>(group.lease_ms() / 4, 10, 60'000));
  v1::RenewLeaseRequest lease;
  lease.set_group(group.group());
  lease.set_generation(group.generation());
  std::size_t leader = 0;
  for (bool ended = false; !ended; ended = ended_within(pause)) {
    Client client;  // the manager ends connections that grow old
    v1::RenewLeaseReply reply;
    if (reach(options, client, std::chrono::milliseconds(group.lease_ms()), leader)) continue;  // it may come back
    const auto error = client.renew(lease, reply);
    leader = client.answered_by();
    if (!error && !reply.running()) {
      return fail("group " + std::to_string(group.group()) + " is not there any more", kExitFailed);
    }
  }
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::DestroyGroupRequest request;
  request.set_group(group.group());
  request.set_generation(group.generation());
  v1::DestroyGroupReply reply;
  const auto error = client.destroy(request, reply);
  return error ? fail(*error, kExitUnreachable) : kExitFine;
}

std::string list_of(const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

ordered_json row_of(const v1::ListGroupsReply::Group& g) {
  std::string switches;
  std::uint64_t bytes = 0;
  for (const auto& s : g.switches()) {
    switches += (switches.empty() ? "" : ", ") + s.name();
    bytes += s.bytes();
  }
  return {{"group", g.group()},
          {"generation", g.generation()},
          {"state", g.state()},
          {"mode", g.mode()},
          {"ranks", g.hosts().size()},
          {"switches", switches},
          {"bytes", bytes},
          {"window", g.window()},
          {"width_mbps", g.width_mbps()},
          {"ending", g.ending() == "none" ? "" : g.ending()}};
}

/// When it communicates, of one that takes turns.
void add_rhythm(const v1::ListGroupsReply::Group& g, ordered_json& row) {
  if (!g.turns()) return;
  row["duty"] = g.duty_per_mille() / 1000.0;
  if (g.job() != 0) row["job"] = g.job();
  if (g.period_us() != 0) row["period_us"] = g.period_us();
  if (g.staggered()) row["offset_ns"] = g.offset_ns();
}

/// Asks for all groups, and calls `with` for the one that is meant.
template <class With>
int with_group(const Options& options, With&& with) {
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::ListGroupsReply reply;
  if (const auto error = client.groups(reply)) return fail(*error, kExitUnreachable);
  for (const auto& g : reply.groups()) {
    if (g.group() != options.group) continue;
    if (options.generation == 0 || g.generation() == options.generation) return with(client, g);
  }
  return fail("there is no group " + std::to_string(options.group), kExitFailed);
}

/// By switch, what it has done for a group.
using Work = std::map<std::string, v1::ShowActivityReply::Switch>;

/// Of the switches that answer the manager.
Work work_of(Client& client, const v1::ListGroupsReply::Group& group) {
  Work out;
  v1::ShowActivityReply reply;
  if (client.activity(reply)) return out;
  for (const auto& g : reply.groups()) {
    if (g.group() != group.group() || g.generation() != group.generation()) continue;
    for (const auto& s : g.switches()) {
      if (s.answers()) out[s.name()] = s;
    }
  }
  return out;
}

/// Null where it is not known.
void add_work(const Work& work, const std::string& name, bool turns, ordered_json& row) {
  const auto found = work.find(name);
  row["collectives"] = found == work.end() ? ordered_json() : ordered_json(found->second.collectives());
  row["completed_bytes"] = found == work.end() ? ordered_json() : ordered_json(found->second.completed_bytes());
  if (!turns) return;
  row["turns"] = found == work.end() ? ordered_json() : ordered_json(found->second.turns());
  row["turns_refused"] = found == work.end() ? ordered_json() : ordered_json(found->second.turns_refused());
  row["memory_busy"] = found == work.end() ? ordered_json() : ordered_json(found->second.memory_busy());
}

int print_group_json(const v1::ListGroupsReply::Group& group, const Work& work) {
  ordered_json out = ordered_json::parse(json_text(group).value_or(""), nullptr, false);
  if (out.is_discarded()) return fail("the answer is no JSON", kExitFailed);
  for (ordered_json& s : out["switches"]) add_work(work, s["name"].get<std::string>(), group.turns(), s);
  std::puts(out.dump().c_str());
  return kExitFine;
}

}  // namespace

int create_group(const Options& options) {
  v1::CreateGroupRequest request;
  write_options(options, request);
  // Ranks whose lines these are may know nothing of turns: the group gets memory of its own.
  request.mutable_options()->set_duty_per_mille(1000);
  if (const std::string error = read_members(request); !error.empty()) return fail(error, kExitUsage);
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::CreateGroupReply reply;
  if (const auto error = client.create(request, reply)) return fail(*error, kExitFailed);
  if (reply.refusal() != "none") {
    for (const auto& sentence : reply.sentences()) fail(sentence, kExitFailed);
    return kExitFailed;
  }
  std::uint32_t rank = 0;
  for (const auto& e : reply.endpoints()) {
    const ordered_json line{{"rank", rank++},           {"qp", e.qp()},
                            {"address", e.address()},   {"group", reply.group()},
                            {"window", reply.window()}, {"generation", reply.generation()}};
    std::puts(line.dump().c_str());
  }
  std::fflush(stdout);
  return options.hold ? hold(options, reply) : kExitFine;
}

int list_groups(const Options& options) {
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::ListGroupsReply reply;
  if (const auto error = client.groups(reply)) return fail(*error, kExitUnreachable);
  if (options.json) return print_json(reply);
  std::vector<ordered_json> rows;
  for (const auto& g : reply.groups()) rows.push_back(row_of(g));
  std::fputs(weftctl::format_table(rows, {}).c_str(), stdout);
  return kExitFine;
}

int show_group(const Options& options) {
  return with_group(options, [&](Client& client, const v1::ListGroupsReply::Group& g) {
    const Work work = work_of(client, g);
    if (options.json) return print_group_json(g, work);
    ordered_json facts = row_of(g);
    add_rhythm(g, facts);
    std::fputs(weftctl::format_facts(facts).c_str(), stdout);
    std::vector<ordered_json> switches, ranks;
    for (const auto& s : g.switches()) {
      switches.push_back({{"switch", s.name()}, {"children", s.children()}, {"bytes", s.bytes()}, {"root", s.root()}});
      add_work(work, s.name(), g.turns(), switches.back());
    }
    for (int rank = 0; rank < g.hosts().size(); ++rank) {
      ranks.push_back({{"rank", rank}, {"host", g.hosts(rank)}, {"heard_ms_ago", g.heard_ms_ago(rank)}});
    }
    std::printf("\n%s\n%s", weftctl::format_table(switches, {}).c_str(), weftctl::format_table(ranks, {}).c_str());
    return int{kExitFine};
  });
}

int explain_group(const Options& options) {
  return with_group(options, [&](Client&, const v1::ListGroupsReply::Group& g) {
    const std::string group = "Group " + std::to_string(g.group());
    std::string root;
    for (const auto& s : g.switches()) root = s.root() ? s.name() : root;
    if (g.state() == "running") {
      std::printf("%s of %d ranks runs on %d switches under %s.\n", group.c_str(), g.hosts().size(),
                  g.switches().size(), root.c_str());
    } else {
      std::printf("%s ends: %s.\n", group.c_str(), g.ending().c_str());
      if (!g.owing().empty()) {
        std::printf("Its memory is held at %s, which did not confirm that it is gone.\n", list_of(g.owing()).c_str());
      }
    }
    const auto oldest = std::max_element(g.heard_ms_ago().begin(), g.heard_ms_ago().end());
    if (oldest != g.heard_ms_ago().end()) {
      const auto rank = oldest - g.heard_ms_ago().begin();
      std::printf("Rank %td (%s) was heard of %llu ms ago, all others since.\n", rank,
                  g.hosts(static_cast<int>(rank)).c_str(), static_cast<unsigned long long>(*oldest));
    }
    std::printf("Whom it waits for at a switch: weftctl inc explain %u --switch %s\n", g.group(), root.c_str());
    return int{kExitFine};
  });
}

int destroy_group(const Options& options) {
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::DestroyGroupRequest request;
  request.set_group(options.group);
  request.set_generation(options.generation);
  v1::DestroyGroupReply reply;
  if (const auto error = client.destroy(request, reply)) return fail(*error, kExitUnreachable);
  if (reply.refusal() == "none") return kExitFine;
  return fail("there is no group " + std::to_string(options.group), kExitFailed);
}

int explain_hosts(const Options& options) {
  Client client;
  if (!connect(options, client)) return kExitUnreachable;
  v1::ShowTopologyReply topology;
  if (const auto error = client.topology(topology)) return fail(*error, kExitUnreachable);
  std::map<std::string, std::string> addresses;
  for (const auto& link : topology.links()) addresses.emplace(link.lower(), link.lower_address());
  v1::CreateGroupRequest request;
  write_options(options, request);
  for (const auto& host : options.hosts) {
    const auto at = addresses.find(host);
    request.add_members()->set_address(at == addresses.end() ? host : at->second);
  }
  v1::CreateGroupReply reply;
  if (const auto error = client.explain(request, reply)) return fail(*error, kExitFailed);
  return print_reply(options, reply);
}

}  // namespace weft::inc_tool
