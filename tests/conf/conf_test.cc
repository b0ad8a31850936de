// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every file in conf/ is a working configuration of the program as it is.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "collectives/stage/stages.h"
#include "switch/config/config.h"
#include "switch/stages/stages.h"
#include "tests/conf/conf_files.h"

namespace weft::api {
namespace {

TEST(Conf, HasFiles) {
  EXPECT_GE(testing::conf_files().size(), 7u);
}

TEST(Conf, EveryFileLoadsWithTheStagesOfTheProgramAndWithoutNotes) {
  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  for (const auto& path : testing::conf_files()) {
    config::Diagnostics diagnostics;
    const auto config = load_config_file(path, registry, diagnostics);
    EXPECT_TRUE(config.has_value());
    EXPECT_EQ(format(diagnostics), "") << path;
  }
}

TEST(Conf, EveryFileNamesTheSchemaForEditors) {
  for (const auto& path : testing::conf_files()) {
    EXPECT_TRUE(testing::read_file(path).starts_with("# yaml-language-server: $schema=schema.json\n")) << path;
  }
}

TEST(Conf, SchemaIsTheOneThatTheProgramGenerates) {
  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  const std::string generated = config_json_schema(registry).dump(2) + "\n";
  EXPECT_TRUE(generated == testing::read_file(testing::conf_directory() / "schema.json"))
      << "conf/schema.json is out of date: weft-switch --print-schema > conf/schema.json";
}

}  // namespace
}  // namespace weft::api
