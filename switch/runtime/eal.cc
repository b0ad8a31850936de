// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_trace.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "switch/api/unix_socket.h"
#include "switch/pipeline/packet.h"
#include "switch/runtime/overdue.h"
#include "switch/runtime/worker_cpus.h"

namespace weft {
namespace {

// Memory that DPDK and the devices take besides packet buffers.
constexpr std::uint64_t kOtherMemoryMb = 96;
constexpr TimeNs kStartTimeNs = 5'000'000'000;

std::vector<unsigned> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::uint64_t free_hugepages_mb() {
  std::uint64_t total_kb = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", error)) {
    std::uint64_t pages = 0;
    std::ifstream(entry.path() / "free_hugepages") >> pages;
    const std::string name = entry.path().filename();  // hugepages-2048kB
    total_kb += pages * std::stoull(name.substr(name.find('-') + 1));
  }
  return total_kb / 1024;
}

// Memory that the process could still get: of the machine, and of its control group (cgroups(7), version 2).
std::uint64_t available_memory_mb() {
  std::uint64_t available_kb = ~std::uint64_t{0};
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    std::uint64_t value = 0;
    std::string unit;
    meminfo >> value;
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") available_kb = value;
  }
  std::string group;
  std::getline(std::ifstream("/proc/self/cgroup") >> std::ws, group);
  if (group.starts_with("0::")) {
    const std::string folder = "/sys/fs/cgroup" + group.substr(3) + "/";
    std::uint64_t most = 0, used = 0;
    if (std::ifstream(folder + "memory.max") >> most && std::ifstream(folder + "memory.current") >> used) {
      available_kb = std::min(available_kb, most > used ? (most - used) / 1024 : 0);
    }
  }
  return available_kb / 1024;
}

std::uint64_t needed_memory_mb(const config::EalConfig& config) {
  if (config.memory_mb) return *config.memory_mb;
  const std::uint64_t buffer = sizeof(rte_mbuf) + pipeline::kMetaSize + config.mbuf_data_room_bytes + 128;
  return config.mbufs * buffer / (1024 * 1024) + kOtherMemoryMb;
}

// Tells the files of this process apart from those of others (dpdk-telemetry.py -f PREFIX).
std::string file_prefix() {
  return "weft" + std::to_string(getpid());
}

// Whether nobody listens to the socket of DPDK's telemetry.
bool refuses(const std::filesystem::path& telemetry) {
  const api::Connection probe = api::connect_unix(telemetry, std::chrono::milliseconds{0}, SOCK_SEQPACKET);
  if (probe.fd >= 0) close(probe.fd);
  return probe.error == ECONNREFUSED;
}

// A process that was killed leaves its directory. Whether it lives is asked of its socket: its number may be another's
// by now, or it may run where processes have numbers of their own. One that has only begun does not listen yet.
void remove_directories_of_the_dead(const std::filesystem::path& own) {
  constexpr std::chrono::seconds kBegun{10};
  std::error_code error;
  std::vector<std::filesystem::path> dead;
  for (const auto& entry : std::filesystem::directory_iterator(own.parent_path(), error)) {
    const std::string name = entry.path().filename();
    const bool ours =
        name.starts_with("weft") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == name.npos;
    if (!ours || entry.path() == own) continue;
    const std::filesystem::path telemetry = entry.path() / "dpdk_telemetry.v2";
    const auto made = std::filesystem::last_write_time(telemetry, error);
    if (error || std::filesystem::file_time_type::clock::now() - made < kBegun) continue;
    if (refuses(telemetry)) dead.push_back(entry.path());
  }
  for (const auto& directory : dead) std::filesystem::remove_all(directory, error);
}

void choose_memory(const config::EalConfig& config, Eal& eal, std::vector<std::string>& arguments) {
  const std::uint64_t needed = needed_memory_mb(config);
  const std::uint64_t available = free_hugepages_mb();
  if (config.hugepages == config::Hugepages::on && available < needed) {
    eal.error = "eal.hugepages is on, but " + std::to_string(needed) + " MiB are needed and " +
                std::to_string(available) +
                " MiB of hugepages are free (echo N > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)";
    return;
  }
  eal.hugepages = config.hugepages != config::Hugepages::off && available >= needed;
  if (eal.hugepages) {
    arguments.push_back("--in-memory");
    return;
  }
  // Memory that is not there is found out when it is touched, and then other processes are ended for it.
  const std::uint64_t memory = available_memory_mb();
  if (needed > memory) {
    eal.error = std::to_string(needed) + " MiB of memory are needed (" +
                (config.memory_mb ? "eal.memory_mb" : "eal.mbufs and their size") + "), and " + std::to_string(memory) +
                " MiB are available";
    return;
  }
  for (const char* argument : {"--no-huge", "--no-shconf", "-m"}) arguments.emplace_back(argument);
  arguments.push_back(std::to_string(needed));
  if (config.hugepages == config::Hugepages::off) return;
  eal.warning = "no hugepages (" + std::to_string(needed) + " MiB needed, " + std::to_string(available) +
                " MiB free): packet memory lies in 4 KiB pages";
  eal.warning +=
      config.mbuf_data_room_bytes < 4096
          ? "; with buffers below 4096 bytes forwarding is 2.5 to 4 times slower, set eal.mbuf_data_room_bytes"
          : ", which costs up to a tenth of the forwarding rate and rules out devices that use DMA";
}

}  // namespace

Eal start_eal(const config::Config& config, const std::vector<std::string>& pci_devices) {
  Eal eal;
  const std::vector<unsigned> cpus = allowed_cpus();
  WorkerCpus chosen = choose_worker_cpus(config.workers, cpus, numa_node_of_cpu);
  eal.error = std::move(chosen.error);
  if (!eal.error.empty()) return eal;
  eal.worker_cpus = std::move(chosen.cpus);
  // The control plane, and every thread that it starts, keeps off the workers' CPUs where there are others.
  std::vector<unsigned> control_cpus;
  for (const unsigned cpu : cpus) {
    if (std::find(eal.worker_cpus.begin(), eal.worker_cpus.end(), cpu) == eal.worker_cpus.end()) {
      control_cpus.push_back(cpu);
    }
  }
  std::string lcores = "0@(" + cpu_list(control_cpus.empty() ? cpus : control_cpus) + ")";
  for (std::size_t i = 0; i < eal.worker_cpus.size(); ++i) {
    eal.worker_lcores.push_back(static_cast<unsigned>(i + 1));
    lcores += "," + std::to_string(i + 1) + "@" + std::to_string(eal.worker_cpus[i]);
  }
  std::vector<std::string> arguments{"weft-switch",
                                     "--lcores=" + lcores,
                                     "--main-lcore=0",
                                     "--log-level=warning",
                                     "--log-level=lib.telemetry:error",
                                     "--log-level=lib.eal:error",
                                     "--file-prefix=" + file_prefix()};
  if (pci_devices.empty()) arguments.emplace_back("--no-pci");
  for (const std::string& device : pci_devices) {
    arguments.emplace_back("-a");
    arguments.push_back(device);
  }
  choose_memory(config.eal, eal, arguments);
  if (!eal.error.empty()) return eal;
  const std::vector<std::string>& extra = config.eal.extra_args;
  arguments.insert(arguments.end(), extra.begin(), extra.end());

  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  // It waits for a thread on the CPU of each worker.
  const Overdue overdue(kStartTimeNs, "DPDK has not started after " + std::to_string(kStartTimeNs / 1'000'000'000) +
                                          " s: something else seems to keep one of the CPUs " +
                                          cpu_list(eal.worker_cpus) + ", on each of which a worker is to run");
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    eal.error = std::string("DPDK did not start: ") + rte_strerror(rte_errno);
    for (const std::string& argument : extra) {
      eal.error += (&argument == extra.data() ? "; eal.extra_args: " : " ") + argument;
    }
    return eal;
  }
  remove_directories_of_the_dead(rte_eal_get_runtime_dir());
  return eal;
}

void stop_eal() {
  const std::filesystem::path directory = rte_eal_get_runtime_dir();
  rte_trace_save();
  // DPDK leaves the directory of its telemetry socket behind, one for each process that ever ran.
  std::error_code ignored;
  if (directory.filename() == file_prefix()) std::filesystem::remove_all(directory, ignored);
}

}  // namespace weft
