// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Any bytes as a configuration file: the loader ends, and either gives a configuration that keeps its promises or says
// what is wrong, at a place that the text has.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "switch/config/config.h"
#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "tests/support/config_registry.h"

namespace {

using weft::config::Diagnostics;
using weft::pipeline::Registry;
using weft::pipeline::SwitchInfo;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_places(const Diagnostics& diagnostics, std::string_view text) {
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  for (const auto& entry : diagnostics.entries()) {
    require(!entry.text.empty());
    require(entry.mark.line >= 0 && entry.mark.line <= lines);
    require(entry.mark.column >= 0 && entry.mark.column <= static_cast<int>(text.size()) + 1);
  }
}

void require_promises(const SwitchInfo& info, const Registry& registry) {
  require(!info.name.empty() && !info.ports.empty() && !info.vlans.empty() && !info.pipeline.empty());
  require(std::is_sorted(info.vlans.begin(), info.vlans.end()));
  for (std::size_t i = 0; i < info.ports.size(); ++i) {
    const auto& port = info.ports[i];
    require(port.index == i && !port.type.empty() && port.device.is_map() && port.queue_packets > 0);
    require(!port.vlans.native || std::binary_search(info.vlans.begin(), info.vlans.end(), *port.vlans.native));
  }
  for (const auto& address : info.addresses) require(address.port < info.ports.size());
  for (const auto& route : info.routes) {
    require(route.prefix == route.prefix.network());
    require(route.blackhole == route.via.empty());
    for (const auto& hop : route.via) require(!hop.port || *hop.port < info.ports.size());
  }
  for (const auto& neighbour : info.neighbours) require(neighbour.port < info.ports.size());
  for (const auto& stage : info.pipeline) {
    const auto* type = registry.find(stage.name);
    require(type != nullptr);
    Diagnostics none;
    (void)weft::config::validate(type->options, to_document(stage.options), stage.name, &registry, none);
    require(none.ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Registry kRegistry = weft::testing::config_registry();
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  Diagnostics diagnostics;
  const auto config = weft::config::load_config(text, "f", kRegistry, diagnostics);
  require(config.has_value() == diagnostics.ok());
  require_places(diagnostics, text);
  (void)weft::config::format(diagnostics);
  if (config) {
    require(!config->switches.empty());
    for (const auto& info : config->switches) require_promises(info, kRegistry);
  }

  Diagnostics of_switch;
  const auto info = weft::config::load_switch(text, kRegistry, of_switch);
  require(info.has_value() == of_switch.ok());
  require_places(of_switch, text);
  if (info) require_promises(*info, kRegistry);
  return 0;
}
