// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/reorder_buffer.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::nic {
namespace {

using wire::Psn;

constexpr std::uint32_t kPage = ReorderBuffer::kPageSlots;

Packet packet(std::uint32_t psn, const std::uint8_t* data = nullptr, std::uint32_t bytes = 0) {
  Packet p;
  p.opcode = wire::Opcode::RC_SEND_MIDDLE;
  p.psn = Psn(psn);
  p.payload.set(data, bytes);
  return p;
}

TEST(ReorderBuffer, GivesBackWhatItWasGiven) {
  for (const std::uint32_t window : {64u, kPage, 8 * kPage, kMaxReorderWindow}) {
    ReorderBuffer buffer(window, 4);
    EXPECT_EQ(buffer.pages(), 0u);
    const std::uint32_t first = 0xffffff - window / 2;  // PSNs begin anew in between
    std::array<std::uint8_t, 4> bytes{};
    for (std::uint32_t i = 1; i < window; i += 2) {
      bytes[0] = static_cast<std::uint8_t>(i >> 1);
      buffer.put(packet((first + i) & 0xffffff, bytes.data(), 4));
    }
    EXPECT_EQ(buffer.size(), window / 2);
    EXPECT_EQ(buffer.pages(), window <= kPage ? 1 : window / kPage);
    for (std::uint32_t i = 0; i < window; ++i) {
      const Psn psn((first + i) & 0xffffff);
      ASSERT_EQ(buffer.has(psn), i % 2 == 1) << i;
      if (i % 2 == 0) continue;
      const Packet taken = buffer.take(psn);
      ASSERT_EQ(taken.payload.data()[0], static_cast<std::uint8_t>(i >> 1));
      ASSERT_FALSE(buffer.has(psn));
    }
    EXPECT_EQ(buffer.size(), 0u);
  }
}

// A flow that goes through all PSNs with a packet or two out of order: its memory does not grow with its window.
TEST(ReorderBuffer, TakesMemoryForWhatIsThere) {
  ReorderBuffer buffer(kMaxReorderWindow, 4);
  for (std::uint32_t psn = 0; psn < 2 * kMaxReorderWindow; psn += 7) {
    buffer.put(packet(psn));
    if (psn >= 70) static_cast<void>(buffer.take(Psn(psn - 70)));
    ASSERT_LE(buffer.pages(), 2u) << psn;
  }
}

TEST(ReorderBuffer, GivesPagesBackWhenAnotherOneIsNeeded) {
  ReorderBuffer buffer(8 * kPage, 4);
  for (std::uint32_t page = 0; page < 6; ++page) buffer.put(packet(page * kPage));
  EXPECT_EQ(buffer.pages(), 6u);
  for (std::uint32_t page = 0; page < 5; ++page) static_cast<void>(buffer.take(Psn(page * kPage)));
  EXPECT_EQ(buffer.pages(), 6u) << "payload of the last packets may be in use";
  buffer.put(packet(6 * kPage));
  EXPECT_EQ(buffer.pages(), 2u);
  EXPECT_TRUE(buffer.has(Psn(5 * kPage)));
  EXPECT_TRUE(buffer.has(Psn(6 * kPage)));
  // A page that is empty and the very one that is needed.
  static_cast<void>(buffer.take(Psn(6 * kPage)));
  buffer.put(packet(6 * kPage + 1));
  EXPECT_EQ(buffer.pages(), 2u);
  buffer.put(packet(7 * kPage));
  EXPECT_EQ(buffer.pages(), 3u);
}

TEST(ReorderBuffer, WhatIsTakenStaysUntilTheNextPut) {
  ReorderBuffer buffer(4 * kPage, 4);
  constexpr std::array<std::uint8_t, 4> kBytes{1, 2, 3, 4};
  for (std::uint32_t page = 0; page < 3; ++page) buffer.put(packet(page * kPage, kBytes.data(), 4));
  std::array<Packet, 3> taken;
  for (std::uint32_t page = 0; page < 3; ++page) taken[page] = buffer.take(Psn(page * kPage));
  for (const Packet& p : taken) EXPECT_EQ(p.payload.data()[3], 4);
}

TEST(ReorderBuffer, DropsARange) {
  ReorderBuffer buffer(2 * kPage, 4);
  for (std::uint32_t i = 0; i < 2 * kPage; i += 64) buffer.put(packet(i));
  buffer.drop(Psn(1), 2 * kPage - 65);
  EXPECT_EQ(buffer.size(), 2u);
  EXPECT_TRUE(buffer.has(Psn(0)));
  EXPECT_TRUE(buffer.has(Psn(2 * kPage - 64)));
}

}  // namespace
}  // namespace weft::nic
