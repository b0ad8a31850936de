// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/verbs_transport.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <poll.h>

#include <array>
#include <numeric>

#include "collectives/comm/group.h"
#include "tests/collectives/comm/fake_verbs.h"

namespace weft::inc::comm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

wire::IpAddress ip(std::string_view text) {
  return *wire::IpAddress::parse(text);
}

bool readable(const VerbsTransport& t) {
  pollfd wait{t.descriptor(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

struct VerbsTransportTest : public ::testing::Test {
  VerbsTransportTest() {
    fake.add_gid("fe80::1", 1);
    fake.add_gid("fd00::1", 1);
    fake.add_gid("10.0.1.2", 1, IBV_GID_TYPE_ROCE_V1);
    fake.add_gid("10.0.1.2", 1);
    fake.add_gid("10.0.2.2", 2);
  }
  /// Where the transport is: the address that a queue pair names.
  static std::string where(VerbsTransport& t) { return t.create_qp({})->end().address.to_string(); }

  FakeVerbs fake;
  const Verbs verbs = fake.functions();
};

TEST_F(VerbsTransportTest, ChoosesTheGidOfRoceV2ByAddressOrPort) {
  VerbsTransport first(verbs), other(verbs), v6(verbs), second_port(verbs);
  ASSERT_EQ(first.open("mlx5_0", std::nullopt), "");
  EXPECT_EQ(where(first), "10.0.1.2") << "IPv4 goes before IPv6";
  EXPECT_EQ(first.largest_mtu(), 4096u);
  EXPECT_EQ(first.name(), "mlx5_0");
  ASSERT_EQ(other.open("mlx5_0", ip("10.0.2.2")), "");
  EXPECT_EQ(where(other), "10.0.2.2");
  ASSERT_EQ(v6.open("mlx5_0", ip("fd00::1")), "");
  EXPECT_EQ(where(v6), "fd00::1");
  fake.mtu = IBV_MTU_1024;
  ASSERT_EQ(second_port.open("mlx5_0:2", std::nullopt), "");
  EXPECT_EQ(where(second_port), "10.0.2.2");
  EXPECT_EQ(second_port.largest_mtu(), 1024u);
}

TEST_F(VerbsTransportTest, NamesItsGidAndThoseThatItCouldHave) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  EXPECT_EQ(t.gid().index, 3u);
  EXPECT_EQ(t.gid().port, 1u);
  EXPECT_EQ(t.gid().address, ip("10.0.1.2"));
  std::vector<std::uint32_t> indices;
  for (const Gid& gid : t.gids()) indices.push_back(*gid.index);
  EXPECT_THAT(indices, ElementsAre(1, 3, 4)) << "neither link-local ones nor RoCE v1";
}

TEST_F(VerbsTransportTest, SaysWhyADeviceIsNotOpened) {
  const auto open = [&](const std::string& device, std::string_view address = "") {
    VerbsTransport t(verbs);
    return t.open(device, address.empty() ? std::nullopt : std::optional(ip(address)));
  };
  EXPECT_EQ(open("mlx5_1"), "there is no RDMA device 'mlx5_1'; there are: mlx5_0");
  for (const char* name : {"mlx5_0:", "mlx5_0:x", "mlx5_0:0", "mlx5_0:256", "mlx5_0:1 "}) {
    EXPECT_THAT(open(name), HasSubstr("names no port")) << name;
  }
  EXPECT_EQ(open("mlx5_0:3"), "mlx5_0:3 has no GID of RoCE v2 with an IP address");
  EXPECT_EQ(open("mlx5_0", "10.9.9.9"), "mlx5_0 has no GID of RoCE v2 for 10.9.9.9");
  EXPECT_EQ(open("mlx5_0:2", "10.0.1.2"), "mlx5_0:2 has no GID of RoCE v2 for 10.0.1.2");
  fake.add_gid("10.0.7.2", 1, IBV_GID_TYPE_ROCE_V1);
  EXPECT_EQ(open("mlx5_0", "10.0.7.2"), "mlx5_0 has no GID of RoCE v2 for 10.0.7.2: its GID 5 is of another type");
  fake.state = IBV_PORT_DOWN;
  EXPECT_EQ(open("mlx5_0"), "port 1 of mlx5_0 is not up");
  fake.gids.erase(fake.gids.begin() + 1, fake.gids.end());
  EXPECT_THAT(open("mlx5_0"), HasSubstr("no GID of RoCE v2")) << "a link-local address is none";
}

TEST_F(VerbsTransportTest, ConnectsWithWhatBothEndsSay) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  const auto a = t.create_qp({2048, 4, 8}), b = t.create_qp({2048, 4, 8});
  const QpEnd ours = a->end(), theirs = b->end();
  EXPECT_LT(ours.first_psn | ours.expects_psn, 1u << 24);
  ASSERT_EQ(a->connect(theirs, theirs.first_psn), ConnectState::connected);
  ASSERT_EQ(b->connect({ip("10.0.1.1"), ours.qpn, 0, 0}, std::nullopt), ConnectState::connected);
  const auto& changes = fake.changes[ours.qpn];
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].attr.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(changes[0].mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(changes[0].attr.port_num, 1);
  const ibv_qp_attr& receive = changes[1].attr;
  EXPECT_EQ(receive.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(receive.dest_qp_num, theirs.qpn);
  EXPECT_EQ(receive.rq_psn, theirs.first_psn);
  EXPECT_EQ(receive.ah_attr.is_global, 1);
  EXPECT_EQ(receive.ah_attr.grh.sgid_index, 3) << "of RoCE v2";
  EXPECT_EQ(std::memcmp(receive.ah_attr.grh.dgid.raw, ip("10.0.1.2").bytes().data(), 16), 0);
  EXPECT_EQ(changes[2].attr.sq_psn, ours.first_psn);
  EXPECT_EQ(changes[2].attr.rnr_retry, 7) << "without limit";
  EXPECT_EQ(fake.changes[theirs.qpn][1].attr.rq_psn, theirs.expects_psn);
}

TEST_F(VerbsTransportTest, WaitsForANeighbourAndNotForARoute) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  const auto a = t.create_qp({}), b = t.create_qp({});
  fake.rtr_errors = {ETIMEDOUT, EHOSTUNREACH};
  EXPECT_EQ(a->connect(b->end(), 1), ConnectState::waiting);
  EXPECT_EQ(a->connect(b->end(), 1), ConnectState::waiting);
  EXPECT_EQ(a->connect(b->end(), 1), ConnectState::connected);
  fake.rtr_errors = {ENETUNREACH};
  EXPECT_EQ(b->connect(a->end(), 1), ConnectState::unreachable);
}

/// Two queue pairs with memory of which each sends the first half and receives into the second.
struct Connected {
  explicit Connected(VerbsTransport& t)
      : transport(t), a(t.create_qp({1024, 4, 4})), b(t.create_qp({1024, 4, 4})), memory(8192) {
    std::iota(memory.begin(), memory.end(), std::uint8_t{1});
    key = t.register_memory(memory.data(), memory.size());
    EXPECT_EQ(a->connect(b->end(), b->end().first_psn), ConnectState::connected);
    EXPECT_EQ(b->connect(a->end(), a->end().first_psn), ConnectState::connected);
  }
  ~Connected() {
    a.reset();
    b.reset();
    transport.forget(key);
  }
  std::uint8_t* receive_at() { return memory.data() + 4096; }

  VerbsTransport& transport;
  std::unique_ptr<QueuePair> a, b;
  std::vector<std::uint8_t> memory;
  std::uint32_t key = 0;
};

TEST_F(VerbsTransportTest, SendsWithAndWithoutImmediate) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  Connected c(t);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(c.b->receive(10 + i, c.receive_at() + 1024 * i, 1024, c.key));
  ASSERT_TRUE(c.a->send(5, c.memory.data(), 100, c.key, 0x01020304u));
  ASSERT_TRUE(c.a->send(6, c.memory.data() + 100, 1024, c.key, std::nullopt));
  ASSERT_TRUE(c.a->send(7, c.memory.data(), 0, c.key, std::nullopt));
  std::array<Completion, 2> some;
  ASSERT_EQ(c.a->poll_sent(some), 2u);
  EXPECT_EQ(some[1].wr_id, 6u);
  EXPECT_EQ(some[1].error, "");
  ASSERT_EQ(c.b->poll_received(some), 2u);
  EXPECT_EQ(some[0].wr_id, 10u);
  EXPECT_EQ(some[0].bytes, 100u);
  EXPECT_EQ(some[0].immediate, 0x01020304u) << "in the host's order";
  EXPECT_EQ(some[1].bytes, 1024u);
  EXPECT_EQ(some[1].immediate, std::nullopt);
  ASSERT_EQ(c.b->poll_received(some), 1u) << "what was not asked for stays";
  EXPECT_EQ(some[0].bytes, 0u);
  EXPECT_TRUE(std::equal(c.memory.begin() + 100, c.memory.begin() + 1124, c.receive_at() + 1024));
  // The other end is gone.
  c.b.reset();
  ASSERT_TRUE(c.a->send(8, c.memory.data(), 100, c.key, std::nullopt));
  ASSERT_EQ(c.a->poll_sent(some), 2u);
  EXPECT_EQ(some[1].error, "transport retry counter exceeded");
}

TEST_F(VerbsTransportTest, TellsASleeperOfWhatComesAndLosesNothingBefore) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  EXPECT_TRUE(t.may_wait()) << "there is nothing to wait for";
  Connected c(t);
  ASSERT_TRUE(c.b->receive(1, c.receive_at(), 1024, c.key));
  ASSERT_TRUE(c.b->receive(2, c.receive_at(), 1024, c.key));
  ASSERT_TRUE(c.a->send(1, c.memory.data(), 8, c.key, std::nullopt));
  EXPECT_FALSE(readable(t));
  EXPECT_FALSE(t.may_wait()) << "what came before makes no event: one more look";
  std::array<Completion, 4> some;
  EXPECT_EQ(c.a->poll_sent(some) + c.b->poll_received(some), 2u);
  EXPECT_TRUE(t.may_wait());
  EXPECT_FALSE(readable(t));
  ASSERT_TRUE(c.a->send(2, c.memory.data(), 8, c.key, std::nullopt));
  EXPECT_TRUE(readable(t));
  EXPECT_FALSE(t.may_wait());
  EXPECT_FALSE(readable(t)) << "it was read";
  EXPECT_EQ(c.a->poll_sent(some) + c.b->poll_received(some), 2u);
  EXPECT_TRUE(t.may_wait());
}

TEST_F(VerbsTransportTest, MayNotWaitForWhatIsGone) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  {
    Connected c(t);
    EXPECT_FALSE(t.may_wait());
    ASSERT_TRUE(c.b->receive(1, c.receive_at(), 1024, c.key));
    ASSERT_TRUE(c.a->send(1, c.memory.data(), 8, c.key, std::nullopt));
  }
  const auto unarmed = t.create_qp({});
  EXPECT_FALSE(t.may_wait());
  EXPECT_TRUE(t.may_wait());
  EXPECT_FALSE(readable(t));
}

TEST_F(VerbsTransportTest, RegistersWhatMayNotBeWrittenForSending) {
  VerbsTransport t(verbs);
  ASSERT_EQ(t.open("mlx5_0", std::nullopt), "");
  const std::array<std::uint8_t, 64> constant{};
  t.forget(t.register_memory(constant.data(), constant.size()));
  fake.no_writing = EFAULT;
  t.forget(t.register_memory(constant.data(), constant.size()));
  EXPECT_THAT(fake.access, ElementsAre(IBV_ACCESS_LOCAL_WRITE, 0));
  fake.no_memory = ENOMEM;
  try {
    static_cast<void>(t.register_memory(constant.data(), 64));
    FAIL() << "memory that the device refused";
  } catch (const TransportError& e) {
    EXPECT_STREQ(e.what(), "mlx5_0 does not register 64 bytes of memory: Cannot allocate memory (see ulimit -l)");
  }
  fake.no_queue_pair = ENOMEM;
  EXPECT_THROW(static_cast<void>(t.create_qp({})), TransportError);
}

/// Two ranks of a group, each with a transport of its own.
struct Ranks {
  explicit Ranks(const Verbs& verbs) : transports{VerbsTransport(verbs), VerbsTransport(verbs)} {
    GroupSettings settings;
    settings.backend = WEFT_INC_BACKEND_RING;
    for (std::uint32_t r = 0; r < 2; ++r) {
      EXPECT_EQ(transports[r].open("mlx5_0", ip(r == 0 ? "10.0.1.2" : "10.0.2.2")), "");
      memories.push_back(std::make_unique<Memory>(transports[r]));
      const auto nobody = [](const DaemonMessage&) { return false; };
      groups.push_back(std::make_unique<Group>(*memories[r], nobody, r, 2, settings));
    }
    const std::vector<Handle> all{groups[0]->handle(), groups[1]->handle()};
    for (const auto& g : groups) EXPECT_EQ(g->connect(all, std::nullopt), "");
    run();
  }
  void run() {
    for (bool busy = true; busy;) {
      busy = groups[0]->progress();
      if (groups[1]->progress()) busy = true;
    }
  }

  std::array<VerbsTransport, 2> transports;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Group>> groups;
};

TEST_F(VerbsTransportTest, RunsCollectives) {
  Ranks ranks(verbs);
  std::array<std::vector<std::int32_t>, 2> in, out;
  std::vector<std::shared_ptr<Request>> requests;
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(ranks.groups[r]->state(), Group::State::ready);
    in[r].resize(50'000);
    out[r].resize(in[r].size());
    std::iota(in[r].begin(), in[r].end(), 7 * r);
    requests.push_back(ranks.groups[r]->post(
        {Collective::allreduce, in[r].data(), out[r].data(), in[r].size(), DataType::int32, Op::sum, 0}));
  }
  ranks.run();
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(requests[r]->state, Request::State::done);
    for (std::size_t i = 0; i < in[r].size(); ++i) ASSERT_EQ(out[r][i], in[0][i] + in[1][i]) << "rank " << r;
  }
}

TEST_F(VerbsTransportTest, ARequestWhoseMemoryIsRefusedFailsTheGroupAndSaysWhy) {
  Ranks ranks(verbs);
  std::vector<std::int32_t> in(100), out(100);
  fake.no_memory = ENOMEM;
  const auto request =
      ranks.groups[0]->post({Collective::allreduce, in.data(), out.data(), 100, DataType::int32, Op::sum, 0});
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->state, Request::State::failed);
  EXPECT_THAT(request->error, HasSubstr("mlx5_0 does not register"));
  EXPECT_EQ(ranks.groups[0]->state(), Group::State::failed);
}

}  // namespace
}  // namespace weft::inc::comm::testing
