// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <cstdio>
#include <nlohmann/json.hpp>

#include "collectives/manager/inc.pb.h"
#include "switch/system/output_file.h"
#include "tools/weft-inc/commands.h"
#include "tools/weft-inc/json.h"
#include "tools/weft-inc/topology_svg.h"
#include "tools/weftctl/format.h"

namespace weft::inc_tool {

using nlohmann::ordered_json;

namespace {

int draw(const Options& options, const inc::v1::ShowTopologyReply& reply) {
  std::vector<DrawnNode> nodes;
  std::vector<DrawnLink> links;
  for (const auto& n : reply.nodes()) {
    const double used =
        n.memory_bytes() == 0 ? 0 : static_cast<double>(n.used_bytes()) / static_cast<double>(n.memory_bytes());
    nodes.push_back({n.name(), n.tier(), n.up(), used, n.groups()});
  }
  for (const auto& l : reply.links()) {
    links.push_back({l.lower(), l.upper(), static_cast<std::uint32_t>(l.groups().size())});
  }
  const std::string error = OutputFile(options.svg).write(draw_topology(nodes, links));
  return error.empty() ? int{kExitFine} : fail(error, kExitFailed);
}

void print(const inc::v1::ShowTopologyReply& reply) {
  std::vector<ordered_json> switches, links;
  for (const auto& n : reply.nodes()) {
    if (n.tier() == 0) continue;
    switches.push_back({{"switch", n.name()},
                        {"tier", n.tier()},
                        {"up", n.up()},
                        {"groups", n.groups()},
                        {"used_bytes", n.used_bytes()},
                        {"memory_bytes", n.memory_bytes()}});
  }
  for (const auto& l : reply.links()) {
    links.push_back({{"lower", l.lower()},
                     {"address", l.lower_address()},
                     {"upper", l.upper()},
                     {"upper_address", l.upper_address()},
                     {"rate_mbps", l.rate_mbps()},
                     {"up", l.up()},
                     {"source", l.source()},
                     {"groups", std::vector<std::uint32_t>(l.groups().begin(), l.groups().end())}});
  }
  std::printf("policy %s\n\n%s\n%s", reply.policy().c_str(), weftctl::format_table(switches, {}).c_str(),
              weftctl::format_table(links, {}).c_str());
  for (const auto& sentence : reply.contradictions()) std::printf("\n%s\n", sentence.c_str());
}

}  // namespace

int show_topology(const Options& options) {
  inc::manager::Client client;
  if (!connect(options, client)) return kExitUnreachable;
  inc::v1::ShowTopologyReply reply;
  if (const auto error = client.topology(reply)) return fail(*error, kExitUnreachable);
  if (!options.svg.empty()) return draw(options, reply);
  if (options.json) return print_json(reply);
  print(reply);
  return kExitFine;
}

}  // namespace weft::inc_tool
