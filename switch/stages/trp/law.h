// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How hard a flow is slowed down: Algorithm 1 of the long-haul paper (appendix X-B), what its text says (section V-B),
// and what its simulation does. No DPDK.
//
// The paper's words are kept: cnp_num, cnp_time, loop_num, alpha, beta, flow_status.
#pragma once

#include <cstdint>

#include "switch/base/time.h"

namespace weft::stages {

/// flow_status. `idle` is what the paper leaves out: a flow that has recovered and holds nothing.
enum class TrpStatus : std::uint8_t { idle, throttled, recover };

/// When a CNP makes loop_num grow.
enum class TrpRule : std::uint8_t {
  text,        ///< section V-B: the first CNP, then every alpha-th; alpha grows with each step
  algorithm1,  ///< as it is printed: cnp_num % alpha == 1, and alpha grows. From the seventh CNP on that is every CNP
  code,  ///< the authors' simulation (Themis @d941dc1, switch-node.cc:237-296): two steps per alpha CNPs, alpha is
         ///< halved by every packet while it recovers, loop_num never falls
};

struct TrpRules {
  TrpRule rule = TrpRule::text;
  std::uint32_t alpha = 5;       ///< at first, at least 1
  TimeNs beta_ns = 500'000;      ///< without a CNP for longer than this, a flow recovers
  std::uint32_t max_loops = 64;  ///< loop_num grows no further, at least 1
};

/// What is remembered of a flow's CNPs.
struct TrpLaw {
  std::uint32_t cnp_num = 0;
  std::uint32_t loop_num = 0;
  std::uint32_t alpha = 0;
  TrpStatus status = TrpStatus::idle;
  bool settled = false;  ///< code: no CNP but the first one yet, which counts as if beta were over
  TimeNs cnp_time = 0;   ///< of the last CNP

  void on_cnp(TimeNs now, const TrpRules& rules) noexcept;
  /// A packet of the flow comes, or comes back: the flow may begin to recover by now.
  void on_packet(TimeNs now, const TrpRules& rules) noexcept;
  /// Nothing is held any more, and the flow recovers: the next CNP slows it down anew, from one loop on. The alpha that
  /// recovery has halved stays.
  void end() noexcept;

  /// Feeds all of it to `h(std::uint64_t)`; times as how long ago they were.
  template <class Hash>
  void hash_state(Hash&& h, TimeNs now) const {
    h(std::uint64_t{cnp_num} << 32 | loop_num);
    h(std::uint64_t{alpha} << 8 | static_cast<std::uint64_t>(status) << 1 | (settled ? 1 : 0));
    h(status == TrpStatus::throttled ? now - cnp_time : 0);
  }
};

}  // namespace weft::stages
