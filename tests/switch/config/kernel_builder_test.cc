// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/switch_builder.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::expect_accepted;
using testing::expect_mistakes;

std::string with(const std::string& kernel, const std::string& pipeline = "[parse, l3, lb]",
                 const std::string& more = "") {
  return "switches:\n  - name: s1\n    ports: [ { name: p1, type: null } ]\n    kernel: " + kernel +
         "\n    pipeline: " + pipeline + "\n" + more;
}

TEST(KernelBuilder, ASwitchHasNoKernelUnlessItSaysSo) {
  const auto config = expect_accepted(
      "switches:\n  - name: s1\n    ports: [ { name: p1, type: null } ]\n"
      "    pipeline: [parse, l2]\n");
  EXPECT_FALSE(config.switches[0].kernel);
}

TEST(KernelBuilder, ReadsNamespacePrefixAndRateAndNeedsNoAddresses) {
  const auto bare = expect_accepted(with("{}")).switches.at(0);
  ASSERT_TRUE(bare.kernel);
  EXPECT_EQ(bare.kernel->network_namespace, "");
  EXPECT_EQ(bare.kernel->interface_prefix, "");
  EXPECT_EQ(bare.kernel->packets_per_s, 10'000u);
  const auto full = expect_accepted(with("{ namespace: tor, prefix: sw-, packets_per_s: 50 }")).switches.at(0);
  EXPECT_EQ(full.kernel->network_namespace, "tor");
  EXPECT_EQ(full.kernel->interface_prefix, "sw-");
  EXPECT_EQ(full.kernel->packets_per_s, 50u);
}

TEST(KernelBuilder, ABridgeNeedsNothingElseAndKeepsLinkLocalFramesForTheKernel) {
  expect_accepted(with("{}", "[parse, l2]"));
  expect_accepted(with("{}", "[parse, l2: { forward_link_local: false }]"));
  expect_mistakes(with("{}", "[parse, l2: { forward_link_local: @true }]"),
                  {"forward_link_local: with 'kernel' such frames are the kernel's; expected false"});
}

TEST(KernelBuilder, ARouterNeedsEqualCostGroups) {
  expect_mistakes(with("@{}", "[parse, l3]"),
                  {"kernel: the kernel's routes may have several next hops, which needs stage 'lb'"});
}

TEST(KernelBuilder, RoutesAreTheKernelsAlone) {
  expect_mistakes(with("{}", "[parse, l3, lb]", "    routes: [ @{ prefix: 10.0.0.0/8, blackhole: true } ]\n"),
                  {"routes: with 'kernel' these are the kernel's; expected none here (use ip route, ip neighbour or a "
                   "routing daemon)"});
}

TEST(KernelBuilder, NamesOfInterfacesFitTheKernelAndAreUnique) {
  expect_mistakes(with("{ prefix: @a-very-long-one- }"),
                  {"prefix: the interface of port 'p1' would be 'a-very-long-one-p1', longer than 15 characters"});
  expect_mistakes(with("{ prefix: @a/b }"), {"prefix: expected the beginning of an interface's name, without '/', "
                                             "':', '%', ',' and spaces, found 'a/b'"});
  const std::string second = "  - name: s2\n    ports: [ { name: p1, type: null } ]\n    pipeline: [parse, l3, lb]\n";
  expect_accepted(with("{}", "[parse, l3, lb]", second + "    kernel: { namespace: other }\n"));
  expect_mistakes(with("{}", "[parse, l3, lb]", second + "    kernel: @{}\n"),
                  {"kernel: the interface 'p1' of port 's2/p1' is already used by port 's1/p1' (line 3); a prefix or a "
                   "namespace tells them apart"});
}

}  // namespace
}  // namespace weft::config
