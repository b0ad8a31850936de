// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The kernel as the control plane of a switch.
#include <algorithm>
#include <map>
#include <utility>

#include "switch/config/schema/suggest.h"
#include "switch/config/switch_builder.h"
#include "switch/pipeline/find.h"

namespace weft::config {
namespace {

// A bridge gives the kernel what is for the link; a router all that is for the switch, and takes its routes.
void check_stages(SwitchScope& scope, const Mark& mark) {
  if (const pipeline::StageSpec* bridge = pipeline::find_stage(scope.info, "l2"); bridge != nullptr) {
    const Value& forwards = bridge->options["forward_link_local"];
    if (forwards.is_null() || !forwards.boolean()) return;
    scope.diagnostics.error(forwards.mark(),
                            "forward_link_local: with 'kernel' such frames are the kernel's; expected "
                            "false");
  } else if (pipeline::find_stage(scope.info, "l3") != nullptr && pipeline::find_stage(scope.info, "lb") == nullptr) {
    scope.diagnostics.error(mark, "kernel: the kernel's routes may have several next hops, which needs stage 'lb'");
  }
}

// There is one source of routes.
void check_sections(SwitchScope& scope) {
  for (const char* section : {"routes", "neighbours"}) {
    const auto& items = scope.source[section].list_or_empty();
    if (items.empty()) continue;
    scope.diagnostics.error(items.front().mark(), std::string(section) +
                                                      ": with 'kernel' these are the kernel's; expected none here "
                                                      "(use ip route, ip neighbour or a routing daemon)");
  }
}

void check_name(SwitchScope& scope, const Value& prefix, const pipeline::PortInfo& port) {
  const std::string name = text_of(scope.source["kernel"], "prefix") + port.name;
  if (name.size() <= kMaxInterfaceName) return;
  const Mark& mark = prefix.mark().line > 0 ? prefix.mark() : scope.source["kernel"].mark();
  scope.diagnostics.error(mark, "prefix: the interface of port '" + port.name + "' would be " + quote(name) +
                                    ", longer than " + std::to_string(kMaxInterfaceName) + " characters");
}

}  // namespace

void build_kernel(SwitchScope& scope) {
  const Value& source = scope.source["kernel"];
  if (!source.is_map()) return;
  pipeline::KernelInfo info;
  info.mark = source.mark();
  info.network_namespace = text_of(source, "namespace");
  if (!source["packets_per_s"].is_null()) {
    info.packets_per_s = static_cast<std::uint32_t>(source["packets_per_s"].unsigned_integer());
  }
  const Value& prefix = source["prefix"];
  info.interface_prefix = text_of(source, "prefix");
  if (info.interface_prefix.find_first_of("/:%, \t\r\n") != std::string::npos) {
    scope.diagnostics.error(prefix.mark(),
                            "prefix: expected the beginning of an interface's name, without '/', ':', "
                            "'%', ',' and spaces, found " +
                                quote(info.interface_prefix));
  }
  for (const auto& port : scope.info.ports) check_name(scope, prefix, port);
  check_sections(scope);
  check_stages(scope, source.mark());
  scope.info.kernel = std::move(info);
}

void check_kernel_interfaces(const std::vector<Value>& switches, Diagnostics& diagnostics) {
  struct User {
    std::string port;
    Mark mark;
  };
  std::map<std::pair<std::string, std::string>, User> users;  // by namespace and name
  for (const bool of_kernel : {false, true}) {
    for (const auto& sw : switches) {
      if (!sw.is_map() || (of_kernel && !sw["kernel"].is_map())) continue;
      for (const auto& port : sw["ports"].list_or_empty()) {
        const std::string name = of_kernel ? text_of(port, "name") : text_of(port, "interface");
        if (name.empty()) continue;
        const Value& kernel = sw["kernel"];
        const auto key = of_kernel ? std::pair(text_of(kernel, "namespace"), text_of(kernel, "prefix") + name)
                                   : std::pair(std::string(), name);
        const std::string user = "port '" + text_of(sw, "name") + "/" + text_of(port, "name") + "'";
        const auto [first, inserted] = users.emplace(key, User{user, port.mark()});
        if (inserted || !of_kernel) continue;
        diagnostics.error(kernel.mark(), "kernel: the interface " + quote(key.second) + " of " + user +
                                             " is already used by " + first->second.port + at_line(first->second.mark) +
                                             "; a prefix or a namespace tells them apart");
      }
    }
  }
}

}  // namespace weft::config
