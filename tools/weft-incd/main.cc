// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-incd: asks the manager for the groups of this host's processes, and holds their leases.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "collectives/daemon/server.h"
#include "switch/config/command_line.h"

namespace weft::inc::daemon {
namespace {

struct Options {
  ManagerPlace manager;
  std::string socket{comm::kDaemonSocket};
  std::string mode = "0600";
  std::string level = "info";
};

void add_options(CLI::App& app, Options& o) {
  app.set_version_flag("--version", WEFT_VERSION);
  app.add_option("--socket", o.socket, "Where programs find it")->capture_default_str();
  app.add_option("--socket-mode", o.mode, "Who may use it, in octal digits")
      ->check(CLI::IsMember({"0600", "0660", "0666"}))
      ->capture_default_str();
  app.add_option("--manager-socket", o.manager.socket, "The manager's socket")->capture_default_str();
  auto* address =
      app.add_option("--manager", o.manager.address, "HOST:PORT of a manager on another machine, or of several: A,B");
  auto* cert = app.add_option("--cert", o.manager.files.certificate, "PEM file with the own certificate");
  auto* key = app.add_option("--key", o.manager.files.key, "PEM file with its private key");
  auto* ca = app.add_option("--ca", o.manager.files.authority, "PEM file with the authorities of the manager's");
  address->needs(cert, key, ca);
  app.add_option("--log-level", o.level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

int serve(const Options& o) {
  // Threads inherit the mask: signals come by the descriptor alone.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const nic::Descriptor stop(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  Server server(o.manager);
  if (const auto why = server.listen(o.socket, static_cast<unsigned>(std::stoul(o.mode, nullptr, 8))); !why.empty()) {
    spdlog::error("{}", why);
    return config::kExitCannotRun;
  }
  spdlog::info("listening on {}", o.socket);
  sd_notify(0, "READY=1");
  server.run(stop.get());
  sd_notify(0, "STOPPING=1");
  return 0;
}

int main_checked(int argc, char** argv) {
  Options o;
  CLI::App app("Daemon of a host that takes part in collectives: groups and leases of its programs.", "weft-incd");
  add_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return config::end_of_parsing(app, error);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("weft-incd"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(o.level));
  return serve(o);
}

}  // namespace
}  // namespace weft::inc::daemon

int main(int argc, char** argv) {
  try {
    return weft::inc::daemon::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-incd: %s\n", error.what());
    return weft::config::kExitCannotRun;
  }
}
