// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>

#include "tools/weft-rnic/options.h"
#include "tools/weft-rnic/server.h"
#include "tools/weft-rnic/session.h"
#include "tools/weft-rnic/tests.h"

namespace {

using weft::rnic_tool::Command;
using weft::rnic_tool::Options;

int run(Options options) {
  if (options.command == Command::inc) return weft::rnic_tool::run_collectives(options);
  if (options.command == Command::rping) return weft::rnic_tool::run_rping(options);
  if (options.command == Command::serve) return weft::rnic_tool::run_server(options);
  if (options.server.empty()) {
    // As perftest: without a server's name, be the server of one test.
    options.connections = std::max<std::uint64_t>(options.qps, 1);
    return weft::rnic_tool::run_server(options);
  }
  switch (options.command) {
    case Command::write_lat:
    case Command::send_lat:
      return weft::rnic_tool::run_latency(options);
    case Command::verify:
      return weft::rnic_tool::run_verify(options);
    default:
      return weft::rnic_tool::run_bandwidth(options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int status = weft::rnic_tool::kExitFine;
  const auto options = weft::rnic_tool::parse_options(argc, argv, status);
  if (!options) return status;
  weft::rnic_tool::catch_signals();
  return run(*options);
}
