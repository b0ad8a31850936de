// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/state_text.h"

#include <gtest/gtest.h>

#include "tests/nic/agent/events.h"

namespace weft::testing {
namespace {

using agent::QpList;
using agent::read_state;
using agent::SavedQp;
using agent::state_text;

QpList new_list() {
  return QpList([](const std::string&, unsigned, unsigned) { return wire::IpAddress::parse("10.0.1.1"); });
}

std::vector<SavedQp> some() {
  QpList list = new_list();
  weft_qp_event of_kernel = to_rtr(19, "10.0.2.1", 20);
  of_kernel.kernel = 1;
  (void)list.on_event(to_rtr(17, "10.0.2.1", 18));
  (void)list.on_event(of_kernel);
  std::vector<SavedQp> saved;
  for (auto& [qp, kernel] : list.all()) {
    qp.rq_psn.reset();
    saved.push_back({qp, kernel, "4711"});
  }
  return saved;
}

TEST(StateText, IsReadAsItWasWritten) {
  const auto saved = some();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_FALSE(saved[0].kernel);
  EXPECT_TRUE(saved[1].kernel);
  EXPECT_EQ(read_state(state_text(saved)), saved);
  EXPECT_TRUE(read_state(state_text({})).empty());
}

TEST(StateText, WhatIsTornOrAnothersIsNothing) {
  const std::string text = state_text(some());
  for (std::size_t bytes = 0; bytes + 2 < text.size(); bytes += 7)
    EXPECT_TRUE(read_state(text.substr(0, bytes)).empty());
  std::string other = text;
  other.replace(other.find("\"form\":1"), 8, "\"form\":2");
  EXPECT_TRUE(read_state(other).empty());
  other = text;
  other.replace(other.find("10.0.2.1"), 8, "10.0.2.x");
  EXPECT_TRUE(read_state(other).empty());
}

TEST(StateText, ARestoredConnectionEndsAsOthersDo) {
  QpList list = new_list();
  for (const SavedQp& saved : read_state(state_text(some()))) list.restore(saved.qp, saved.kernel);
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list.processes(), std::vector<std::uint32_t>{50});
  EXPECT_EQ(list.on_event(qp_event(WEFT_QP_DESTROY, 19)).size(), 1u);
  EXPECT_EQ(list.on_exit([](std::uint32_t) { return true; }).size(), 1u);
}

}  // namespace
}  // namespace weft::testing
