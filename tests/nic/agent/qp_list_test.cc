// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/qp_list.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/nic/agent/events.h"

namespace weft::testing {
namespace {

using agent::Change;
using agent::QpList;

std::optional<wire::IpAddress> address_of(const std::string& device, unsigned port, unsigned index) {
  if (device != "mlx5_0" || port != 1) return std::nullopt;
  return index == 3   ? wire::IpAddress::parse("10.0.1.1")
         : index == 4 ? wire::IpAddress::parse("fd00::1")
                      : std::nullopt;
}

std::string text(const std::vector<Change>& changes) {
  std::string all;
  for (const Change& c : changes) {
    all += (c.up ? "+" : "-") + c.qp.local.to_string() + "/" + std::to_string(c.qp.qpn);
    if (c.up) all += ">" + c.qp.remote.to_string() + "/" + std::to_string(c.qp.remote_qpn);
    all += " ";
  }
  return all;
}

TEST(QpList, AQueuePairIsKnownWhenItGoesToRtrAndItsFirstPsnAtRts) {
  QpList list(address_of);
  weft_qp_event init = qp_event(WEFT_QP_MODIFY, 17);
  init.mask = 0x39;
  init.state = 1;
  EXPECT_EQ(text(list.on_event(init)), "");
  const auto rtr = list.on_event(to_rtr(17, "10.0.2.1", 18));
  ASSERT_EQ(text(rtr), "+10.0.1.1/17>10.0.2.1/18 ");
  EXPECT_EQ(rtr[0].qp.mtu, 1024u);
  EXPECT_EQ(rtr[0].qp.rq_psn, 900u);
  EXPECT_EQ(rtr[0].qp.sq_psn, std::nullopt);
  EXPECT_EQ(rtr[0].qp.process + " " + rtr[0].qp.device, "program mlx5_0");
  EXPECT_EQ(rtr[0].qp.pid, 50u);
  const auto rts = list.on_event(to_rts(17, 77));
  ASSERT_EQ(rts.size(), 1u);
  EXPECT_EQ(rts[0].qp.sq_psn, 77u);
  EXPECT_EQ(text(list.on_event(qp_event(WEFT_QP_DESTROY, 17))), "-10.0.1.1/17 ");
  EXPECT_EQ(text(list.on_event(qp_event(WEFT_QP_DESTROY, 17))), "");
  EXPECT_EQ(list.size(), 0u);
}

TEST(QpList, WhatItsMaskDoesNotNameIsNotRead) {
  QpList list(address_of);
  for (const std::uint32_t missing : {WEFT_MASK_STATE, WEFT_MASK_AV, WEFT_MASK_DEST_QPN}) {
    weft_qp_event e = to_rtr(17, "10.0.2.1", 18);
    e.mask &= ~missing;
    EXPECT_EQ(text(list.on_event(e)), "") << missing;
  }
  weft_qp_event e = to_rtr(17, "10.0.2.1", 18);
  e.mask &= ~static_cast<std::uint32_t>(WEFT_MASK_RQ_PSN | WEFT_MASK_PATH_MTU);
  const auto found = list.on_event(e);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].qp.rq_psn, std::nullopt);
  EXPECT_EQ(found[0].qp.mtu, 0u);
}

TEST(QpList, WhatIsTornOrNoConnectionIsCountedAndLeftAlone) {
  QpList list(address_of, 1);
  weft_qp_event e = to_rtr(17, "10.0.2.1", 18);
  e.unread = 1;
  EXPECT_EQ(text(list.on_event(e)), "");
  e = to_rtr(17, "10.0.2.1", 18);
  e.type = 4;  // UD
  EXPECT_EQ(text(list.on_event(e)), "");
  e = to_rtr(17, "fd00::2", 18);
  EXPECT_EQ(text(list.on_event(e)), "") << "from an IPv4 address to an IPv6 one";
  e = to_rtr(17, "10.0.2.1", 18);
  e.port = 2;
  EXPECT_EQ(text(list.on_event(e)), "");
  EXPECT_EQ(text(list.on_event(to_rtr(17, "10.0.2.1", 1))), "") << "to a number for management";
  EXPECT_EQ(text(list.on_event(to_rts(17, 5))), "");
  EXPECT_EQ(list.counters().unread, 1u);
  EXPECT_EQ(list.counters().foreign, 3u);
  (void)list.on_event(to_rtr(17, "10.0.2.1", 18));
  EXPECT_EQ(text(list.on_event(to_rtr(19, "10.0.2.1", 20))), "");
  EXPECT_EQ(list.counters().full, 1u);
}

TEST(QpList, ANumberThatIsUsedAgainEndsTheOldConnectionFirst) {
  QpList list(address_of);
  (void)list.on_event(to_rtr(17, "10.0.2.1", 18));
  EXPECT_EQ(text(list.on_event(to_rtr(17, "10.0.2.1", 18))), "") << "the kernel and the library tell of one call";
  EXPECT_EQ(text(list.on_event(to_rtr(17, "10.0.3.1", 18))), "-10.0.1.1/17 +10.0.1.1/17>10.0.3.1/18 ");
  weft_qp_event reset = qp_event(WEFT_QP_MODIFY, 17);
  reset.mask = WEFT_MASK_STATE;
  EXPECT_EQ(text(list.on_event(reset)), "-10.0.1.1/17 ");
}

TEST(QpList, NumbersAreThoseOfADevice) {
  QpList list([](const std::string& device, unsigned, unsigned) {
    return wire::IpAddress::parse(device == "mlx5_0" ? "10.0.1.1" : "10.0.1.2");
  });
  weft_qp_event other = to_rtr(17, "10.0.2.1", 19);
  std::strcpy(other.device, "mlx5_1");
  (void)list.on_event(to_rtr(17, "10.0.2.1", 18));
  EXPECT_EQ(text(list.on_event(other)), "+10.0.1.2/17>10.0.2.1/19 ");
  EXPECT_EQ(text(list.on_event(qp_event(WEFT_QP_DESTROY, 17))), "-10.0.1.1/17 ");
  std::memset(other.device, 'x', sizeof other.device);  // without an end
  EXPECT_EQ(text(list.on_event(other)), "+10.0.1.2/17>10.0.2.1/19 ");
}

TEST(QpList, AProcessThatDiesTakesItsQueuePairsAlongAndTheKernelEndsItsOwn) {
  QpList list(address_of);
  (void)list.on_event(to_rtr(17, "10.0.2.1", 18));
  weft_qp_event of_kernel = to_rtr(19, "10.0.2.1", 20), of_other = to_rtr(21, "10.0.2.1", 22);
  of_kernel.kernel = 1;
  of_other.pid = 51;
  (void)list.on_event(of_kernel);
  (void)list.on_event(of_other);
  EXPECT_EQ(list.processes(), (std::vector<std::uint32_t>{50, 51}));
  EXPECT_EQ(text(list.on_exit([](std::uint32_t pid) { return pid == 50; })), "-10.0.1.1/17 ");
  EXPECT_EQ(list.size(), 2u);
}

TEST(QpList, ListsAllInParts) {
  QpList list(address_of);
  for (std::uint32_t i = 0; i < 7; ++i) (void)list.on_event(to_rtr(17 + i, "10.0.2.1", 18));
  std::optional<QpList::Key> after;
  std::vector<std::uint32_t> found;
  for (std::size_t got = 3; got == 3;) {
    const auto part = list.list(after, 3);
    got = part.size();
    for (const auto& qp : part) found.push_back(qp.qpn);
    if (found.size() == 3) (void)list.on_event(qp_event(WEFT_QP_DESTROY, 19));
  }
  EXPECT_EQ(found, (std::vector<std::uint32_t>{17, 18, 19, 20, 21, 22, 23}));
}

}  // namespace
}  // namespace weft::testing
