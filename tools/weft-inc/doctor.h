// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>

namespace weft::inc_tool {

struct Options;

/// Of this host; empty: as programs have it.
struct DoctorOptions {
  std::string address, interface, daemon, device;
};

/// Prints what is fine and what is not. The exit status: 1 when something is missing.
int run_doctor(const Options& manager, const DoctorOptions& own);

}  // namespace weft::inc_tool
