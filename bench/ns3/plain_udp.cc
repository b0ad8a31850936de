// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Plain UDP over point-to-point links in ns-3: the traffic that ns-3 and weft-sim can both carry, so that their times
// and their speeds can be compared. Hosts behind leaves, one spine; host i sends to the host at the same place behind
// the next leaf, packet after packet at line rate; every queue is a FIFO that loses nothing.
//
// Prints one JSON object: per flow when its last packet arrived, the packet hops (receptions by switches), the events,
// and the time of the run alone, without building the network.
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace ns3;

struct Settings {
  std::uint32_t leaves = 4;
  std::uint32_t hosts_per_leaf = 4;
  std::uint32_t packets = 10'000;   ///< of each host
  std::uint32_t wire_bytes = 1500;  ///< of a packet on a link, everything included
  std::uint32_t link_gbps = 100;
  std::uint32_t delay_ns = 1000;
};

constexpr std::uint16_t kPort = 9;
// What point-to-point devices, IPv4 and UDP put around a payload.
constexpr std::uint32_t kHeaders = 2 + 20 + 8;

/// Counts what arrives, and sends its own packets at the pace of its link.
class Host : public Object {
 public:
  Host(Ptr<Node> node, const Settings& settings) : settings_(settings) {
    socket_ = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
    socket_->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    socket_->SetRecvCallback(MakeCallback(&Host::receive, this));
  }
  void send_to(Ipv4Address destination) {
    socket_->Connect(InetSocketAddress(destination, kPort));
    Simulator::ScheduleNow(&Host::send, this);
  }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::int64_t last_ns() const { return last_.GetNanoSeconds(); }

 private:
  void send() {
    socket_->Send(Create<Packet>(settings_.wire_bytes - kHeaders));
    if (++sent_ < settings_.packets) {
      Simulator::Schedule(PicoSeconds(std::uint64_t{settings_.wire_bytes} * 8000 / settings_.link_gbps), &Host::send,
                          this);
    }
  }
  void receive(Ptr<Socket> socket) {
    while (socket->Recv() != nullptr) ++received_;
    last_ = Simulator::Now();
  }

  Settings settings_;
  Ptr<Socket> socket_;
  std::uint32_t sent_ = 0;
  std::uint64_t received_ = 0;
  Time last_;
};

/// A leaf-spine network of routers with one spine and static routes.
class Network {
 public:
  explicit Network(const Settings& settings) : settings_(settings) {
    nodes_.Create(hosts() + settings.leaves + 1);
    InternetStackHelper().Install(nodes_);
    link_.SetDeviceAttribute("DataRate", DataRateValue(DataRate(std::uint64_t{settings.link_gbps} * 1'000'000'000)));
    link_.SetChannelAttribute("Delay", TimeValue(NanoSeconds(settings.delay_ns)));
    // No second queue: without a queue discipline packets wait in the device's FIFO.
    link_.DisableFlowControl();
    link_.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000000p"));
    const Ptr<Node> spine = nodes_.Get(hosts() + settings.leaves);
    for (std::uint32_t leaf = 0; leaf < settings.leaves; ++leaf) {
      const Ptr<Node> router = nodes_.Get(hosts() + leaf);
      for (std::uint32_t i = 0; i < settings.hosts_per_leaf; ++i) attach(leaf * settings.hosts_per_leaf + i, router);
      connect_leaf(leaf, router, spine);
    }
  }
  [[nodiscard]] std::uint32_t hosts() const { return settings_.leaves * settings_.hosts_per_leaf; }
  [[nodiscard]] Ptr<Node> host(std::uint32_t i) const { return nodes_.Get(i); }
  /// 10.LEAF.I.1, with its leaf's end of the link at .2.
  [[nodiscard]] Ipv4Address address(std::uint32_t i) const {
    return Ipv4Address(10u << 24 | (i / settings_.hosts_per_leaf) << 16 | (i % settings_.hosts_per_leaf) << 8 | 1);
  }

 private:
  static Ptr<Ipv4StaticRouting> routes(Ptr<Node> node) {
    return Ipv4StaticRoutingHelper().GetStaticRouting(node->GetObject<Ipv4>());
  }
  Ipv4InterfaceContainer connect(Ptr<Node> a, Ptr<Node> b, Ipv4Address network) {
    Ipv4AddressHelper addresses(network, "255.255.255.0");
    return addresses.Assign(link_.Install(a, b));
  }
  void attach(std::uint32_t i, Ptr<Node> leaf) {
    const auto ends = connect(host(i), leaf, Ipv4Address(address(i).Get() & 0xffffff00));
    routes(host(i))->SetDefaultRoute(ends.GetAddress(1), ends.Get(0).second);
  }
  void connect_leaf(std::uint32_t leaf, Ptr<Node> router, Ptr<Node> spine) {
    const auto ends = connect(router, spine, Ipv4Address(11u << 24 | leaf << 8));
    routes(router)->SetDefaultRoute(ends.GetAddress(1), ends.Get(0).second);
    routes(spine)->AddNetworkRouteTo(Ipv4Address(10u << 24 | leaf << 16), "255.255.0.0", ends.GetAddress(0),
                                     ends.Get(1).second);
  }

  Settings settings_;
  NodeContainer nodes_;
  PointToPointHelper link_;
};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

int run(int argc, char** argv) {
  Settings settings;
  CommandLine options(__FILE__);
  options.AddValue("leaves", "leaves", settings.leaves);
  options.AddValue("hosts-per-leaf", "hosts behind each leaf", settings.hosts_per_leaf);
  options.AddValue("packets", "packets of each host", settings.packets);
  options.AddValue("wire-bytes", "bytes of a packet on a link", settings.wire_bytes);
  options.AddValue("link-gbps", "rate of all links", settings.link_gbps);
  options.AddValue("delay-ns", "propagation delay of all links", settings.delay_ns);
  options.Parse(argc, argv);
  if (settings.leaves < 2 || settings.wire_bytes <= kHeaders) {
    std::fprintf(stderr, "at least two leaves, and packets of more than %u bytes\n", kHeaders);
    return 2;
  }
  Time::SetResolution(Time::PS);
  const Network network(settings);
  std::vector<Ptr<Host>> hosts;
  for (std::uint32_t i = 0; i < network.hosts(); ++i) hosts.push_back(Create<Host>(network.host(i), settings));
  for (std::uint32_t i = 0; i < network.hosts(); ++i) {
    hosts[i]->send_to(network.address((i + settings.hosts_per_leaf) % network.hosts()));
  }
  const auto started = std::chrono::steady_clock::now();
  const double cpu_before = cpu_seconds();
  Simulator::Run();
  const double cpu = cpu_seconds() - cpu_before;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
  std::uint64_t received = 0;
  std::string last;
  for (const auto& host : hosts) {
    received += host->received();
    last += (last.empty() ? "" : ", ") + std::to_string(host->last_ns());
  }
  // A leaf, the spine and another leaf receive each packet.
  constexpr std::uint64_t kHops = 3;
  std::printf(
      "{\"received\": %llu, \"packet_hops\": %llu, \"events\": %llu, \"wall_s\": %.6f, \"cpu_s\": %.6f, \"last_ns\": "
      "[%s]}\n",
      static_cast<unsigned long long>(received), static_cast<unsigned long long>(received * kHops),
      static_cast<unsigned long long>(Simulator::GetEventCount()), wall.count(), cpu, last.c_str());
  Simulator::Destroy();
  return received == std::uint64_t{network.hosts()} * settings.packets ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
