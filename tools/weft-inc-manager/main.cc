// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-inc-manager: reads a configuration, takes over the groups of its database, and answers until it is stopped.
#include <grpcpp/impl/service_type.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "collectives/manager/config.h"
#include "collectives/manager/etcd_store.h"
#include "collectives/manager/service.h"
#include "collectives/manager/sqlite_store.h"
#include "collectives/manager/switch_agents.h"
#include "switch/api/rpc_server.h"
#include "switch/config/command_line.h"
#include "switch/system/clock.h"
#include "switch/system/entropy.h"

namespace weft::inc::manager {
namespace {

/// After which a switch counts as silent.
constexpr std::chrono::milliseconds kSwitchTime{2000};
/// A request names each rank of a group. gRPC queues no call: one for which there is no thread is refused. A call that
/// waits for switches or for the disk keeps its thread, at worst for kSwitchTime, until a switch that has died counts
/// as silent. 100 groups a second that are made, and as many that are given back, all of them on that switch, are 400
/// calls; the rest is for those that wait for nothing. Threads end with their calls, and no connection has more
/// than 16.
constexpr api::RpcLimits kLimits{.request_bytes = 8 * 1024 * 1024, .threads = 512};
constexpr std::chrono::milliseconds kGrace{500};

std::optional<ManagerConfig> load(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    std::fprintf(stderr, "weft-inc-manager: cannot read %s\n", path.c_str());
    return std::nullopt;
  }
  config::Diagnostics diagnostics;
  auto config = load_manager_config(text.str(), path, diagnostics);
  std::fputs(diagnostics.to_string().c_str(), stderr);
  return config;
}

/// The error, or "".
std::string serve(const ManagerConfig& config, Manager& manager, const sigset_t& signals) {
  RunningManager running(manager);
  const auto service = make_service(running);
  api::RpcServer server;
  std::optional<api::TcpAccess> tcp;
  if (config.tcp) tcp = {config.tcp->address, config.tcp->port, config.tcp->files};
  if (auto error = server.start(config.socket, tcp, kLimits, *service)) return *error;
  spdlog::info("listening on {}", config.socket);
  if (server.tcp_port() != 0) {
    spdlog::info("and on {} port {}, with certificates", config.tcp->address, server.tcp_port());
  }
  sd_notify(0, "READY=1");
  int signal = 0;
  sigwait(&signals, &signal);
  sd_notify(0, "STOPPING=1");
  server.stop(kGrace);
  return "";
}

/// Each switch takes two descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Takes over the groups of the store, and answers until it is stopped.
std::optional<std::string> run_with(const ManagerConfig& config, Store& store, Agents& agents,
                                    const sigset_t& signals) {
  // First PSNs that nobody can guess keep old packets out of new groups.
  Manager manager(config.fabric, config.options, agents, store, fresh_seed());
  if (config.discovers) manager.discover(config.stated);
  if (auto error = manager.recover(monotonic_now())) return error;
  auto error = serve(config, manager, signals);
  return error.empty() ? std::nullopt : std::optional(std::move(error));
}

std::optional<std::string> run_with_database(const ManagerConfig& config, const sigset_t& signals) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(config.store).parent_path(), ignored);
  SqliteStore store;
  if (auto error = store.open(config.store)) return error;
  SwitchAgents agents(config.access, kSwitchTime);
  return run_with(config, store, agents, signals);
}

bool is_told_to_end() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

std::optional<std::string> run_with_etcd(const ManagerConfig& config, const sigset_t& signals) {
  EtcdStore store;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  if (auto error = store.open(*config.etcd, std::string(host) + " (process " + std::to_string(getpid()) + ")")) {
    return error;
  }
  std::atomic<bool> lost = false;
  // A manager that waits for its turn has started.
  sd_notify(0, "READY=1");
  auto error = store.lead([](const std::string& why) { spdlog::info("waiting for the lead: {}", why); }, is_told_to_end,
                          [&] {
                            lost = true;
                            kill(getpid(), SIGTERM);
                          });
  if (!error && store.leads()) {
    spdlog::info("leading, with the groups in etcd");
    SwitchAgents switches(config.access, kSwitchTime);
    AgentsOfLeader agents(switches, store);
    error = run_with(config, store, agents, signals);
  }
  if (!error && lost)
    error = "the lead is lost: etcd was not reached for " + std::to_string(config.etcd->lease_s) + " s";
  return error;
}

int run(const ManagerConfig& config, const sigset_t& signals) {
  raise_descriptor_limit();
  const auto error = config.etcd ? run_with_etcd(config, signals) : run_with_database(config, signals);
  if (!error) return 0;
  spdlog::error("{}", *error);
  return config::kExitCannotRun;
}

int main_checked(int argc, char** argv) {
  std::string path, level = "info";
  bool check = false, print_schema = false;
  CLI::App app("Manager of in-network collectives: places groups on switches, and takes them back.",
               "weft-inc-manager");
  app.set_version_flag("--version", WEFT_VERSION);
  auto* file = app.add_option("-c,--config", path, "Configuration file")->type_name("FILE");
  app.add_flag("--check", check, "Check the file, say what is wrong with it, and exit (0: fine, 2: not)");
  app.add_flag("--print-schema", print_schema, "Print the JSON Schema of configuration files and exit");
  app.add_option("--log-level", level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return config::end_of_parsing(app, error);
  }
  if (print_schema) {
    std::cout << manager_schema().to_json_schema().dump(2) << '\n';
    return 0;
  }
  if (file->count() == 0) {
    std::fputs("weft-inc-manager: -c FILE is needed (--help says more)\n", stderr);
    return config::kExitUsage;
  }
  auto config = load(path);
  if (!config) return config::kExitUsage;
  if (check) {
    std::cout << path << ": fine, " << config->access.size() << " switches and hosts\n";
    return 0;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("weft-inc-manager"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(level));
  // One thread takes these, by asking for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return run(*config, signals);
}

}  // namespace
}  // namespace weft::inc::manager

int main(int argc, char** argv) {
  try {
    return weft::inc::manager::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-inc-manager: %s\n", error.what());
    return weft::config::kExitCannotRun;
  }
}
