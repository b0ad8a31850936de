// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/placement.h"

#include <algorithm>
#include <map>

#include "switch/runtime/port_names.h"

namespace weft {
namespace {

std::string what_to_do(int device_node, std::span<const PlacedWorker> workers) {
  const auto near = std::ranges::find(workers, device_node, &PlacedWorker::numa_node);
  if (near != workers.end()) {
    return "give such a port 'worker: " + std::to_string(near - workers.begin()) + "', which is on its node";
  }
  return "let a worker run on a CPU of that node (workers.cores)";
}

}  // namespace

std::vector<PlacementLine> describe_placement(std::span<const PlacedWorker> workers,
                                              std::span<const PlacedPort> ports) {
  std::vector<PlacementLine> lines;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const int node = workers[w].numa_node;
    PortNames all;
    std::map<int, PortNames> far;  // by the node of their devices
    for (const PlacedPort& port : ports) {
      if (port.worker != w) continue;
      all.add(port.name);
      if (port.numa_node >= 0 && port.numa_node != node) far[port.numa_node].add(port.name);
    }
    const std::string who = "worker " + std::to_string(w) + " on CPU " + std::to_string(workers[w].cpu) +
                            ", NUMA node " + std::to_string(node);
    lines.push_back({false, who + ": " + (all.text().empty() ? "no port" : all.text())});
    for (const auto& [device_node, names] : far) {
      lines.push_back({true, names.text() + (names.several() ? " are" : " is") + " on NUMA node " +
                                 std::to_string(device_node) + ", and served by " + who +
                                 ": every packet crosses over; " + what_to_do(device_node, workers)});
    }
  }
  return lines;
}

std::vector<std::string> describe_steering(const pipeline::Steering& steer) {
  if (!steer.as_cards) return {};
  std::vector<std::string> lines{"packets belong to the workers that cards with RSS bring them to, by their addresses"};
  if (steer.mode == pipeline::SteerMode::qp) {
    lines.emplace_back(
        "steer: qp gives queue pairs to workers, and cards know none of them: those of their packets that a card "
        "brings to another worker are handed over in software");
  }
  return lines;
}

std::vector<std::string> describe_not_begun(std::span<const std::uint64_t> loops, std::span<const unsigned> cpus,
                                            unsigned seconds) {
  std::vector<std::string> lines;
  for (std::size_t w = 0; w < loops.size(); ++w) {
    if (loops[w] != 0) continue;
    lines.push_back("worker " + std::to_string(w) + " on CPU " + std::to_string(cpus[w]) + " has not begun after " +
                    std::to_string(seconds) +
                    " s, because something else keeps its CPU: until it does, its ports receive nothing, and packets "
                    "that belong to it are dropped when its rings are full (handoff_full)");
  }
  return lines;
}

}  // namespace weft
