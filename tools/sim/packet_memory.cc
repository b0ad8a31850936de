// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/packet_memory.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <vector>

#include "switch/pipeline/packet.h"

namespace weft::sim {
namespace {

// 64 bytes of headroom and pipeline::kHeaderBytes.
constexpr std::uint16_t kDataRoom = 256;
constexpr std::uint64_t kBufferBytes = sizeof(rte_mbuf) + pipeline::kMetaSize + kDataRoom + 128;
constexpr std::uint64_t kOtherMemoryMb = 32;

// All CPUs that the process may use, as DPDK lists them: it would bind the process to one of them otherwise.
std::string own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  }
  return text;
}

}  // namespace

std::string start_packet_memory(std::uint32_t mbufs) {
  const std::string memory = std::to_string(mbufs * kBufferBytes / (1024 * 1024) + kOtherMemoryMb);
  std::vector<std::string> arguments{"weft-sim",
                                     "--no-huge",
                                     "--no-shconf",
                                     "--no-pci",
                                     "-m",
                                     memory,
                                     "--log-level=error",
                                     "--no-telemetry",
                                     "--lcores=0@(" + own_cpus() + ")",
                                     "--file-prefix=weft-sim" + std::to_string(getpid())};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) >= 0) return "";
  return std::string("DPDK did not start: ") + rte_strerror(rte_errno);
}

void stop_packet_memory() {
  rte_eal_cleanup();
}

pipeline::Pool make_packet_pool(std::uint32_t mbufs) {
  return pipeline::make_pool("weft_sim", mbufs, kDataRoom, 512);
}

}  // namespace weft::sim
