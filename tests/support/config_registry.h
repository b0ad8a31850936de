// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Stages that exist by their description only, for tests of the configuration.
#pragma once

#include "switch/pipeline/registry.h"

namespace weft::testing {

/// parse, mangle, l2, l3 and lb, with options of every kind of schema. mangle's own check refuses rate 13.
inline pipeline::Registry config_registry() {
  using config::Schema;
  using config::Value;
  using Key = Schema::Key;
  pipeline::Registry registry;
  registry.add({.name = "parse",
                .summary = "Reads headers.",
                .provides = {"parsed"},
                .options = Schema::map({Key::with_default("icrc_check", Schema::one_of({"off", "count", "drop"}),
                                                          Value("off"), "What to do with a wrong ICRC.")}),
                .make = {}});
  const auto rule = Schema::tagged(
      "action", {{"drop", Schema::map({Key::required_key("ratio", Schema::number(0, 1), "Part of packets.")})},
                 {"delay", Schema::map({Key::required_key("delay_ns", Schema::integer(0, 1000), "Delay.")})}});
  registry.add({.name = "mangle",
                .summary = "Spoils packets.",
                .needs = {"parsed"},
                .options = Schema::map({Key::required_key("rules", Schema::list(rule), "Rules."),
                                        Key::with_default("rate", Schema::integer(0, 100), Value(13 + 1), "Rate."),
                                        Key::with_default("learn", Schema::boolean(), Value(true), "Learn.")}),
                .check =
                    [](const Value& options, const pipeline::SwitchInfo&, config::Diagnostics& diagnostics) {
                      if (options["rate"].integer() == 13) diagnostics.error(options["rate"].mark(), "rate: unlucky");
                    },
                .make = {}});
  registry.add(
      {.name = "l2",
       .summary = "Bridges.",
       .needs = {"parsed"},
       .provides = {"forward"},
       .options = Schema::map({Key::with_default("ageing_s", Schema::integer(1, 1000000), Value(300), "Age."),
                               Key::with_default("forward_link_local", Schema::boolean(), Value(false), "Wire.")}),
       .make = {}});
  registry.add({.name = "l3",
                .summary = "Routes.",
                .needs = {"parsed"},
                .provides = {"forward", "group"},
                .options = Schema::map({}),
                .make = {}});
  registry.add(
      {.name = "lb",
       .summary = "Picks a member of an equal-cost group.",
       .needs = {"group"},
       .options = Schema::map({Key::with_default("policy", Schema::one_of({"ecmp", "random"}), Value("ecmp"), "How.")}),
       .make = {}});
  return registry;
}

}  // namespace weft::testing
