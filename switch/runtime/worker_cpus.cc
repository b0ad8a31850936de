// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/worker_cpus.h"

#include <algorithm>
#include <filesystem>

namespace weft {
namespace {

std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

WorkerCpus refuse(std::string why) {
  return {{}, std::move(why)};
}

}  // namespace

std::string cpu_list(const std::vector<unsigned>& cpus) {
  std::string text;
  for (const unsigned cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

int numa_node_of_cpu(unsigned cpu) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu" + std::to_string(cpu), error)) {
    const std::string name = entry.path().filename();  // node0
    if (name.starts_with("node") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == name.npos) {
      return std::stoi(name.substr(4));
    }
  }
  return 0;
}

WorkerCpus choose_worker_cpus(const config::WorkersConfig& workers, const std::vector<unsigned>& allowed,
                              const std::function<int(unsigned cpu)>& node_of) {
  for (const unsigned cpu : workers.cores) {
    if (std::ranges::find(allowed, cpu) == allowed.end()) {
      return refuse(workers.cores_key + " names CPU " + std::to_string(cpu) + ", but the process may use CPUs " +
                    cpu_list(allowed));
    }
    if (workers.numa && node_of(cpu) != *workers.numa) {
      return refuse("workers.numa is " + std::to_string(*workers.numa) + ", but " + workers.cores_key + " names CPU " +
                    std::to_string(cpu) + ", which is on NUMA node " + std::to_string(node_of(cpu)));
    }
  }
  if (!workers.cores.empty()) return {{workers.cores.begin(), workers.cores.begin() + workers.number()}, ""};

  std::vector<unsigned> usable;
  std::ranges::copy_if(allowed, std::back_inserter(usable),
                       [&](unsigned cpu) { return !workers.numa || node_of(cpu) == *workers.numa; });
  const std::string where = workers.numa ? " on NUMA node " + std::to_string(*workers.numa) : "";
  if (usable.empty()) {
    return refuse("workers.numa is " + std::to_string(*workers.numa) + ", but the CPUs that the process may use, " +
                  cpu_list(allowed) + ", are on other nodes");
  }
  if (workers.number() > usable.size()) {
    return refuse("workers.count is " + std::to_string(workers.number()) + ", but the process may use " +
                  plural(usable.size(), "CPU") + where + " (" + cpu_list(usable) + ")");
  }
  return {{usable.end() - workers.number(), usable.end()}, ""};
}

}  // namespace weft
