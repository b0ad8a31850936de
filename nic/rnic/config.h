// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Words and numbers that all units of the RNIC share: time, the settings of a queue pair, and the names under which
// they are set.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "switch/wire/ib.h"

namespace weft::nic {

/// Nanoseconds of the clock that the caller counts by. Units never ask for it.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Time kUs = 1'000;
inline constexpr Time kMs = 1'000'000;

/// How a queue pair repairs loss.
enum class LossRecovery : std::uint8_t {
  gbn,     ///< go back n (IBTA 9.7.5.1.1): the responder drops what is out of order, the requester starts over
  nic_sr,  ///< selective repeat as commodity RNICs do: a bitmap, one NACK per expected PSN, which resends that PSN
           ///< alone
  irn,     ///< IRN (SIGCOMM 2018): NACKs name the PSN that caused them, the requester resends what is missing below it
  ideal,   ///< the yardstick for reordering: any order within the window is taken, a gap is never reported, and a loss
           ///< is left to the timeout
};

/// When nic_sr asks for the next hole, once the hole at the expected PSN is filled.
enum class Renack : std::uint8_t {
  lazy,   ///< at the next arrival with a larger PSN
  eager,  ///< at once
};

/// What sets the rate of a queue pair.
enum class CongestionControl : std::uint8_t {
  none,
  dcqcn,   ///< by CNPs (Zhu et al., SIGCOMM 2015)
  timely,  ///< by how round trips grow (Mittal et al., SIGCOMM 2015)
  swift,   ///< as Swift (Kumar et al., SIGCOMM 2020): by round trips against a target
  hpcc,    ///< by what switches say of their ports (Li et al., SIGCOMM 2019); both ends have it, over IPv4
};

/// How long the requester waits for an acknowledgement.
enum class RtoMode : std::uint8_t {
  fixed,     ///< rto_ns
  adaptive,  ///< rto_low_ns, or what round trips take if that is longer (RFC 6298); doubled by each expiry up to
             ///< rto_ns, until a packet that was sent once is acknowledged; only expiries of the full rto_ns count
  irn,       ///< rto_low_ns with at most three packets in flight, rto_high_ns with more
  doubled,   ///< rto_ns, doubled by each expiry in a row: all retries take rto_ns * (2^(retry_count + 1) - 1)
};

[[nodiscard]] std::string_view name(LossRecovery v) noexcept;
[[nodiscard]] std::string_view name(Renack v) noexcept;
[[nodiscard]] std::string_view name(CongestionControl v) noexcept;
[[nodiscard]] std::string_view name(RtoMode v) noexcept;
[[nodiscard]] std::optional<LossRecovery> loss_recovery_from_name(std::string_view text) noexcept;
[[nodiscard]] std::optional<Renack> renack_from_name(std::string_view text) noexcept;
[[nodiscard]] std::optional<CongestionControl> congestion_control_from_name(std::string_view text) noexcept;
[[nodiscard]] std::optional<RtoMode> rto_mode_from_name(std::string_view text) noexcept;

/// Path MTUs of IBTA: 256, 512, 1024, 2048, 4096 bytes.
[[nodiscard]] constexpr bool is_path_mtu(std::uint32_t bytes) noexcept {
  return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0;
}
/// The units take any payload size up to this: a simulator may ask what others than the five would do. A connection on
/// a wire has one of the five.
inline constexpr std::uint32_t kMaxPathMtu = 8192;
/// The code of CM messages and verbs: 1 is 256 bytes, 5 is 4096.
[[nodiscard]] constexpr std::uint8_t path_mtu_code(std::uint32_t bytes) noexcept {
  std::uint8_t code = 1;
  for (std::uint32_t m = 256; m < bytes; m <<= 1) ++code;
  return code;
}
/// Bytes of a code; nullopt for codes that mean nothing.
[[nodiscard]] constexpr std::optional<std::uint32_t> path_mtu_bytes(std::uint8_t code) noexcept {
  if (code < 1 || code > 5) return std::nullopt;
  return 128u << code;
}
/// The largest path MTU whose packets fit an interface of this MTU, which counts IP and what is in it; 0 if none does.
/// @param option_bytes  of the IP header
[[nodiscard]] constexpr std::uint32_t path_mtu_for(std::uint32_t interface_mtu, bool ipv6,
                                                   std::uint32_t option_bytes = 0) noexcept {
  // IP, UDP, BTH, the largest other headers (AtomicETH has no payload, so RETH and ImmDt), ICRC.
  const std::uint32_t overhead = (ipv6 ? 40 : 20) + option_bytes + 8 + 12 + 16 + 4 + 4;
  std::uint32_t best = 0;
  for (std::uint32_t m = 256; m <= 4096 && m + overhead <= interface_mtu; m <<= 1) best = m;
  return best;
}

/// Longest message (IBTA 9.7.2).
inline constexpr std::uint32_t kMaxMessageBytes = 0x80000000u;
/// Scatter/gather elements of a work request.
inline constexpr std::size_t kMaxSge = 4;
/// Out-of-order packets that a queue pair can keep; a power of two. So many of 1,000 bytes are what 100 Gbit/s carry in
/// a round trip of 20 ms. A queue pair takes memory for what it keeps (ReorderBuffer), and with irn 32 KiB of bitmap at
/// the requester.
inline constexpr std::uint32_t kMaxReorderWindow = 262'144;

/// Constants of the reaction point of QCN (IEEE 802.1Qau), in the terms of its managed objects. The standard's values
/// are for 10 Gbit/s: what is 0 here follows the line, rates in proportion and the time in inverse proportion.
struct QcnParameters {
  bool enabled = false;
  Time timer_ns = 0;               ///< rpgTimeReset; 0: 15 ms at 10 Gbit/s
  std::uint64_t bytes = 150'000;   ///< rpgByteReset, at least 1
  std::uint64_t additive_bps = 0;  ///< rpgAiRate; 0: 5 Mbit/s at 10 Gbit/s
  std::uint64_t hyper_bps = 0;     ///< rpgHaiRate; 0: 50 Mbit/s at 10 Gbit/s
  std::uint64_t min_bps = 0;       ///< rpgMinRate; 0: 5 Mbit/s at 10 Gbit/s

  friend bool operator==(const QcnParameters&, const QcnParameters&) = default;
};

/// Constants of DCQCN (SIGCOMM 2015), in the terms of its paper. Rates of 0 in `line_bps` mean: no limit and no pacing.
struct DcqcnParameters {
  Time alpha_interval_ns = 1'000;       ///< T_alpha: how often alpha decays
  Time decrease_interval_ns = 4'000;    ///< T_D: at most one cut in so long
  Time increase_interval_ns = 900'000;  ///< T_I: the timer of rate increase
  std::uint64_t increase_bytes = 0;     ///< B: the byte counter of rate increase; 0: none
  double g = 1.0 / 256;
  double initial_alpha = 1.0;
  std::uint32_t fast_recovery_steps = 1;    ///< F
  std::uint64_t additive_bps = 50'000'000;  ///< R_AI
  std::uint64_t hyper_bps = 100'000'000;    ///< R_HAI
  std::uint64_t min_bps = 100'000'000;      ///< the rate never falls below
  double rate_on_first_cnp = 1.0;           ///< factor by the first CNP; 1: the cut waits for T_D
  bool clamp_target = false;                ///< every cut lowers the target too, also before the first increase
  Time cnp_interval_ns = 0;                 ///< NP: least time between two CNPs of a queue pair; 0: one per mark
  /// As Annulus (SIGCOMM 2020): CNPs of switches near by that say how congested they are (stage pnp, trigger qcn) set a
  /// rate of their own, by QCN, and the lower one counts. DCQCN does not hear of these CNPs.
  QcnParameters near_qcn{};

  friend bool operator==(const DcqcnParameters&, const DcqcnParameters&) = default;
};

/// The parameter set of this name, for a line of so many bits per second: `hpcc_mix`, `hpcc_run`, `conweave`,
/// `dcqcn_paper`, `longhaul`, `connectx`.
[[nodiscard]] std::optional<DcqcnParameters> dcqcn_parameters(std::string_view name, std::uint64_t line_bps) noexcept;
inline constexpr std::array<std::string_view, 6> kDcqcnSets{"hpcc_mix",    "hpcc_run", "conweave",
                                                            "dcqcn_paper", "longhaul", "connectx"};

/// Constants of TIMELY (SIGCOMM 2015), in the terms of its paper and with its values. The paper has no least rate; that
/// here is the one of HPCC's simulator.
struct TimelyParameters {
  Time t_low_ns = 50'000;                ///< T_low: the rate grows as long as round trips are shorter
  Time t_high_ns = 500'000;              ///< T_high: the rate falls while they are longer; at least T_low
  Time min_rtt_ns = 20'000;              ///< minRTT: what differences of round trips are divided by
  double ewma = 0.875;                   ///< alpha: weight of the newest difference
  double beta = 0.8;                     ///< of the decrease
  std::uint64_t delta_bps = 10'000'000;  ///< delta: the additive step
  std::uint32_t hai_events = 5;          ///< so many samples without growth in a row begin hyperactive increase
  std::uint32_t hai_factor = 5;          ///< N: the steps that each sample then gives
  std::uint64_t min_bps = 100'000'000;   ///< the rate never falls below
  /// T_low and T_high count from the shortest round trip that the queue pair has seen, and differences are divided by
  /// that where it is longer than minRTT. Not the paper's: between data centres no threshold fits otherwise.
  bool above_base = false;
  /// Round trips to a switch on the way (stage pnp, rtt_echo) set a rate of their own, by the paper's thresholds, and
  /// the lower one counts.
  bool near_echo = false;

  friend bool operator==(const TimelyParameters&, const TimelyParameters&) = default;
};

/// Constants of Swift (SIGCOMM 2020), in the terms of its paper. The values are those of the public simulator
/// csg-htsim, which calls them guesses; the paper publishes none of its own.
struct SwiftParameters {
  Time base_target_ns = 20'000;   ///< target of a round trip, without the part for many flows; all hops included
  double ai = 1.0;                ///< packets that the window grows by in a round trip
  double beta = 0.8;              ///< of the decrease
  double max_mdf = 0.5;           ///< the largest decrease in a round trip, as a part of the window
  Time fs_range_ns = 100'000;     ///< the most that small windows add to the target; 0: nothing
  double fs_min_cwnd = 0.1;       ///< packets: windows up to this add all of fs_range
  double fs_max_cwnd = 100;       ///< packets: windows from this on add nothing; more than fs_min_cwnd
  double min_cwnd = 0.01;         ///< packets: the window never falls below
  std::uint32_t reset_after = 5;  ///< timeouts in a row that bring the window down to min_cwnd
  /// The target of round trips to a switch on the way (stage pnp, rtt_echo): they set a window of their own, and the
  /// lower rate counts. 0: nobody is asked. Not the paper's.
  Time near_target_ns = 0;

  friend bool operator==(const SwiftParameters&, const SwiftParameters&) = default;
};

/// Constants of HPCC (SIGCOMM 2019), in the terms of its paper. The step and the least rate are those of its simulator.
struct HpccParameters {
  double eta = 0.95;                        ///< the utilisation that it aims at
  std::uint32_t max_stage = 5;              ///< maxStage: additive increases in a row; 0: each step is multiplicative
  Time base_rtt_ns = 0;                     ///< T: a round trip without queues; 0: the shortest that is seen
  std::uint64_t additive_bps = 50'000'000;  ///< W_AI, as a rate
  std::uint64_t min_bps = 100'000'000;      ///< the rate never falls below
  /// T of the ports in front of a switch that sends their records back (stage pnp): they set a rate of their own, and
  /// the lower one counts. 0: such records are ignored.
  Time near_rtt_ns = 0;
  /// The rate alone bounds what is under way, as with HAS_WIN 0 in HPCC's simulator.
  bool windowless = false;

  friend bool operator==(const HpccParameters&, const HpccParameters&) = default;
};

/// Access rights of a memory region or of a queue pair, as verbs number them.
struct Access {
  static constexpr std::uint32_t local_write = 1;
  static constexpr std::uint32_t remote_write = 2;
  static constexpr std::uint32_t remote_read = 4;
  static constexpr std::uint32_t remote_atomic = 8;
  static constexpr std::uint32_t all = 15;
};

/// Everything that can be set per queue pair. Both ends must agree on path_mtu and loss_recovery.
struct QpConfig {
  std::uint32_t path_mtu = 1024;
  LossRecovery loss_recovery = LossRecovery::gbn;
  Renack renack = Renack::lazy;
  std::uint32_t reorder_window = 512;  ///< all but gbn: packets that fit the bitmap; a power of two

  RtoMode rto_mode = RtoMode::fixed;
  Time rto_ns = 67'108'864;  ///< local ACK timeout; 0: never (IBTA 9.7.6.1.3). Default: code 14
  Time rto_low_ns = 100'000;
  Time rto_high_ns = 320'000;
  std::uint8_t retry_count = 7;      ///< expiries and repeated NAKs without progress before the queue pair fails, 0-7
  std::uint8_t rnr_retry_count = 7;  ///< RNR NAKs in a row; 7: without end
  std::uint8_t min_rnr_timer = 12;   ///< code of the time that our RNR NAKs ask for; 12: 0.64 ms

  std::uint32_t max_inflight_packets = 256;  ///< unacknowledged request packets
  std::uint64_t max_inflight_bytes = 0;      ///< BDP-FC of IRN; 0: no limit
  std::uint32_t ack_interval = 16;           ///< requester: AckReq at least every so many packets
  std::uint32_t ack_every = 0;               ///< responder: ACK also after so many packets without AckReq; 0: never
  std::uint8_t max_rd_atomic = 16;           ///< READs and atomics that we have under way, 1-255
  std::uint8_t max_dest_rd_atomic = 16;      ///< those of the peer that we remember, 1-255
  bool end_to_end_credits = false;           ///< responder: ACKs say how many receive requests are posted
  std::uint32_t access = Access::all;        ///< what the peer may do at all

  CongestionControl congestion_control = CongestionControl::none;
  DcqcnParameters dcqcn{};
  TimelyParameters timely{};
  SwiftParameters swift{};
  HpccParameters hpcc{};
  bool nack_is_cnp = false;    ///< a NACK counts as a CNP
  std::uint64_t line_bps = 0;  ///< rate of the queue pair while nothing limits it; 0: no pacing
  /// How much of the time by which a data packet left late the next ones make up for, and so the longest burst: this
  /// times the rate. A host that sleeps wakes up late; without slack each such wake-up would cost rate.
  Time pacing_slack_ns = 0;

  std::uint8_t dscp = 0;                                ///< of requests and READ responses, which are ECT(0)
  std::optional<std::uint8_t> ack_dscp = std::nullopt;  ///< of ACKs and NAKs; default: dscp
  std::uint8_t cnp_dscp = 48;
  std::uint8_t ttl = 64;
  std::uint16_t udp_source_port = 0;  ///< 0: from the queue pair numbers

  std::uint32_t send_queue_depth = 128;
  std::uint32_t receive_queue_depth = 128;

  friend bool operator==(const QpConfig&, const QpConfig&) = default;
};

}  // namespace weft::nic
