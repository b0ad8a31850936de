// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the impair stage is told: which packets, and what to do to them. Plain data, no DPDK.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "switch/base/time.h"
#include "switch/stages/impair/gilbert_elliott.h"
#include "switch/wire/addresses.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// What rules look at.
struct ImpairFields {
  const wire::Parsed& parsed;
  const std::uint8_t* frame;  ///< headers, contiguous as far as `parsed` says
  std::uint32_t frame_bytes;  ///< whole frame without FCS
  std::uint16_t in_port;      ///< PortIndex
  std::uint16_t out_port;     ///< PortIndex, or pipeline::kNoPort while it is not known
};

/// Conditions of a rule; all of those given must hold. A condition on a header never holds for a packet without it.
class ImpairMatch {
 public:
  ImpairMatch& in_ports(std::vector<std::uint16_t> ports);
  ImpairMatch& out_ports(std::vector<std::uint16_t> ports);
  ImpairMatch& kind(wire::FrameKind kind);  ///< several: any of them
  ImpairMatch& source(const wire::IpPrefix& prefix);
  ImpairMatch& destination(const wire::IpPrefix& prefix);
  ImpairMatch& dest_qp(wire::Qpn qp);
  ImpairMatch& opcode(std::uint8_t raw);  ///< several: any of them
  /// PSNs from `first` to `last`, both included; the range may wrap around zero.
  ImpairMatch& psn(wire::Psn first, wire::Psn last);
  ImpairMatch& ecn(std::uint8_t v);   ///< 0-3; several: any of them
  ImpairMatch& dscp(std::uint8_t v);  ///< 0-63; several: any of them
  /// VID of the tag in the frame; an untagged frame has none, whatever the port's native VLAN.
  ImpairMatch& vlan(std::uint16_t vid);
  /// RC acknowledge packets (also NAK, RNR NAK, atomic acknowledge), or every other RoCE packet.
  ImpairMatch& ack(bool v);
  /// Meaning of the AETH, for packets that have one; several: any of them.
  ImpairMatch& aeth(wire::AethKind kind);

  [[nodiscard]] bool matches(const ImpairFields& f) const noexcept {
    if ((kinds_ >> static_cast<unsigned>(f.parsed.kind) & 1) == 0) return false;
    if (conditions_ == 0) return true;
    // Inline, because most rules with many packets to reject name a QP.
    if (has(kDestQp) && f.parsed.dest_qp != dest_qp_) return false;
    return conditions_hold(f);
  }

 private:
  enum Condition : std::uint16_t {
    kInPorts = 1,
    kOutPorts = 2,
    kSource = 4,
    kDestination = 8,
    kDestQp = 16,
    kOpcode = 32,
    kPsn = 64,
    kEcn = 128,
    kDscp = 256,
    kVlan = 512,
    kAck = 1024,
    kAeth = 2048,
  };
  static constexpr std::uint16_t kRoceConditions = kDestQp | kOpcode | kPsn | kAck | kAeth;
  static constexpr std::uint16_t kIpConditions = kSource | kDestination | kEcn | kDscp;

  [[nodiscard]] bool has(std::uint16_t c) const noexcept { return (conditions_ & c) != 0; }
  [[nodiscard]] bool conditions_hold(const ImpairFields& f) const noexcept;
  [[nodiscard]] bool roce_holds(const wire::Parsed& p) const noexcept;
  [[nodiscard]] bool ip_holds(const ImpairFields& f) const noexcept;

  std::uint16_t conditions_ = 0;
  std::uint16_t kinds_ = 0xffff;  ///< bit per FrameKind
  std::uint8_t ecns_ = 0;         ///< bit per value
  std::uint8_t aeths_ = 0;        ///< bit per AethKind
  bool ack_ = false;
  std::uint16_t vid_ = 0;
  wire::Qpn dest_qp_{};
  wire::Psn psn_first_{};
  std::uint32_t psn_count_ = 0;
  std::uint64_t dscps_ = 0;  ///< bit per value
  std::bitset<256> opcodes_{};
  wire::IpPrefix source_{}, destination_{};
  std::vector<std::uint16_t> in_ports_{}, out_ports_{};
};

/// Where a bit is flipped. Bits that the ICRC does not cover (TTL, TOS, checksums, BECN, ...) are never chosen in a
/// RoCE packet: a receiver has to notice.
enum class CorruptWhere : std::uint8_t {
  any,      ///< everything below, and pad bytes; without RoCE everything behind the Ethernet header
  header,   ///< IP header to the last RoCE header; without RoCE the IP header
  payload,  ///< RoCE payload; without RoCE everything behind the IP header
  icrc,     ///< the ICRC itself; RoCE only
};

/// One rule. Actions happen in the order of the members; a ratio of 0 and a rate of 0 mean "not this".
struct ImpairRule {
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  std::string name{};
  ImpairMatch match{};

  // Which of the matching packets; counted from 1, by each worker on its own.
  std::uint64_t after = 0;         ///< leaves the first ones alone
  std::uint64_t nth = 0;           ///< only the n-th behind `after`; 0: all
  std::uint64_t every = 1;         ///< every n-th behind `after`
  std::uint64_t limit = kNoLimit;  ///< stops after having done something to this many packets

  Ratio loss{};
  std::optional<GilbertElliott> burst_loss{};
  Ratio corrupt{};
  CorruptWhere corrupt_where = CorruptWhere::any;
  Ratio duplicate{};  ///< the copy goes through what follows, in this rule and the next ones
  std::uint64_t rate_mbps = 0;
  std::uint64_t burst_bytes = 0;
  std::uint64_t queue_bytes = 0;  ///< excess that may wait for the rate; 0: all excess is dropped
  TimeNs delay_ns = 0;
  TimeNs jitter_ns = 0;    ///< uniform in delay - jitter to delay + jitter; at most delay_ns
  bool keep_order = true;  ///< no packet of this rule overtakes another, except by `reorder`
  Ratio reorder{};
  TimeNs reorder_gap_ns = 0;  ///< how much later a reordered packet leaves: later packets overtake it
};

}  // namespace weft::stages
