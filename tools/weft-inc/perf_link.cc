// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/perf_link.h"

#include <algorithm>
#include <fstream>

#include "collectives/comm/host_schedule.h"
#include "nic/host/interface.h"
#include "tools/weft-inc/perf_data.h"

namespace weft::inc_tool {
namespace {

/// Of a packet: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, gap between frames 12.
constexpr double kHeaderBytes = 82;

/// Each rank's vector goes up once, and the result down once; a root has no part in what it gets or gives itself.
std::uint64_t by_switches(weft_inc_primitive collective, std::uint64_t block, std::uint32_t ranks) {
  switch (collective) {
    case WEFT_INC_BARRIER:
      return 0;
    case WEFT_INC_REDUCE_SCATTER:
    case WEFT_INC_ALLGATHER:
      return block * (ranks - 1);
    case WEFT_INC_ALLREDUCE:
    case WEFT_INC_REDUCE:
    case WEFT_INC_BROADCAST:
      break;
  }
  return block;
}

std::string interface_of(const std::string& address) {
  const auto parsed = wire::IpAddress::parse(address);
  return parsed ? nic::interface_with(*parsed) : "";
}

}  // namespace

std::uint64_t busiest_link_bytes(const PerfOptions& o, PerfWay way, std::uint64_t count, std::uint32_t element_bytes) {
  const auto collective = perf_primitive(o.collective);
  if (!collective || o.ranks < 2) return 0;
  if (way == PerfWay::switches) return by_switches(*collective, count * element_bytes, o.ranks);
  std::uint64_t most = 0;
  const auto algorithm = way == PerfWay::ring ? inc::comm::HostAlgorithm::ring : inc::comm::HostAlgorithm::tree;
  for (std::uint32_t rank = 0; rank < o.ranks; ++rank) {
    std::uint64_t up = 0, down = 0;
    for (const auto& step : inc::comm::host_schedule(static_cast<inc::comm::Collective>(*collective), algorithm, rank,
                                                     o.ranks, o.root, count, element_bytes)) {
      if (step.send.active) up += step.send.bytes;
      if (step.receive.active) down += step.receive.bytes;
    }
    most = std::max({most, up, down});
  }
  return most;
}

double link_share(std::uint64_t bytes, std::uint32_t mtu, double microseconds, double link_gbps) {
  if (microseconds <= 0 || mtu == 0) return 0;
  const auto packets = static_cast<double>((bytes + mtu - 1) / mtu);
  return (static_cast<double>(bytes) + packets * kHeaderBytes) * 8 / (microseconds * 1e3 * link_gbps);
}

std::optional<double> link_gbps(const std::string& device, const std::string& interface, const std::string& address,
                                const std::filesystem::path& sys) {
  const auto colon = device.find(':');
  const std::string port = colon == std::string::npos ? "1" : device.substr(colon + 1);
  const std::string name = interface.empty() && device.empty() ? interface_of(address) : interface;
  // "100 Gb/sec (4X EDR)", or Mbit/s and -1 where Linux does not know.
  const auto path = device.empty() ? sys / "class/net" / name / "speed"
                                   : sys / "class/infiniband" / device.substr(0, colon) / "ports" / port / "rate";
  if (device.empty() && name.empty()) return std::nullopt;
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value) || value <= 0) return std::nullopt;
  return device.empty() ? value / 1e3 : value;
}

}  // namespace weft::inc_tool
