// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A switch as its configuration describes it, without devices: what stages are built from.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/packet.h"
#include "switch/pipeline/wire_framing.h"
#include "switch/qos/settings.h"
#include "switch/wire/addresses.h"

namespace weft::pipeline {

inline constexpr std::uint16_t kMaxVid = 4094;

/// How stages that rewrite a RoCE packet keep its ICRC right.
enum class IcrcUpdate : std::uint8_t {
  incremental,  ///< from the bytes that changed
  full,         ///< over the whole packet again
};

/// 802.1Q membership of a port. An access port is a member of `native` only and sends untagged; a trunk carries
/// `tagged`, and untagged frames belong to `native` when it is set.
struct PortVlans {
  std::optional<std::uint16_t> native{1};
  std::bitset<4096> tagged{};
};

/// Largest frame without FCS: MTU, Ethernet header, and room for one 802.1Q tag.
[[nodiscard]] constexpr std::uint32_t max_frame_bytes(std::uint32_t mtu_bytes) noexcept {
  return mtu_bytes + 18;
}

/// One port. What device is behind it is in `device`, read by switch/ports only.
struct PortInfo {
  std::string name;
  PortIndex index = 0;
  std::string type;                ///< pci, veth, tap, memif, vhost, pcap, null, link
  config::Value device;            ///< map of the keys that only this type has, validated, defaults filled in
  wire::MacAddress mac{};          ///< own address; set by the host of the pipeline before stages are built
  std::uint32_t mtu_bytes = 1500;  ///< largest IP packet, as `ip link` counts it; 0 from the loader: the device's own
  std::uint64_t rate_mbps = 0;     ///< emulated egress rate, Mbit/s; 0: as fast as the device
  std::uint64_t delay_ns = 0;      ///< emulated propagation delay of the link out of this port
  WireFraming framing{};           ///< what a frame takes of the emulated rate
  std::uint32_t queue_packets = 1024;     ///< capacity of the egress queue
  std::optional<std::uint16_t> worker{};  ///< which of the process's workers owns it; nullopt: they take turns
  PortVlans vlans{};
  config::Mark mark{};

  /// Largest frame; see the function.
  [[nodiscard]] std::uint32_t max_frame_bytes() const noexcept { return pipeline::max_frame_bytes(mtu_bytes); }
};

/// An address of the switch itself on a port (routed port).
struct InterfaceAddress {
  PortIndex port = 0;
  wire::IpPrefix prefix{};  ///< address with its host bits, and the length of the connected subnet
  config::Mark mark{};
};

/// A static route. `via` empty and not blackhole is an error that the loader reports.
struct RouteInfo {
  wire::IpPrefix prefix{};
  struct Hop {
    wire::IpAddress address{};
    std::optional<PortIndex> port{};  ///< default: the port whose connected subnet holds the address
  };
  std::vector<Hop> via{};
  bool blackhole = false;
  config::Mark mark{};
};

/// A static neighbour (ARP or ND) entry.
struct NeighbourInfo {
  PortIndex port = 0;
  wire::IpAddress address{};
  wire::MacAddress mac{};
  config::Mark mark{};
};

/// A static forwarding entry of the L2 stage.
struct StaticMac {
  wire::MacAddress mac{};
  std::uint16_t vid = 1;
  PortIndex port = 0;
  config::Mark mark{};
};

/// That the kernel is the control plane of the switch: every port has a network interface there, and routes, addresses
/// and neighbours are the kernel's.
struct KernelInfo {
  std::string network_namespace{};       ///< name as in `ip netns`; "": the one that the process runs in
  std::string interface_prefix{};        ///< an interface's name is this and the name of its port
  std::uint32_t packets_per_s = 10'000;  ///< to the kernel, from each port
  config::Mark mark{};
};

/// A change to a port while the switch runs: what is set changes, the rest stays.
struct PortChange {
  std::optional<bool> link_up{};
  std::optional<std::uint64_t> rate_mbps{};  ///< as PortInfo::rate_mbps
  std::optional<std::uint64_t> delay_ns{};   ///< as PortInfo::delay_ns
};

/// A change at a time of its own, for experiments.
struct FaultInfo {
  std::uint64_t at_ns = 0;  ///< after the start of the process
  PortIndex port = 0;
  PortChange change{};
  config::Mark mark{};
};

/// One stage of the pipeline with its validated options.
struct StageSpec {
  std::string name;
  config::Value options;
  config::Mark mark{};
};

struct SwitchInfo {
  std::string name;
  std::uint8_t index = 0;
  std::uint64_t seed = 1;  ///< of the random source and of the ECMP hash
  IcrcUpdate icrc = IcrcUpdate::incremental;
  std::vector<PortInfo> ports;
  std::vector<std::uint16_t> vlans;  ///< VIDs that exist, ascending; at least one
  std::vector<InterfaceAddress> addresses;
  std::vector<RouteInfo> routes;
  std::vector<NeighbourInfo> neighbours;
  std::vector<StaticMac> static_macs;
  std::vector<FaultInfo> faults;  ///< by time
  std::vector<StageSpec> pipeline;
  std::optional<KernelInfo> kernel{};
  std::optional<qos::Settings> qos{};  ///< class queues and a shared buffer; otherwise every port has one FIFO
  config::Mark mark{};
};

}  // namespace weft::pipeline
