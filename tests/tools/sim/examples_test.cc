// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "switch/stages/stages.h"
#include "tools/sim/experiment.h"

namespace weft::sim {
namespace {

TEST(Examples, AllExperimentFilesLoad) {
  pipeline::Registry registry;
  stages::register_all(registry);
  int found = 0;
  for (const char* folder : {"tools/sim/examples", "bench/papers"}) {
    const std::filesystem::path root = std::filesystem::path(WEFT_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      // What is in a folder `flow` is for weft-flow.
      if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "flow") continue;
      ++found;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      config::Diagnostics diagnostics;
      EXPECT_TRUE(load_experiment(text.str(), entry.path().string(), {}, registry, diagnostics).has_value())
          << diagnostics.to_string();
    }
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace weft::sim
