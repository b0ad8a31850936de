// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-switch: reads a configuration, checks it, runs it.
#include <rte_config.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "collectives/stage/stages.h"
#include "switch/api/service.h"
#include "switch/config/command_line.h"
#include "switch/config/config.h"
#include "switch/observe/metrics_endpoint.h"
#include "switch/observe/telemetry.h"
#include "switch/ports/unmap_guard.h"
#include "switch/runtime/log.h"
#include "switch/runtime/runtime.h"
#include "switch/runtime/service_manager.h"
#include "switch/stages/stages.h"
#include "switch/system/output_file.h"

namespace weft {
namespace {

std::atomic<bool> stop_requested{false};
std::atomic<bool> reload_requested{false};
void on_signal(int signal) {
  (signal == SIGHUP ? reload_requested : stop_requested).store(true);
}

struct Options {
  std::string config;
  bool check = false;
  bool print_schema = false;
  bool exit_on_eof = false;
  double duration_s = 0;
  std::string counters_out;
  std::string log_level;
};

std::vector<std::string> pci_devices(const config::Config& config) {
  std::vector<std::string> devices;
  for (const auto& s : config.switches) {
    for (const auto& port : s.ports) {
      // "0000:3b:00.2" and "3b:00.2", with arguments or without; anything else is a virtual device.
      if (port.type == "pci" && port.device["device"].string().find(':') < 5) {
        devices.push_back(port.device["device"].string());
      }
    }
  }
  return devices;
}

// DPDK's table of devices has a size that was chosen when it was built. Empty, or what is one too many.
std::string too_many_devices(const config::Config& config) {
  std::size_t devices = 0;
  for (const auto& s : config.switches) {
    for (const auto& port : s.ports) {
      if (port.type == "link" || port.type == "generator" || ++devices <= RTE_MAX_ETHPORTS) continue;
      return config::at(port.mark) + "port " + s.name + "/" + port.name +
             " is one too many: this build of DPDK has at most " + std::to_string(RTE_MAX_ETHPORTS) +
             " devices (RTE_MAX_ETHPORTS); ports of the types link and generator do not count\n";
    }
  }
  return "";
}

void describe(const config::Config& config, const Eal& eal) {
  for (const auto& s : config.switches) {
    std::string stages;
    for (const auto& stage : s.pipeline) stages += (stages.empty() ? "" : " -> ") + stage.name;
    spdlog::info("switch {}: {} ports, {}", s.name, s.ports.size(), stages);
  }
  std::string cpus;
  for (const unsigned cpu : eal.worker_cpus) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  spdlog::info("{} worker(s) on CPU {}, {}", eal.worker_cpus.size(), cpus,
               eal.hugepages ? "hugepages" : "no hugepages");
}

// The last words: one line per switch, and the file if one was asked for.
int report(Runtime& runtime, const std::string& counters_out) {
  const nlohmann::ordered_json counters = runtime.counters();
  for (const auto& s : counters["switches"]) {
    const auto& t = s["totals"];
    spdlog::info("switch {}: rx {} + generated {} + replicated {} = tx {} + consumed {} + dropped {} + held {}{}",
                 s["name"].get<std::string>(), t["rx"].get<std::uint64_t>(), t["generated"].get<std::uint64_t>(),
                 t["replicated"].get<std::uint64_t>(), t["tx"].get<std::uint64_t>(), t["consumed"].get<std::uint64_t>(),
                 t["dropped"].get<std::uint64_t>(), t["held"].get<std::uint64_t>(),
                 t["balanced"].get<bool>() ? "" : "  <- DOES NOT BALANCE");
  }
  int result = !runtime.balanced() ? config::kExitUnbalanced : runtime.outputs_complete() ? 0 : config::kExitCannotRun;
  if (counters_out.empty()) return result;
  if (const std::string error = OutputFile(counters_out).write(counters.dump(2) + "\n"); !error.empty()) {
    spdlog::error("{}", error);
    if (result == 0) result = config::kExitCannotRun;
  }
  return result;
}

// Returns the error, or "".
std::string start_service(api::Service& service, const config::ControlConfig& config, Runtime& runtime) {
  if (config.socket.empty() && !config.tcp) return "";
  std::optional<api::TcpAccess> tcp;
  if (config.tcp) tcp = {config.tcp->address, config.tcp->port, config.tcp->files};
  return service.start(config.socket, runtime, tcp, config.tcp ? config.tcp->operators : std::nullopt).value_or("");
}

int run(const Options& options, const pipeline::Registry& registry, config::Config config) {
  if (!options.counters_out.empty()) {
    if (const std::string error = OutputFile(options.counters_out).probe(); !error.empty()) {
      spdlog::error("{}", error);
      return config::kExitCannotRun;
    }
  }
  const Eal eal = start_eal(config, pci_devices(config));
  if (!eal.error.empty()) {
    spdlog::error("{}", eal.error);
    return config::kExitCannotRun;
  }
  if (!eal.warning.empty()) spdlog::warn("{}", eal.warning);

  int result = 0;
  {
    std::string error;
    Runtime runtime(registry, config, options.config, eal, error);
    api::Service service;
    if (error.empty()) error = start_service(service, config.control, runtime);
    MetricsEndpoint metrics;
    if (error.empty() && config.metrics) {
      error = metrics.start(config.metrics->address, config.metrics->port, [&runtime] { return runtime.metrics(); });
    }
    if (!error.empty()) {
      spdlog::error("{}", error);
      result = config::kExitCannotRun;
    } else {
      describe(config, eal);
      if (service.tcp_port() != 0) {
        spdlog::info("control on {} port {}, with certificates", config.control.tcp->address, service.tcp_port());
      }
      if (config.metrics) spdlog::info("metrics on {}", metrics.url());
      const Telemetry telemetry(runtime);
      runtime.start();
      const ports::UnmapGuard unmap_guard([&runtime] { runtime.await_workers(); });
      spdlog::info("forwarding");
      ServiceManager manager;
      manager.ready();
      const auto duration = std::chrono::milliseconds(static_cast<long>(std::ceil(options.duration_s * 1000)));
      if (!options.log_level.empty()) runtime.keep_log_level();
      runtime.run({&stop_requested, duration, options.exit_on_eof, &manager, &reload_requested});
      service.stop();
      result = report(runtime, options.counters_out);
    }
  }
  stop_eal();
  return result;
}

int main_checked(int argc, char** argv) {
  Options options;
  const auto check_duration = [](const std::string& text) -> std::string {
    char* end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    const bool fine = end != text.c_str() && *end == '\0' && seconds >= 0 && std::isfinite(seconds);
    return fine ? "" : "expected seconds from 0 on, found '" + text + "'";
  };
  CLI::App app("Software ToR switch for RoCEv2. Reads one YAML file; see conf/ for examples.", "weft-switch");
  app.set_version_flag("--version", WEFT_VERSION);
  auto* file = app.add_option("-c,--config", options.config, "Configuration file")->type_name("FILE");
  app.add_flag("--check", options.check, "Check the file, say what is wrong with it, and exit (0: fine, 2: not)");
  app.add_flag("--print-schema", options.print_schema, "Print the JSON Schema of configuration files and exit");
  app.add_flag("--exit-on-eof", options.exit_on_eof,
               "Stop when all inputs (captures, generators with a limit) have ended and nothing is held");
  app.add_option("--duration-s", options.duration_s, "Stop after this many seconds")
      ->type_name("SECONDS")
      ->check(check_duration, "");
  app.add_option("--counters-out", options.counters_out, "Write the final counters to this file as JSON")
      ->type_name("FILE");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warning or error; overrides the file")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}));
  app.footer(
      "Signals: SIGHUP reads the file again and applies it, SIGTERM and SIGINT send what is held and stop.\n"
      "Exit codes: 0 stopped as asked, 2 wrong arguments or configuration refused, 3 could not start or could\n"
      "not write the counters or a port's capture, 4 packets unaccounted for (a bug in weft).");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return config::end_of_parsing(app, error);
  }

  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  if (options.print_schema) {
    std::cout << config::config_json_schema(registry).dump(2) << '\n';
    return 0;
  }
  if (file->count() == 0) {
    std::fputs("weft-switch: -c FILE is needed (--help says more)\n", stderr);
    return config::kExitUsage;
  }
  config::Diagnostics diagnostics;
  auto config = config::load_config_file(options.config, registry, diagnostics);
  const auto importance = config ? config::LogLevel::warning : config::LogLevel::error;
  std::fputs(for_stderr(config::format(diagnostics), importance).c_str(), stderr);
  if (!config) return config::kExitUsage;
  if (const std::string error = too_many_devices(*config); !error.empty()) {
    std::fputs(for_stderr(error, config::LogLevel::error).c_str(), stderr);
    return config::kExitUsage;
  }
  if (options.check) {
    std::cout << options.config << ": fine, " << config->switches.size() << " switch(es)\n";
    return 0;
  }
  if (!options.log_level.empty()) {
    constexpr std::string_view kNames[]{"trace", "debug", "info", "warning", "error"};
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (kNames[i] == options.log_level) config->log.level = static_cast<config::LogLevel>(i);
    }
  }
  set_up_log(config->log.level);
  return run(options, registry, std::move(*config));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = weft::on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  try {
    return weft::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-switch: %s\n", error.what());
    return weft::config::kExitCannotRun;
  }
}
