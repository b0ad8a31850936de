// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The constants of congestion control by name, as programs and files set them. Times are in microseconds and rates in
// Mbit/s, which their names say.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "nic/rnic/config.h"

namespace weft::nic {

/// A constant of one kind of congestion control. A name may belong to several kinds, with the same range in all.
struct CcConstant {
  CongestionControl kind;
  std::string_view name;
  double low, high;          ///< what it may be set to, both included
  bool whole;                ///< whole numbers only
  std::string_view meaning;  ///< in the words of the kind's paper
  void (*set)(QpConfig& config, double value);
};

/// All of them, kind by kind.
[[nodiscard]] std::span<const CcConstant> cc_constants() noexcept;

/// Sets a constant of config.congestion_control. What is wrong otherwise (the name, or its kind, or the value), in
/// words that begin with the name; empty when it was set.
[[nodiscard]] std::string set_cc_constant(QpConfig& config, std::string_view name, double value);

/// What is wrong with the constants of config.congestion_control taken together, and with config.line_bps; empty when
/// nothing is.
[[nodiscard]] std::string cc_mistake(const QpConfig& config);

}  // namespace weft::nic
