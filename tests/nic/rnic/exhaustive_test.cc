// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "tests/nic/rnic/explorer.h"

namespace weft::nic {
namespace {

using testing::Explorer;
using testing::kMtu;
using testing::Scenario;

std::vector<Scenario> scenarios() {
  const auto send = WrOpcode::send, write = WrOpcode::write, read = WrOpcode::read, add = WrOpcode::fetch_add;
  return {
      {"a SEND of four packets", {{send, 4 * kMtu - 100}}, 2, 1, false},
      {"WRITEs of one packet and three", {{write, 10}, {write, 3 * kMtu}}, 2, 1, false},
      {"SEND, WRITE with immediate, empty SEND", {{send, 5}, {WrOpcode::write_imm, 2 * kMtu}, {send, 0}}, 2, 1, false},
      {"a READ between SENDs", {{send, 8}, {read, 2 * kMtu}, {send, 8}}, 2, 1, false},
      {"atomics around a WRITE", {{add, 8}, {write, 8}, {add, 8}}, 2, 1, false},
      {"a SEND before its receive is posted", {{send, 2 * kMtu}, {write, 4}}, 1, 1, true},
  };
}

/// Go-back-N answers each reordering with up to four more packets; several messages of four packets with a duplicate
/// have too many states to visit. It gets the duplicate with one message of four packets, and with three packets of
/// several.
std::vector<Scenario> scenarios_of(LossRecovery recovery) {
  auto all = scenarios();
  if (recovery != LossRecovery::gbn) {
    // Reordering alone, which selective repeat must survive without a timeout.
    all.push_back({"a SEND of four packets, no loss", {{WrOpcode::send, 4 * kMtu}}, 0, 1, false});
    all.push_back({"three messages, no loss",
                   {{WrOpcode::write, kMtu}, {WrOpcode::send, kMtu}, {WrOpcode::write, 8}},
                   0,
                   1,
                   false});
    return all;
  }
  for (Scenario& s : all) {
    std::uint32_t packets = 0;
    for (const auto& m : s.messages) packets += packets_of(m.bytes, kMtu);
    if (packets > 3 && s.messages.size() > 1) s.duplicates = 0;
  }
  all.push_back({"a SEND of two packets and a WRITE", {{WrOpcode::send, 2 * kMtu}, {WrOpcode::write, 9}}, 2, 1, false});
  return all;
}

QpConfig settings(LossRecovery recovery, Renack renack) {
  QpConfig c;
  c.path_mtu = kMtu;
  c.loss_recovery = recovery;
  c.renack = renack;
  c.reorder_window = 64;
  c.rto_ns = 1 * kMs;
  c.min_rnr_timer = 1;
  c.send_queue_depth = 4;
  c.receive_queue_depth = 4;
  c.max_rd_atomic = c.max_dest_rd_atomic = 2;
  return c;
}

using Mode = std::tuple<LossRecovery, Renack>;
constexpr Mode kModes[] = {{LossRecovery::gbn, Renack::lazy},
                           {LossRecovery::nic_sr, Renack::lazy},
                           {LossRecovery::nic_sr, Renack::eager},
                           {LossRecovery::irn, Renack::lazy},
                           {LossRecovery::ideal, Renack::lazy}};

TEST(Exhaustive, EveryOrderOfLossesAndDuplicatesEndsWithEveryByteOnce) {
  // A build in which one condition of the transport is wrong says by this variable in which mode it must be caught.
  const char* mutant = std::getenv("WEFT_EXPECT_VIOLATION");
  std::string first_violation;
  for (const auto& [recovery, renack] : kModes) {
    if (mutant != nullptr && name(recovery) != mutant) continue;
    for (const Scenario& scenario : scenarios_of(recovery)) {
      Explorer explorer(settings(recovery, renack), scenario);
      const auto violation = explorer.run();
      std::printf("%-7s %-6s %-40s %9llu states %10llu transitions\n", std::string(name(recovery)).c_str(),
                  std::string(name(renack)).c_str(), scenario.name.c_str(),
                  static_cast<unsigned long long>(explorer.states()),
                  static_cast<unsigned long long>(explorer.transitions()));
      static_cast<void>(std::fflush(stdout));
      if (violation && mutant != nullptr) {
        std::printf("caught: %s\n", violation->c_str());
        return;
      }
      if (violation && first_violation.empty()) first_violation = std::string(name(recovery)) + ": " + *violation;
    }
  }
  EXPECT_EQ(mutant, nullptr) << "the mutant was not caught";
  EXPECT_EQ(first_violation, "");
}

}  // namespace
}  // namespace weft::nic
