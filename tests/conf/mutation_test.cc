// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Configurations that are invalid by construction are refused, for the reason and at the place that made them so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "collectives/stage/stages.h"
#include "switch/config/config.h"
#include "switch/config/yaml_reader.h"
#include "switch/stages/stages.h"
#include "tests/conf/conf_files.h"
#include "tests/conf/mutations.h"
#include "tests/support/effort.h"

namespace weft::api {
namespace {

constexpr int kMutants = static_cast<int>(testing::rounds(1000));

std::uint64_t seed() {
  const char* given = std::getenv("WEFT_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

std::vector<config::DocumentNode> documents() {
  std::vector<config::DocumentNode> out;
  for (const auto& path : testing::conf_files()) {
    config::Diagnostics diagnostics;
    out.push_back(read_yaml(testing::read_file(path), path, diagnostics).value());
  }
  return out;
}

TEST(Mutations, DocumentsAreValidBeforeTheyAreMutated) {
  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  for (auto& document : documents()) {
    config::Diagnostics diagnostics;
    const std::string text = testing::write_yaml(document);
    EXPECT_TRUE(load_config(text, "f", registry, diagnostics).has_value());
    EXPECT_EQ(format(diagnostics), "") << text;
  }
}

TEST(Mutations, AThousandInvalidFilesAreRefusedForTheReasonThatMakesThemInvalid) {
  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  const std::uint64_t used_seed = seed();
  std::cout << "WEFT_SEED=" << used_seed << "\n";
  testing::Mutator mutator(documents(), registry, used_seed);
  std::map<std::string, int> made;
  for (int i = 0; i < kMutants; ++i) {
    const testing::Mutant mutant = mutator.make(static_cast<std::size_t>(i) % mutator.kinds());
    ++made[mutant.name];
    config::Diagnostics diagnostics;
    const auto config = load_config(mutant.text, "f", registry, diagnostics);
    const std::string report = "\n" + diagnostics.to_string();
    ASSERT_FALSE(config.has_value()) << mutant.name << "\n" << mutant.text;
    ASSERT_NE(report.find("\n" + mutant.expected), std::string::npos)
        << mutant.name << "\nexpected: " << mutant.expected << "\nreported: " << report << "\n"
        << mutant.text;
  }
  for (const auto& [name, count] : made) std::cout << count << " x " << name << "\n";
}

}  // namespace
}  // namespace weft::api
