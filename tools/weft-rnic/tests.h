// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The client's side of the tests.
#pragma once

#include "tools/weft-rnic/options.h"

namespace weft::rnic_tool {

/// write_bw, send_bw, read_bw.
int run_bandwidth(Options options);
/// write_lat, send_lat.
int run_latency(Options options);
/// Every opcode; data is compared.
int run_verify(Options options);
/// A rank of collectives that switches run.
int run_collectives(Options options);
/// Both roles of rping.
int run_rping(Options options);

}  // namespace weft::rnic_tool
