// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/config.h"

namespace weft::nic {
namespace {

constexpr std::array<std::string_view, 4> kLossRecovery{"gbn", "nic_sr", "irn", "ideal"};
constexpr std::array<std::string_view, 2> kRenack{"lazy", "eager"};
constexpr std::array<std::string_view, 5> kCongestionControl{"none", "dcqcn", "timely", "swift", "hpcc"};
constexpr std::array<std::string_view, 4> kRtoMode{"fixed", "adaptive", "irn", "doubled"};

template <class Enum, std::size_t kCount>
std::optional<Enum> find(const std::array<std::string_view, kCount>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

constexpr std::uint64_t kMbps = 1'000'000;

/// A constant that a set states for a line of 25 Gbit/s, and scales with the line.
constexpr std::uint64_t per_25g(std::uint64_t bps, std::uint64_t line_bps) noexcept {
  constexpr std::uint64_t k25g = 25'000 * kMbps;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bps) * line_bps / k25g);
}

}  // namespace

std::string_view name(LossRecovery v) noexcept {
  return kLossRecovery[static_cast<std::size_t>(v)];
}
std::string_view name(Renack v) noexcept {
  return kRenack[static_cast<std::size_t>(v)];
}
std::string_view name(CongestionControl v) noexcept {
  return kCongestionControl[static_cast<std::size_t>(v)];
}
std::string_view name(RtoMode v) noexcept {
  return kRtoMode[static_cast<std::size_t>(v)];
}
std::optional<LossRecovery> loss_recovery_from_name(std::string_view text) noexcept {
  return find<LossRecovery>(kLossRecovery, text);
}
std::optional<Renack> renack_from_name(std::string_view text) noexcept {
  return find<Renack>(kRenack, text);
}
std::optional<CongestionControl> congestion_control_from_name(std::string_view text) noexcept {
  return find<CongestionControl>(kCongestionControl, text);
}
std::optional<RtoMode> rto_mode_from_name(std::string_view text) noexcept {
  return find<RtoMode>(kRtoMode, text);
}

std::optional<DcqcnParameters> dcqcn_parameters(std::string_view name, std::uint64_t line_bps) noexcept {
  DcqcnParameters p;  // as hpcc_mix: the configuration that ships with the simulator of HPCC
  if (name == "hpcc_mix") return p;
  if (name == "hpcc_run" || name == "dcqcn_paper") {
    p.increase_interval_ns = 300 * kUs;
    p.additive_bps = per_25g(5 * kMbps, line_bps);
    p.hyper_bps = per_25g(50 * kMbps, line_bps);
    p.min_bps = 1'000 * kMbps;
    if (name == "dcqcn_paper") {
      p.alpha_interval_ns = p.decrease_interval_ns = 50 * kUs;
      p.increase_interval_ns = 55 * kUs;
    }
    return p;
  }
  if (name == "conweave") {
    p.increase_interval_ns = 300 * kUs;
    p.additive_bps = per_25g(10 * kMbps, line_bps);
    p.hyper_bps = per_25g(25 * kMbps, line_bps);
    return p;
  }
  if (name == "longhaul") {
    p.cnp_interval_ns = 5 * kUs;
    return p;
  }
  if (name == "connectx") {
    p.increase_interval_ns = 300 * kUs;
    p.increase_bytes = 32'767 * 64;
    p.g = 5.0 / 1024;
    p.initial_alpha = 1023.0 / 1024;
    p.additive_bps = 5 * kMbps;
    p.hyper_bps = 50 * kMbps;
    p.min_bps = 1 * kMbps;
    p.cnp_interval_ns = 4 * kUs;
    return p;
  }
  return std::nullopt;
}

}  // namespace weft::nic
