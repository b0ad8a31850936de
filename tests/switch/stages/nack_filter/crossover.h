// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A switch for tests of stages that do not forward themselves: what comes in at p1 leaves at p2, and the other way.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "switch/stages/impair/stage.h"
#include "switch/stages/parse/stage.h"
#include "tests/support/harness.h"

namespace weft::testing {

/// Forwards between port 0 and port 1 and remembers what the parser said about each packet.
class Crossover : public pipeline::Stage {
 public:
  void ingress(pipeline::Context&, pipeline::Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      pipeline::PacketMeta& pm = pipeline::meta(batch.packet[i]);
      pm.out_port = pm.in_port ^ 1;
      seen.push_back(pm.parsed);
    }
  }
  std::vector<wire::Parsed> seen;
};

inline pipeline::StageType crossover_type() {
  pipeline::StageType type;
  type.name = "crossover";
  type.summary = "Forwards between two ports.";
  type.needs = {"parsed"};
  type.provides = {"forward"};
  type.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Crossover>(); };
  return type;
}

inline pipeline::Registry crossover_registry() {
  pipeline::Registry registry;
  registry.add(stages::parse_stage_type());
  registry.add(stages::impair_stage_type());
  registry.add(crossover_type());
  return registry;
}

/// Two ports and the stages given, one `- item` a line, before the crossover.
inline std::string crossover_yaml(std::string_view stages) {
  std::string yaml = R"(
name: tor
ports:
  - { name: p1, type: "null" }
  - { name: p2, type: "null" }
pipeline:
)";
  yaml += stages;
  yaml += "\n  - crossover\n";
  return yaml;
}

}  // namespace weft::testing
