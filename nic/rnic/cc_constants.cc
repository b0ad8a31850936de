// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/cc_constants.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace weft::nic {
namespace {

Time from_us(double us) noexcept {
  return static_cast<Time>(std::llround(us * 1000));
}
std::uint64_t from_mbps(double mbps) noexcept {
  return static_cast<std::uint64_t>(std::llround(mbps * 1e6));
}
std::uint64_t from_kb(double kb) noexcept {
  return static_cast<std::uint64_t>(std::llround(kb * 1000));
}

constexpr auto kDcqcn = CongestionControl::dcqcn;
constexpr auto kTimely = CongestionControl::timely;
constexpr auto kSwift = CongestionControl::swift;
constexpr auto kHpcc = CongestionControl::hpcc;
constexpr double kLongestUs = 1e6, kFastestMbps = 1e7;

constexpr std::array kConstants{
    CcConstant{kDcqcn, "t_i_us", 0.1, kLongestUs, false, "T_I: the timer of rate increase",
               [](QpConfig& c, double v) { c.dcqcn.increase_interval_ns = from_us(v); }},
    CcConstant{kDcqcn, "t_d_us", 0.1, kLongestUs, false, "T_D: least time between two cuts",
               [](QpConfig& c, double v) { c.dcqcn.decrease_interval_ns = from_us(v); }},
    CcConstant{kDcqcn, "t_alpha_us", 0.1, kLongestUs, false, "T_alpha: how often alpha decays",
               [](QpConfig& c, double v) { c.dcqcn.alpha_interval_ns = from_us(v); }},
    CcConstant{kDcqcn, "cnp_interval_us", 0, kLongestUs, false,
               "least time between two CNPs of a receiving queue pair; 0: one per mark",
               [](QpConfig& c, double v) { c.dcqcn.cnp_interval_ns = from_us(v); }},
    CcConstant{kDcqcn, "r_ai_mbps", 0.001, kFastestMbps, false, "R_AI: the step of additive increase",
               [](QpConfig& c, double v) { c.dcqcn.additive_bps = from_mbps(v); }},
    CcConstant{kDcqcn, "r_hai_mbps", 0.001, kFastestMbps, false, "R_HAI: the step of hyper increase",
               [](QpConfig& c, double v) { c.dcqcn.hyper_bps = from_mbps(v); }},
    CcConstant{kDcqcn, "min_mbps", 0.001, kFastestMbps, false, "the rate never falls below",
               [](QpConfig& c, double v) { c.dcqcn.min_bps = from_mbps(v); }},
    CcConstant{kDcqcn, "g", 0.0001, 1, false, "g: weight of the newest interval in alpha",
               [](QpConfig& c, double v) { c.dcqcn.g = v; }},
    CcConstant{kDcqcn, "near_qcn", 0, 1, true,
               "1: CNPs of switches near by that say how congested they are (pnp: trigger "
               "qcn) set a rate of their own; the lower one counts",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.enabled = v != 0; }},
    CcConstant{kDcqcn, "near_t_us", 0, kLongestUs, false,
               "rpgTimeReset of near_qcn; 0: 15 ms at 10 Gbit/s, in inverse proportion to the line",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.timer_ns = from_us(v); }},
    CcConstant{kDcqcn, "near_b_kb", 0.001, 1e6, false, "rpgByteReset of near_qcn, thousands of bytes",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.bytes = from_kb(v); }},
    CcConstant{kDcqcn, "near_r_ai_mbps", 0, kFastestMbps, false,
               "rpgAiRate of near_qcn; 0: 5 at 10 Gbit/s, in proportion to the line",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.additive_bps = from_mbps(v); }},
    CcConstant{kDcqcn, "near_r_hai_mbps", 0, kFastestMbps, false,
               "rpgHaiRate of near_qcn; 0: 50 at 10 Gbit/s, in proportion to the line",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.hyper_bps = from_mbps(v); }},
    CcConstant{kDcqcn, "near_min_mbps", 0, kFastestMbps, false,
               "rpgMinRate of near_qcn; 0: 5 at 10 Gbit/s, in proportion to the line",
               [](QpConfig& c, double v) { c.dcqcn.near_qcn.min_bps = from_mbps(v); }},
    CcConstant{kTimely, "t_low_us", 0, kLongestUs, false, "T_low: the rate grows while round trips are shorter",
               [](QpConfig& c, double v) { c.timely.t_low_ns = from_us(v); }},
    CcConstant{kTimely, "t_high_us", 0.1, kLongestUs, false, "T_high: the rate falls while round trips are longer",
               [](QpConfig& c, double v) { c.timely.t_high_ns = from_us(v); }},
    CcConstant{kTimely, "min_rtt_us", 0.1, kLongestUs, false, "minRTT: what differences of round trips are divided by",
               [](QpConfig& c, double v) { c.timely.min_rtt_ns = from_us(v); }},
    CcConstant{kTimely, "ewma", 0.001, 1, false, "alpha: weight of the newest difference",
               [](QpConfig& c, double v) { c.timely.ewma = v; }},
    CcConstant{kTimely, "beta", 0.001, 1, false, "beta: of the decrease",
               [](QpConfig& c, double v) { c.timely.beta = v; }},
    CcConstant{kTimely, "delta_mbps", 0.001, kFastestMbps, false, "delta: the additive step",
               [](QpConfig& c, double v) { c.timely.delta_bps = from_mbps(v); }},
    CcConstant{kTimely, "hai_events", 1, 1000, true, "samples without growth in a row before hyperactive increase",
               [](QpConfig& c, double v) { c.timely.hai_events = static_cast<std::uint32_t>(v); }},
    CcConstant{kTimely, "hai_factor", 1, 1000, true, "N: the steps that each sample then gives",
               [](QpConfig& c, double v) { c.timely.hai_factor = static_cast<std::uint32_t>(v); }},
    CcConstant{kTimely, "min_mbps", 0.001, kFastestMbps, false, "the rate never falls below",
               [](QpConfig& c, double v) { c.timely.min_bps = from_mbps(v); }},
    CcConstant{kTimely, "above_base", 0, 1, true,
               "1: T_low and T_high count from the shortest round trip that the queue pair has seen",
               [](QpConfig& c, double v) { c.timely.above_base = v != 0; }},
    CcConstant{kTimely, "near_echo", 0, 1, true,
               "1: round trips to a switch on the way (pnp: rtt_echo) set a rate of their own; the lower one counts",
               [](QpConfig& c, double v) { c.timely.near_echo = v != 0; }},
    CcConstant{kSwift, "base_target_us", 0.1, kLongestUs, false, "target of a round trip, hops included",
               [](QpConfig& c, double v) { c.swift.base_target_ns = from_us(v); }},
    CcConstant{kSwift, "ai", 0.001, 1000, false, "packets that the window grows by in a round trip",
               [](QpConfig& c, double v) { c.swift.ai = v; }},
    CcConstant{kSwift, "beta", 0.001, 1, false, "beta: of the decrease",
               [](QpConfig& c, double v) { c.swift.beta = v; }},
    CcConstant{kSwift, "max_mdf", 0.001, 0.999, false, "the largest decrease in a round trip",
               [](QpConfig& c, double v) { c.swift.max_mdf = v; }},
    CcConstant{kSwift, "fs_range_us", 0, kLongestUs, false, "the most that small windows add to the target",
               [](QpConfig& c, double v) { c.swift.fs_range_ns = from_us(v); }},
    CcConstant{kSwift, "fs_min_cwnd", 0.001, 1e6, false, "packets: windows up to this add all of fs_range_us",
               [](QpConfig& c, double v) { c.swift.fs_min_cwnd = v; }},
    CcConstant{kSwift, "fs_max_cwnd", 0.001, 1e6, false, "packets: windows from this on add nothing",
               [](QpConfig& c, double v) { c.swift.fs_max_cwnd = v; }},
    CcConstant{kSwift, "min_cwnd", 0.001, 1, false, "packets: the window never falls below",
               [](QpConfig& c, double v) { c.swift.min_cwnd = v; }},
    CcConstant{kSwift, "reset_after", 1, 1000, true, "timeouts in a row that bring the window down to min_cwnd",
               [](QpConfig& c, double v) { c.swift.reset_after = static_cast<std::uint32_t>(v); }},
    CcConstant{kSwift, "near_target_us", 0, kLongestUs, false,
               "target of round trips to a switch on the way (pnp: rtt_echo), which set a rate of their own; 0: none",
               [](QpConfig& c, double v) { c.swift.near_target_ns = from_us(v); }},
    CcConstant{kHpcc, "eta", 0.01, 1, false, "eta: the utilisation of the busiest port that the window aims at",
               [](QpConfig& c, double v) { c.hpcc.eta = v; }},
    CcConstant{kHpcc, "max_stage", 0, 1000, true, "maxStage: additive increases in a row before a multiplicative one",
               [](QpConfig& c, double v) { c.hpcc.max_stage = static_cast<std::uint32_t>(v); }},
    CcConstant{kHpcc, "base_rtt_us", 0, kLongestUs, false,
               "T: a round trip without queues; 0: the shortest that the queue pair has seen",
               [](QpConfig& c, double v) { c.hpcc.base_rtt_ns = from_us(v); }},
    CcConstant{kHpcc, "r_ai_mbps", 0.001, kFastestMbps, false, "W_AI, as a rate: the additive step of the window",
               [](QpConfig& c, double v) { c.hpcc.additive_bps = from_mbps(v); }},
    CcConstant{kHpcc, "min_mbps", 0.001, kFastestMbps, false, "the rate never falls below",
               [](QpConfig& c, double v) { c.hpcc.min_bps = from_mbps(v); }},
    CcConstant{kHpcc, "near_rtt_us", 0, kLongestUs, false,
               "T of ports whose records a switch on the way sends back (pnp); 0: such records are ignored",
               [](QpConfig& c, double v) { c.hpcc.near_rtt_ns = from_us(v); }},
    CcConstant{kHpcc, "windowless", 0, 1, true,
               "1: the rate alone bounds what is under way, as with HAS_WIN 0 in HPCC's simulator",
               [](QpConfig& c, double v) { c.hpcc.windowless = v != 0; }},
};

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string floor_mistake(const QpConfig& config, std::uint64_t min_bps) {
  if (config.line_bps == 0 || min_bps < config.line_bps) return {};
  return "min_mbps: expected less than the line's " + text_of(static_cast<double>(config.line_bps) / 1e6) +
         " Mbit/s, found " + text_of(static_cast<double>(min_bps) / 1e6) + ": the rate could not fall";
}

/// The kinds that have a constant of this name: "dcqcn, timely"; empty when none has.
std::string kinds_of(std::string_view constant) {
  std::string kinds;
  for (const CcConstant& c : kConstants) {
    if (c.name == constant) kinds += (kinds.empty() ? "" : ", ") + std::string(name(c.kind));
  }
  return kinds;
}

}  // namespace

std::span<const CcConstant> cc_constants() noexcept {
  return kConstants;
}

std::string set_cc_constant(QpConfig& config, std::string_view constant, double value) {
  const std::string begin = std::string(constant) + ": ";
  for (const CcConstant& c : kConstants) {
    if (c.kind != config.congestion_control || c.name != constant) continue;
    const bool fits = value >= c.low && value <= c.high && (!c.whole || value == std::floor(value));
    if (!fits) {
      return begin + "expected a " + (c.whole ? "whole " : "") + "number from " + text_of(c.low) + " to " +
             text_of(c.high) + ", found " + text_of(value);
    }
    c.set(config, value);
    return {};
  }
  const std::string kinds = kinds_of(constant);
  if (kinds.empty()) return begin + "no kind of congestion control has such a constant";
  return begin + "a constant of " + kinds + ", not of " + std::string(name(config.congestion_control));
}

std::string cc_mistake(const QpConfig& config) {
  if (config.congestion_control == CongestionControl::timely) {
    const TimelyParameters& t = config.timely;
    const auto us = [](Time ns) { return text_of(static_cast<double>(ns) / 1000); };
    if (t.t_high_ns < t.t_low_ns) {
      return "t_high_us: expected at least t_low_us (" + us(t.t_low_ns) + "), found " + us(t.t_high_ns);
    }
    if (std::string mistake = floor_mistake(config, t.min_bps); !mistake.empty()) return mistake;
  }
  if (config.congestion_control == CongestionControl::hpcc) return floor_mistake(config, config.hpcc.min_bps);
  if (config.congestion_control == CongestionControl::swift && config.swift.fs_max_cwnd <= config.swift.fs_min_cwnd) {
    return "fs_max_cwnd: expected more than fs_min_cwnd (" + text_of(config.swift.fs_min_cwnd) + "), found " +
           text_of(config.swift.fs_max_cwnd);
  }
  return {};
}

}  // namespace weft::nic
