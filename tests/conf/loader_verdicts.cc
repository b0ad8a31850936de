// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Prints, one JSON object a line, example and wrong configurations and whether the loader accepts them, for
// schema_agreement_test.py. Arguments: how many wrong ones, seed.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "collectives/stage/stages.h"
#include "switch/config/config.h"
#include "switch/config/yaml_reader.h"
#include "switch/stages/stages.h"
#include "tests/conf/conf_files.h"
#include "tests/conf/mutations.h"

int main(int argc, char** argv) {
  using weft::config::Diagnostics;
  using weft::config::DocumentNode;
  if (argc != 3) return 1;
  weft::pipeline::Registry registry;
  weft::stages::register_all(registry);
  weft::inc::register_stages(registry);
  const auto print = [&](const std::string& name, const std::string& text, bool structural) {
    Diagnostics diagnostics;
    const bool accepted = weft::config::load_config(text, "f", registry, diagnostics).has_value();
    std::cout << nlohmann::json{{"name", name}, {"text", text}, {"structural", structural}, {"accepted", accepted}}
              << "\n";
  };

  std::vector<DocumentNode> documents;
  for (const auto& path : weft::testing::conf_files()) {
    Diagnostics diagnostics;
    const std::string text = weft::testing::read_file(path);
    documents.push_back(weft::config::read_yaml(text, path, diagnostics).value());
    print(path.filename(), text, false);
  }
  weft::testing::Mutator mutator(std::move(documents), registry, std::strtoull(argv[2], nullptr, 10));
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    const auto mutant = mutator.make(static_cast<std::size_t>(i) % mutator.kinds());
    print(mutant.name, mutant.text, mutant.structural);
  }
}
