// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the ranks of a Network are and do, where a test does not care.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "nic/rnic/config.h"
#include "switch/base/rng.h"
#include "tests/collectives/engine/network.h"

namespace weft::inc::testing {

inline nic::QpConfig host(nic::LossRecovery recovery = nic::LossRecovery::gbn) {
  nic::QpConfig c;
  c.path_mtu = kMtu;
  c.loss_recovery = recovery;
  c.rto_ns = nic::kMs;
  c.retry_count = 7;
  c.reorder_window = 64;
  return c;
}

inline const std::vector<Collective> kMixed{{Primitive::allreduce, 0, 5}, {Primitive::reduce, 2, 7},
                                            {Primitive::allreduce, 0, 3}, {Primitive::broadcast, 1, 6},
                                            {Primitive::barrier, 0, 0},   {Primitive::reduce, 0, 4},
                                            {Primitive::broadcast, 3, 2}, {Primitive::allreduce, 0, 9}};

/// A Barrier, `broadcasts` Broadcasts of one packet from these ranks in turn, and more Barriers than a switch knows at
/// a time.
inline std::vector<Collective> broadcasts_between_barriers(const std::vector<std::uint16_t>& roots,
                                                           std::size_t broadcasts) {
  std::vector<Collective> program{{Primitive::barrier}};
  for (std::size_t i = 0; i < broadcasts; ++i) program.push_back({Primitive::broadcast, roots[i % roots.size()], 1});
  program.resize(program.size() + 80, {Primitive::barrier});
  return program;
}
/// Such programs end, with and without loss.
inline void expect_no_table_full_for_ever(const GroupConfig& group, const std::vector<std::uint16_t>& roots) {
  nic::QpConfig config = host();
  config.receive_queue_depth = 512;  // all receives are posted at once
  for (const double loss : {0.0, 0.01}) {
    for (const std::size_t broadcasts : {4u, 80u}) {
      Network n(group, config, broadcasts_between_barriers(roots, broadcasts), {.loss = loss}, 1);
      ASSERT_EQ(n.run(), "done") << broadcasts << " from " << ::testing::PrintToString(roots) << ", loss " << loss
                                 << ": " << n.why();
    }
  }
}

/// A sequence of collectives with every option drawn.
struct Drawn {
  /// @param group  what is not drawn; its slots are twice the window
  Drawn(std::uint64_t seed, GroupConfig base) : draw(seed * 77 + 5), group(std::move(base)) {
    const std::uint32_t count = 2 + one_of(6);
    recovery = one_of(3) == 0 ? nic::LossRecovery::nic_sr : nic::LossRecovery::gbn;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto k = static_cast<Primitive>(one_of(4));
      const bool rooted = k == Primitive::reduce || k == Primitive::broadcast;
      const auto root = static_cast<std::uint16_t>(rooted ? one_of(4) : 0);
      program.push_back({k, root, k == Primitive::barrier ? 0 : 1 + one_of(6)});
    }
    group.window = 1 + one_of(3);
    group.slots = 2 * group.window;
    group.invocations = 64 + 64 * one_of(2);
    group.epsn_filter = one_of(2) != 0;
    group.duplicates = one_of(4) != 0 ? Duplicates::cache : Duplicates::reforward;
    group.reproducible = one_of(2) != 0;
    faults = {0.01 * one_of(3), 0.01 * one_of(3), 0.01 * one_of(3), 0.05};
    verb = one_of(2) != 0 ? Verb::send : Verb::write_imm;
    group.message_packets = 1 + one_of(3);
    group.slots *= group.message_packets;
    group.rnr_acks = one_of(2) != 0;  // such ACKs hide one that was forgotten
  }
  [[nodiscard]] std::uint32_t one_of(std::uint64_t n) { return static_cast<std::uint32_t>(draw.below(n)); }

  Rng draw;
  GroupConfig group;
  nic::LossRecovery recovery{};
  std::vector<Collective> program;
  Faults faults;
  Verb verb = Verb::send;
};

}  // namespace weft::inc::testing
