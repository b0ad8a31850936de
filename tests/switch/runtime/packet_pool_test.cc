// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How packets lie in the buffers of a whole process.
#include <gmock/gmock.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>
#include <optional>
#include <string>

#include "switch/config/config.h"
#include "switch/runtime/eal.h"
#include "switch/runtime/runtime.h"
#include "switch/wire/headers.h"
#include "tests/support/all_stages.h"
#include "tests/switch/runtime/process_eal.h"

namespace weft {
namespace {

std::string switch_yaml(const std::string& name, const std::string& pipeline) {
  return "  - name: " + name + "\n    ports: [{ name: a, type: \"null\" }]\n    pipeline: [" + pipeline + "]\n";
}

std::string yaml(const std::string& switches) {
  return "eal: { hugepages: off, mbufs: 4096, mbuf_data_room_bytes: 2176, workers: [0] }\n"
         "control: { socket: \"\" }\nidle: sleep\nswitches:\n" +
         switches;
}

const auto* const kEal = ::testing::AddGlobalTestEnvironment(
    new testing::ProcessEal([] { return yaml(switch_yaml("tor", "parse, l2")); }, testing::all_stages));

/// Bytes between the beginning of a cache line and the payload of a packet over IPv4 that a process with these switches
/// receives; nullopt: the process has not come up.
std::optional<std::uintptr_t> payload_in_line(const std::string& switches) {
  config::Diagnostics diagnostics;
  auto config = config::load_config(yaml(switches), "f", testing::all_stages(), diagnostics);
  EXPECT_TRUE(config) << diagnostics.to_string();
  if (!config) return std::nullopt;
  std::string error;
  const Runtime runtime(testing::all_stages(), std::move(*config), "f", testing::eal_of_all_tests, error);
  EXPECT_EQ(error, "");
  rte_mempool* pool = rte_mempool_lookup("packets");
  if (pool == nullptr) return std::nullopt;
  rte_mbuf* m = rte_pktmbuf_alloc(pool);
  const auto payload = rte_pktmbuf_mtod(m, std::uintptr_t) + sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) +
                       sizeof(wire::UdpHeader) + sizeof(wire::Bth);
  rte_pktmbuf_free(m);
  return payload % RTE_CACHE_LINE_SIZE;
}

TEST(PacketPool, PayloadsBeginOnCacheLinesWhereAnyStageOfAnySwitchAsksForThat) {
  EXPECT_EQ(payload_in_line(switch_yaml("tor", "parse, inc, l2")), 0u);
  EXPECT_EQ(payload_in_line(switch_yaml("leaf", "parse, l2") + switch_yaml("spine", "parse, inc, l2")), 0u);
}

TEST(PacketPool, FramesBeginOnCacheLinesElsewhere) {
  EXPECT_EQ(payload_in_line(switch_yaml("tor", "parse, rdma_track, l2")), 54u);
}

}  // namespace
}  // namespace weft
