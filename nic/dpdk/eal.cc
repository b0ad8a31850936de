// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/dpdk/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <vector>

namespace weft::nic {
namespace {

/// Packet buffers of a port, and what DPDK and a driver take besides.
constexpr const char* kMemoryMb = "96";

}  // namespace

std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  }
  return text;
}

bool is_pci_device(const std::string& devargs) {
  const std::string name = devargs.substr(0, devargs.find(','));
  return name.starts_with("pci:") || (name.find(':') != std::string::npos && name.find('.') != std::string::npos &&
                                      std::isxdigit(static_cast<unsigned char>(name.front())) != 0);
}

std::string start_eal(const std::string& program, const std::string& devargs) {
  std::vector<std::string> arguments{program, "--lcores=0@(" + allowed_cpus() + ")", "--no-telemetry",
                                     "--log-level=warning", "--log-level=lib.eal:error",
                                     // It says how its server cannot be reached each time that this is tried.
                                     "--log-level=pmd.net.memif:critical",
                                     "--file-prefix=" + program + std::to_string(getpid())};
  if (is_pci_device(devargs)) {
    for (const char* argument : {"--in-memory", "-a"}) arguments.emplace_back(argument);
    arguments.push_back(devargs);
  } else {
    for (const char* argument : {"--no-pci", "--no-huge", "--no-shconf", "-m", kMemoryMb}) {
      arguments.emplace_back(argument);
    }
  }
  std::vector<char*> pointers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) pointers[i] = arguments[i].data();
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) >= 0) return {};
  return std::string("DPDK did not start: ") + rte_strerror(rte_errno);
}

void stop_eal() {
  const std::filesystem::path directory = rte_eal_get_runtime_dir();
  // DPDK leaves the directory behind, one for each process that ever ran.
  const bool own = directory.filename().string().ends_with(std::to_string(getpid()));
  std::error_code ignored;
  if (own) std::filesystem::remove_all(directory, ignored);
}

}  // namespace weft::nic
