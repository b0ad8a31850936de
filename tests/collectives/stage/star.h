// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Four ranks around one production pipeline with the inc stage: the ranks are the software RNIC's requester and
// responder, and every packet between them and the switch is a frame.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/stage/stage.h"
#include "nic/rnic/frame.h"
#include "switch/wire/builder.h"
#include "switch/wire/neighbour.h"
#include "switch/wire/parse.h"
#include "tests/collectives/engine/network.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"

namespace weft::inc::testing {

using weft::testing::Harness;

/// How the switch forwards.
enum class Forwarding : std::uint8_t { bridged, bridged_v6, routed_v4, routed_v6 };
inline bool is_bridged(Forwarding f) {
  return f == Forwarding::bridged || f == Forwarding::bridged_v6;
}

inline std::string port_name(std::size_t r) {
  return "h" + std::to_string(r);
}
inline wire::MacAddress host_mac(std::size_t r) {
  return wire::MacAddress::from_u64(0x02aa00000001 + r);
}
inline std::string host_address(Forwarding f, std::size_t r) {
  if (f == Forwarding::bridged) return "10.0.0." + std::to_string(r + 1);
  if (f == Forwarding::bridged_v6) return "2001:db8::" + std::to_string(r + 1);
  return f == Forwarding::routed_v4 ? "10.0." + std::to_string(r) + ".2" : "2001:db8:" + std::to_string(r) + "::2";
}
/// The switch's end towards a rank.
inline std::string switch_address(Forwarding f, std::size_t r) {
  if (f == Forwarding::bridged) return "10.0.0.254";
  if (f == Forwarding::bridged_v6) return "2001:db8::fe";
  return f == Forwarding::routed_v4 ? "10.0." + std::to_string(r) + ".1" : "2001:db8:" + std::to_string(r) + "::1";
}

/// Of the memory of every rank.
inline const std::uint32_t kRkey = Rank(0, star(2), nic::QpConfig{}, {}, Verb::send).key();

/// An item of `groups`; ranks have QP 17 and the switch has 100 + rank.
inline std::string group_yaml(Forwarding f, std::uint32_t id = kGroupId, const std::string& more = "") {
  std::string yaml = "{ id: " + std::to_string(id) +
                     ", ranks: 4, mtu: 256, message_packets: 1, window: 2, rnr_timer: 1" +
                     (more.empty() ? "" : ", " + more) + ", endpoints: [";
  const bool sends_alone = more.starts_with("mode: i,");
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const EndpointConfig e = star(2).endpoints[r % 2];
    yaml += "{ address: \"" + switch_address(f, r) + "\", qp: " + std::to_string(100 + r) + ", peer: \"" +
            host_address(f, r) + "\", peer_qp: 17, rank: " + std::to_string(r) +
            ", first_rx: " + std::to_string(e.first_rx.value()) + ", first_tx: " + std::to_string(e.first_tx.value()) +
            (sends_alone ? ""
                         : ", vaddr: " + std::to_string(Rank::results(static_cast<std::uint16_t>(r))) +
                               ", rkey: " + std::to_string(kRkey)) +
            " }, ";
  }
  return yaml + "] }";
}

inline std::string switch_yaml(Forwarding f, const std::string& options) {
  std::string yaml = "name: tor\nports:\n";
  for (std::size_t r = 0; r < kRanks; ++r) yaml += "  - { name: " + port_name(r) + ", type: \"null\" }\n";
  if (!is_bridged(f)) {
    yaml += "addresses:\n";
    for (std::size_t r = 0; r < kRanks; ++r) {
      yaml += "  - { port: " + port_name(r) + ", address: \"" + switch_address(f, r) +
              (f == Forwarding::routed_v4 ? "/24" : "/64") + "\" }\n";
    }
    yaml += "neighbours:\n";
    for (std::size_t r = 0; r < kRanks; ++r) {
      yaml += "  - { port: " + port_name(r) + ", address: \"" + host_address(f, r) + "\", mac: \"" +
              host_mac(r).to_string() + "\" }\n";
    }
  }
  return yaml + "pipeline:\n  - parse\n  - inc: " + options + "\n  - " + (is_bridged(f) ? "l2" : "l3") + "\n";
}

class Star {
 public:
  Star(Forwarding f, const std::string& options, const std::vector<Collective>& program, Verb verb = Verb::send)
      : Star(f, program, verb, switch_yaml(f, options)) {}
  /// @param yaml  of the whole switch
  Star(Forwarding f, const std::vector<Collective>& program, Verb verb, const std::string& yaml)
      : h(weft::testing::all_stages(), yaml), forwarding(f) {
    GroupConfig g = star(2);
    g.window = 2;
    nic::QpConfig config;
    config.path_mtu = kMtu;
    config.rto_ns = nic::kMs;
    config.retry_count = 7;
    for (std::uint16_t r = 0; r < kRanks; ++r) {
      ranks.push_back(std::make_unique<Rank>(r, g, config, program, verb));
      nic::Path path;
      path.source_mac = host_mac(r);
      path.destination_mac = h.port(port_name(r)).mac;
      path.source = *wire::IpAddress::parse(host_address(f, r));
      path.destination = *wire::IpAddress::parse(switch_address(f, r));
      heads[r].set(path);
      ways[r][port_name(r)] = 0;
    }
  }

  /// How it ended; see Network::run().
  std::string run(std::uint64_t most_steps = 100'000) {
    for (std::uint64_t step = 0; step < most_steps; ++step) {
      bool moved = false, done = true, failed = false;
      for (std::size_t r = 0; r < kRanks; ++r) moved |= pump(r);
      for (std::size_t r = 0; r < kRanks; ++r) moved |= receive(r);
      for (auto& r : ranks) {
        r->work();
        done &= r->done();
        failed |= r->failed();
      }
      if (::testing::Test::HasFatalFailure()) return "wrong";
      if (failed) return "failed";
      if (done) return "done";
      if (!moved && !pass_time()) return "stuck";
    }
    return "endless";
  }

  Bytes frame(std::size_t r, const nic::Packet& p, std::uint8_t tos = 2) {
    std::uint8_t head[nic::kMaxHeadBytes];
    const auto f = nic::make_frame(heads[r], tos, p, wire::Qpn(static_cast<std::uint32_t>(100 + r)), head);
    Bytes out(f.bytes());
    nic::copy_frame(f, out);
    return out;
  }

  Harness h;
  Forwarding forwarding;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::array<nic::HeaderTemplate, kRanks> heads;
  /// Of a frame to the switch, or from it: lost when true.
  std::function<bool(const Bytes&)> lose{};
  std::function<void(Bytes&)> spoil{};
  /// Takes frames to a host that are not for its rank.
  std::function<bool(std::size_t, const Bytes&, const wire::Parsed&)> aside{};
  /// Ports at which a host gets packets, and how many.
  std::array<std::map<std::string, std::uint64_t>, kRanks> ways;
  std::uint64_t received = 0, answers = 0, cnps = 0;

 private:
  bool pump(std::size_t r) {
    Rank& rank = *ranks[r];
    rank.work();
    nic::Packet p;
    bool any = false;
    const auto up = [&] {
      Bytes bytes = frame(r, p);
      any = true;
      if (lose && lose(bytes)) return;
      if (spoil) spoil(bytes);
      h.inject(port_name(r), bytes);
    };
    while (rank.responder().can_transmit() && rank.responder().transmit(p, rank.receive_cq())) up();
    while (rank.requester().can_transmit() && rank.requester().transmit(nic::Time(h.now()), p, rank.send_cq())) up();
    return any;
  }

  bool receive(std::size_t r) {
    bool any = false;
    for (auto& [port, count] : ways[r]) {
      const std::uint64_t before = received;
      any |= receive(r, port);
      count += received - before;
    }
    return any;
  }
  bool receive(std::size_t r, const std::string& port) {
    bool any = false;
    for (const auto& sent : h.take(port)) {
      any = true;
      wire::Parsed parsed;
      const auto bytes = static_cast<std::uint32_t>(sent.bytes.size());
      wire::parse_frame(sent.bytes.data(), bytes, bytes, parsed);
      if (parsed.kind == wire::FrameKind::arp) {
        answer_arp(r, sent.bytes);
        continue;
      }
      if (wire::is_neighbour_message(sent.bytes.data(), parsed)) {
        answer_solicitation(r, *wire::read_neighbour(sent.bytes.data(), bytes, parsed));
        continue;
      }
      if (aside && aside(r, sent.bytes, parsed)) continue;
      ++received;
      EXPECT_EQ(parsed.kind, wire::FrameKind::roce);
      EXPECT_TRUE(wire::icrc_ok(sent.bytes.data(), parsed));
      EXPECT_EQ(parsed.dest_qp, wire::Qpn(17));
      const auto& eth = wire::header_at<wire::EthernetHeader>(sent.bytes.data());
      EXPECT_EQ(eth.destination, host_mac(r));
      EXPECT_EQ(eth.source, h.port(port).mac);
      if (lose && lose(sent.bytes)) continue;
      nic::Packet p;
      nic::decode(sent.bytes.data(), bytes, parsed, p);
      Rank& rank = *ranks[r];
      if (p.opcode == wire::Opcode::CNP) {
        ++cnps;
      } else if (p.info().is_request()) {
        rank.responder().on_request(nic::Time(h.now()), p, rank.receive_cq());
      } else {
        static_cast<void>(rank.requester().on_response(nic::Time(h.now()), p, rank.send_cq()));
      }
    }
    return any;
  }

  void answer_arp(std::size_t r, const Bytes& request) {
    const auto& arp = wire::header_at<wire::ArpHeader>(request.data() + sizeof(wire::EthernetHeader));
    const auto own = *wire::IpAddress::parse(host_address(forwarding, r));
    if (arp.operation.value() != wire::ArpOperation::request || arp.target_ip.value() != own.v4_value()) return;
    ++answers;
    h.inject(port_name(r), wire::FrameBuilder()
                               .eth(host_mac(r), arp.sender_mac)
                               .arp(wire::ArpOperation::reply, host_mac(r), own, arp.sender_mac,
                                    wire::IpAddress::v4(arp.sender_ip.value()))
                               .pad_to_minimum()
                               .build());
  }

  void answer_solicitation(std::size_t r, const wire::ReceivedNeighbour& asked) {
    const auto own = *wire::IpAddress::parse(host_address(forwarding, r));
    EXPECT_EQ(asked.type, wire::Icmpv6Type::neighbour_solicitation);
    EXPECT_EQ(asked.mac, h.port(port_name(r)).mac);
    if (asked.target != own) return;
    ++answers;
    Bytes frame(wire::kNeighbourBytes);
    wire::write_neighbour_advertisement(frame, {host_mac(r), *asked.mac}, own, asked.source,
                                        wire::NeighbourMessage::kSolicited | wire::NeighbourMessage::kOverride);
    h.inject(port_name(r), frame);
  }

  std::uint32_t quiet = 0;  ///< times in a row that no rank waited for an answer
  bool pass_time() {
    nic::Time next = nic::kNever;
    for (auto& r : ranks) next = std::min(next, r->requester().next_deadline());
    // The ranks may wait for what the switch alone will send again.
    if (next == nic::kNever) {
      if (++quiet == 1000) return false;
      h.advance_ns(100'000);
      return true;
    }
    quiet = 0;
    if (next > nic::Time(h.now())) h.advance_ns(static_cast<TimeNs>(next) - h.now());
    for (auto& r : ranks) {
      if (r->requester().next_deadline() <= nic::Time(h.now())) {
        r->requester().on_timer(nic::Time(h.now()), r->send_cq());
      }
    }
    return true;
  }
};

}  // namespace weft::inc::testing
