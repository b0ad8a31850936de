// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which parts of an experiment file are as their schemas say: the others are not looked at further, so that all
// mistakes can be reported at once, and none that only follows from another.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "switch/config/schema/document.h"

namespace weft::flow {

struct Mistakes {
  bool cluster = false;   ///< in fabric or scale_up: its size and its rates are not known
  bool memory = false;    ///< in memory
  bool workload = false;  ///< in the workload, those of its jobs among them
  std::set<std::string> models;
  std::set<std::size_t> jobs, failures;  ///< by their places in the lists
};

[[nodiscard]] Mistakes mistakes_in(const config::DocumentNode& document);

}  // namespace weft::flow
