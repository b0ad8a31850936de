// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <cstdlib>

#include "tools/weftctl/commands.h"
#include "tools/weftctl/options.h"

int main(int argc, char** argv) {
  // Every failure is reported in one sentence; gRPC's own log would repeat it in gRPC's words.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  int status = weft::weftctl::kExitFine;
  const auto options = weft::weftctl::parse_options(argc, argv, status);
  return options ? weft::weftctl::run(*options) : status;
}
