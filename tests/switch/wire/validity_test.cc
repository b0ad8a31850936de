// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/validity.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weft::wire {
namespace {

TEST(Validity, EveryValueHasItsOwnNameAndSentence) {
  std::set<std::string_view> names, sentences;
  for (unsigned i = 0; i < kValidityCount; ++i) {
    const auto v = static_cast<Validity>(i);
    EXPECT_FALSE(name(v).empty());
    EXPECT_EQ(name(v).find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string_view::npos) << name(v);
    EXPECT_EQ(description(v).back(), '.') << name(v);
    names.insert(name(v));
    sentences.insert(description(v));
  }
  EXPECT_EQ(names.size(), kValidityCount);
  EXPECT_EQ(sentences.size(), kValidityCount);
}

TEST(Validity, NamesAreTheEnumerators) {
  EXPECT_EQ(name(Validity::ok), "ok");
  EXPECT_EQ(name(Validity::eth_source_multicast), "eth_source_multicast");
  EXPECT_EQ(name(Validity::ip_checksum), "ip_checksum");
  EXPECT_EQ(name(Validity::udp_length), "udp_length");
  EXPECT_EQ(name(Validity::roce_transport_version), "roce_transport_version");
  EXPECT_EQ(name(Validity::roce_qp0), "roce_qp0");
}

TEST(FrameKind, EveryValueHasItsOwnName) {
  std::set<std::string_view> names;
  for (unsigned i = 0; i < kFrameKindCount; ++i) names.insert(name(static_cast<FrameKind>(i)));
  EXPECT_EQ(names.size(), kFrameKindCount);
  EXPECT_EQ(name(FrameKind::other), "other");
  EXPECT_EQ(name(FrameKind::ipv4_fragment), "ipv4_fragment");
  EXPECT_EQ(name(FrameKind::roce), "roce");
}

}  // namespace
}  // namespace weft::wire
