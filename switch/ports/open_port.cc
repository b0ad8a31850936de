// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// From a port of the configuration to an open device: one function per port type.
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "switch/base/unix_address.h"
#include "switch/pipeline/dpdk_compat.h"
#include "switch/ports/eth_port.h"
#include "switch/ports/generator_port.h"
#include "switch/ports/port.h"

namespace weft::ports {
namespace {

using config::Value;
using pipeline::PortInfo;

constexpr std::uint32_t kDefaultMtu = 4200;  // carries RoCE with a path MTU of 4096

// A device that is to be opened, or why it cannot be.
struct Plan {
  EthDevice device{};
  std::uint32_t mtu_bytes = kDefaultMtu;
  std::string error{};
};

Plan refuse(std::string error) {
  Plan plan;
  plan.error = std::move(error);
  return plan;
}

// A name that no other virtual device of this process has.
std::string unique_name(const std::string& driver) {
  static int serial = 0;
  return "net_" + driver + std::to_string(serial++);
}

// Values end up between the commas of a DPDK device string.
std::optional<std::string> reserved_character(const Value& device, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (device.has(key) && device[key].string().find_first_of(",=") != std::string::npos) {
      return std::string(key) + " may not contain ',' or '='";
    }
  }
  return std::nullopt;
}

Plan plan_pci(const PortInfo& info, std::uint32_t mtu) {
  Plan plan;
  plan.device.devargs = info.device["device"].string();
  plan.device.rx_descriptors = static_cast<std::uint16_t>(info.device["rx_descriptors"].integer());
  plan.device.tx_descriptors = static_cast<std::uint16_t>(info.device["tx_descriptors"].integer());
  plan.device.own_mac = true;
  plan.device.set_device_mtu = true;
  plan.device.tx_per_worker = true;
  plan.device.real_speed = !plan.device.devargs.starts_with("net_");
  const std::string pfc = info.device.has("pfc_hardware") ? info.device["pfc_hardware"].string() : "auto";
  plan.device.pfc_hardware = pfc == "on" ? PfcHardware::on : pfc == "off" ? PfcHardware::off : PfcHardware::automatic;
  plan.mtu_bytes = mtu != 0 ? mtu : 1500;
  return plan;
}

// How both ends of a pair were before they were prepared.
struct VethBefore {
  Netdev::Settings near;
  Netdev::Settings far;
};

// Prepares both ends of the pair; what it cannot do at the far end it logs, with what the user can do.
// @param mtu  0 asks for the interface's own, which it becomes
std::string prepare_veth(const std::string& interface, std::uint32_t& mtu, VethBefore& before) {
  const Netdev netdev(interface);
  if (!netdev.exists()) return "no network interface '" + interface + "' in this network namespace";
  if (netdev.index() != before.near.index) before = {netdev.settings(), {}};
  if (mtu != 0) {
    if (auto error = netdev.set_mtu(mtu); !error.empty()) return error;
  }
  mtu = netdev.mtu().value_or(1500);
  if (mtu + 18 > pipeline::kAfPacketMaxFrame) {
    return "interface " + interface + " has an MTU of " + std::to_string(mtu) + "; af_packet rings carry at most " +
           std::to_string(pipeline::kAfPacketMaxFrame - 18) + " (set mtu_bytes)";
  }
  netdev.silence_kernel();
  if (auto error = netdev.disable_offloads(); !error.empty()) return error;
  if (auto error = netdev.set_up(); !error.empty()) return error;
  const Netdev::Peer peer = netdev.disable_peer_offloads();
  if (before.far.index == 0) before.far = peer.before;
  if (peer.is_veth && !peer.error.empty()) {
    spdlog::warn(
        "{}: the other end{} keeps its offloads ({}): TCP and UDP from it may carry no checksum; run "
        "'ethtool -K IFACE tx off tso off gso off gro off' there",
        interface, peer.name.empty() ? "" : " (" + peer.name + ")", peer.error);
  }
  return "";
}

Plan plan_veth(const PortInfo& info, std::uint32_t mtu, const PortEnvironment& environment) {
  const std::string& interface = info.device["interface"].string();
  const unsigned room = buffer_bytes(environment.pool);
  if (pipeline::kAfPacketTruncates && room < pipeline::kAfPacketBufferBytes) {
    return refuse("packet buffers of " + std::to_string(room + RTE_PKTMBUF_HEADROOM) +
                  " bytes are too small for veth: eal.mbuf_data_room_bytes must be at least " +
                  std::to_string(pipeline::kAfPacketBufferBytes + RTE_PKTMBUF_HEADROOM));
  }
  Plan plan;
  const auto before = std::make_shared<VethBefore>();
  plan.device.prepare = [interface, before](std::uint32_t& bytes) { return prepare_veth(interface, bytes, *before); };
  plan.mtu_bytes = mtu;
  plan.error = plan.device.prepare(plan.mtu_bytes);
  plan.device.restore = [interface, before] {
    Netdev(interface).restore_peer_offloads(before->far);
    Netdev(interface).restore(before->near);
  };
  plan.device.devargs = unique_name("af_packet") + ",iface=" + interface +
                        ",framesz=" + std::to_string(pipeline::kAfPacketFrameSize) +
                        ",blocksz=" + std::to_string(pipeline::kAfPacketBlockSize) +
                        ",framecnt=" + std::to_string(pipeline::kAfPacketRingFrames) + ",qdisc_bypass=1";
  plan.device.interface = Netdev(interface);
  return plan;
}

Plan plan_tap(const PortInfo& info, std::uint32_t mtu) {
  if (const auto bad = reserved_character(info.device, {"interface"})) return refuse(*bad);
  Plan plan;
  plan.mtu_bytes = mtu != 0 ? mtu : 1500;
  plan.device.devargs = unique_name("tap") + ",iface=" + info.device["interface"].string();
  return plan;
}

// A socket that a dead process left behind would make bind() fail. What is no socket, and a socket on which somebody
// else listens, is not ours to remove. Several memif ports of this process may share one.
std::string remove_stale_socket(const std::string& path) {
  static std::set<std::string> ours;
  if (ours.contains(path)) return "";
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path, ignored).type();
  if (type == std::filesystem::file_type::not_found) {
    ours.insert(path);
    return "";
  }
  if (type != std::filesystem::file_type::socket) return path + " exists and is no socket";
  sockaddr_un address;
  if (!write_unix_address(path, address)) return path + " is too long for a socket";
  // memif's sockets are of the type SOCK_SEQPACKET; connecting with another type fails with EPROTOTYPE, not with
  // ECONNREFUSED, when somebody listens.
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return "";
  const bool refused =
      connect(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  close(probe);
  if (!refused) return path + " is in use by another process";
  std::filesystem::remove(path, ignored);
  ours.insert(path);
  return "";
}

Plan plan_memif(const PortInfo& info, std::uint32_t mtu) {
  if (const auto bad = reserved_character(info.device, {"socket"})) return refuse(*bad);
  if (info.device["role"].string() == "server") {
    if (auto error = remove_stale_socket(info.device["socket"].string()); !error.empty()) return refuse(error);
  }
  Plan plan;
  plan.mtu_bytes = mtu != 0 ? mtu : kDefaultMtu;
  plan.device.devargs = unique_name("memif") + ",role=" + info.device["role"].string() +
                        ",id=" + std::to_string(info.device["id"].integer()) +
                        ",socket=" + info.device["socket"].string() + ",socket-abstract=no,bsize=8192,rsize=10";
  return plan;
}

Plan plan_vhost(const PortInfo& info, std::uint32_t mtu) {
  if (const auto bad = reserved_character(info.device, {"socket"})) return refuse(*bad);
  const std::string& path = info.device["socket"].string();
  const bool client = info.device["role"].string() == "client";
  if (auto error = client ? "" : remove_stale_socket(path); !error.empty()) return refuse(error);
  Plan plan;
  plan.mtu_bytes = mtu != 0 ? mtu : kDefaultMtu;
  plan.device.devargs = unique_name("vhost") + ",iface=" + path + ",client=" + (client ? "1" : "0") + ",queues=1";
  return plan;
}

// Has the device receive a capture. Empty, or why not.
std::string receive_capture(const Value& options, const std::string& file, const PortEnvironment& environment,
                            EthDevice& device) {
  const bool infinite = options["infinite"].boolean();
  std::vector<std::string> warnings;
  std::string error;
  if (options["pace"].string() != "none") {
    ReplayPace pace;
    if (options["pace"].string() == "rate") pace.rate_pps = static_cast<std::uint64_t>(options["rate_pps"].integer());
    if (options.has("speed")) pace.speed = options["speed"].number();
    pace.loops = infinite ? 0 : static_cast<std::uint64_t>(options["loops"].integer());
    device.replay = CaptureReplay::load(file, pace, environment.pool, warnings, error);
    if (!error.empty()) return error;
  } else {
    const CaptureSummary capture = examine_capture(file);
    if (!capture.error.empty()) return capture.error;
    warnings = capture.warnings;
    device.finite_packets = capture.packets;
    device.devargs = unique_name("pcap") + ",rx_pcap=" + file;
    if (infinite) {
      if (capture.packets == 0) return file + " holds no packet to repeat";
      // The driver replays the first buffer of a packet only, with the length of all.
      if (capture.longest > buffer_bytes(environment.pool)) {
        return too_large_for_buffers("repeated packets of " + std::to_string(capture.longest) + " bytes",
                                     environment.pool);
      }
      device.devargs += ",infinite_rx=1";
      device.finite_packets = std::nullopt;
    }
  }
  for (const std::string& warning : warnings) spdlog::warn("{}: {}", file, warning);
  return "";
}

Plan plan_pcap(const PortInfo& info, std::uint32_t mtu, const PortEnvironment& environment) {
  if (const auto bad = reserved_character(info.device, {"rx_file", "tx_file"})) return refuse(*bad);
  Plan plan;
  plan.mtu_bytes = mtu != 0 ? mtu : kDefaultMtu;
  plan.device.takes_chains = true;  // the writer gathers them, and what has none frees them
  plan.device.finite_packets = 0;
  plan.device.name = "pcap";
  plan.device.devargs = unique_name("null") + ",no-rx=1";
  if (info.device.has("rx_file")) {
    const std::string& file = info.device["rx_file"].string();
    if (std::string error = receive_capture(info.device, file, environment, plan.device); !error.empty()) {
      return refuse(error);
    }
  }
  if (info.device.has("tx_file")) {
    std::string error;
    plan.device.writer = CaptureWriter::create(info.device["tx_file"].string(), error);
    if (!error.empty()) return refuse(error);
  }
  return plan;
}

Plan plan_null(const PortInfo& info, std::uint32_t mtu, const PortEnvironment& environment) {
  // The driver sets the length without looking at the buffer's size.
  const std::int64_t bytes = info.device["frame_bytes"].integer();
  if (bytes > buffer_bytes(environment.pool)) {
    return refuse(too_large_for_buffers("frame_bytes of " + std::to_string(bytes), environment.pool));
  }
  Plan plan;
  plan.mtu_bytes = mtu != 0 ? mtu : kDefaultMtu;
  plan.device.takes_chains = true;  // it frees them
  plan.device.tx_per_worker = true;
  plan.device.devargs = unique_name("null") + ",size=" + std::to_string(bytes) +
                        ",copy=0,no-rx=" + (info.device["rx"].boolean() ? "0" : "1");
  if (!info.device["rx"].boolean()) plan.device.finite_packets = 0;
  return plan;
}

Plan plan_device(const PortInfo& info, std::uint32_t mtu, const PortEnvironment& environment) {
  if (info.type == "pci") return plan_pci(info, mtu);
  if (info.type == "veth") return plan_veth(info, mtu, environment);
  if (info.type == "tap") return plan_tap(info, mtu);
  if (info.type == "memif") return plan_memif(info, mtu);
  if (info.type == "vhost") return plan_vhost(info, mtu);
  if (info.type == "pcap") return plan_pcap(info, mtu, environment);
  if (info.type == "null") return plan_null(info, mtu, environment);
  return refuse("port type " + info.type + " has no device");
}

// A tap exists only once its device is open.
std::string prepare_tap(const std::string& interface, std::uint32_t mtu) {
  const Netdev netdev(interface);
  if (auto error = netdev.set_mtu(mtu); !error.empty()) return error;
  if (auto error = netdev.disable_offloads(); !error.empty()) return error;
  return netdev.set_up();
}

}  // namespace

OpenedPort open_port(const PortInfo& info, const PortEnvironment& environment) {
  OpenedPort opened;
  if (info.type == "generator") {
    opened.port = GeneratorPort::open(info, environment, opened.error);
    return opened;
  }
  const Plan plan = plan_device(info, info.mtu_bytes, environment);
  if (!plan.error.empty()) {
    if (plan.device.restore) plan.device.restore();
    return {nullptr, plan.error};
  }
  opened.port = EthPort::open(info, plan.mtu_bytes, plan.device, environment, opened.error);
  if (opened.port && info.type == "tap") opened.error = prepare_tap(info.device["interface"].string(), plan.mtu_bytes);
  return opened;
}

}  // namespace weft::ports
