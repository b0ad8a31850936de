// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/class_queues.h"

#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

using wire::Ecn;

// The queues of port 1 of a switch of two, without an engine around them.
struct Queues {
  explicit Queues(qos::Settings s)
      : settings(std::move(s)),
        pool(make_pool("queues" + std::to_string(serial++), 4096, 2048, 0)),
        buffer(settings, false),
        context{buffer, {}, std::make_unique<QosContext::Blocks>(QosContext::Blocks::blocks_for(4096, 8))} {
    for (const auto& port : settings.ports) context.classifiers.emplace_back(port.map);
    context.classifiers.emplace_back();
    queues = std::make_unique<ClassQueues>(settings, 1, 1518, context);
  }
  ~Queues() {
    while (rte_mbuf* m = queues->take_any()) rte_pktmbuf_free(m);
    EXPECT_EQ(buffer.shared_used(), 0u);
    EXPECT_EQ(queues->size(), 0u);
    EXPECT_EQ(rte_mempool_avail_count(pool.get()), 4096u);
  }
  rte_mbuf* packet(unsigned dscp, Ecn ecn, std::size_t bytes, PortIndex in = 0) {
    const auto f = QosRig::roce(1, dscp, ecn, bytes);
    rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(f.size())), f.data(), f.size());
    meta(m) = PacketMeta{};
    meta(m).in_port = in;
    wire::parse_frame(frame(m), m->data_len, m->pkt_len, meta(m).parsed);
    return m;
  }
  // The reason for which it was refused, if it was.
  std::optional<DropReason> put(rte_mbuf* m) {
    rte_mbuf* refused[1];
    DropReason why[1];
    if (queues->admit(&m, 1, rng, refused, why) == 0) return std::nullopt;
    rte_pktmbuf_free(refused[0]);
    return why[0];
  }
  std::vector<unsigned> take_classes(std::uint16_t max, TimeNs now = 1) {
    rte_mbuf* out[64];
    const std::uint16_t n = queues->take(now, out, max, rng);
    std::vector<unsigned> classes;
    for (std::uint16_t i = 0; i < n; ++i) {
      classes.push_back(meta(out[i]).parsed.tos >> 2);
      rte_pktmbuf_free(out[i]);
    }
    return classes;
  }
  static inline int serial = 0;
  qos::Settings settings;
  Pool pool;
  qos::SharedBuffer buffer;
  QosContext context;
  std::unique_ptr<ClassQueues> queues;
  Rng rng{5};
};

qos::Settings two() {
  return QosRig::settings(2, {.speed_mbps = 10'000, .delay_ns = 0, .mtu_bytes = 1500});
}

TEST(ClassQueues, StrictQueuesLeaveFirstTheHighestOneBeforeAll) {
  Queues q(two());
  for (const unsigned dscp : {0u, 48u, 0u, 56u, 48u}) EXPECT_FALSE(q.put(q.packet(dscp, Ecn::not_ect, 100)));
  EXPECT_EQ(q.take_classes(64), (std::vector<unsigned>{56, 48, 48, 0, 0}));
}

TEST(ClassQueues, EveryReasonToRefuseAPacketIsNamedAndCounted) {
  qos::Settings s = two();
  s.pool_bytes = qos::own_bytes(s) + 100'000;
  s.ports[1].queue[1] = {.static_th_bytes = 3000};
  s.ports[0].group[0] = {.static_th_bytes = 5000};
  s.ports[0].group[3] = {.static_th_bytes = 2000, .headroom_bytes = 2000};
  Queues q(s);
  const auto fill = [&](unsigned dscp) {
    for (int i = 0; i < 100; ++i) {
      if (const auto why = q.put(q.packet(dscp, Ecn::not_ect, 1000))) return *why;
    }
    return DropReason::shutdown;
  };
  EXPECT_EQ(fill(8), DropReason::buffer_egress);
  EXPECT_EQ(fill(16), DropReason::buffer_ingress);
  EXPECT_EQ(fill(26), DropReason::headroom_full);
  EXPECT_EQ(q.queues->counters(1).dropped_queue.value(), 1u);
  EXPECT_EQ(q.queues->counters(2).dropped_group.value(), 1u);
  EXPECT_EQ(q.queues->counters(3).dropped_headroom.value(), 1u);
  EXPECT_EQ(q.buffer.group(0, 3).drops.value(), 1u);
  // Another port's packets of the class are not concerned.
  EXPECT_FALSE(q.put(q.packet(26, Ecn::not_ect, 1000, 1)));
}

TEST(ClassQueues, PacketsThatTheSwitchMadeAreChargedToNoPort) {
  Queues q(two());
  EXPECT_FALSE(q.put(q.packet(26, Ecn::ect0, 1000, kNoPort)));
  for (unsigned g = 0; g < qos::kClasses; ++g) EXPECT_EQ(q.buffer.group(0, g).bytes.value(), 0u);
  EXPECT_GT(q.buffer.shared_used(), 0u);
}

TEST(ClassQueues, AShapedQueueWaitsAndSaysUntilWhen) {
  qos::Settings s = two();
  s.ports[1].scheduler[0].pir_bytes_s = 1'000'000;
  Queues q(s);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(q.put(q.packet(0, Ecn::not_ect, 1000)));
  EXPECT_EQ(q.take_classes(64, 1000).size(), 1u);
  const TimeNs next = q.queues->deadline();
  EXPECT_NEAR(static_cast<double>(next), 1000 + 1'000'000, 50'000);
  EXPECT_EQ(q.take_classes(64, next - 1).size(), 0u);
  EXPECT_EQ(q.take_classes(64, next).size(), 1u);
}

TEST(ClassQueues, AReloadTakesOverWhatWaitsAndClassifiesItAnew) {
  Queues before(two());
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(before.put(before.packet(26, Ecn::ect0, 1000)));
  qos::Settings s = two();
  s.ports[0].map.dscp_to_tc[26] = 5;
  s.pool_bytes = qos::own_bytes(s) + 10;
  Queues after(s);
  after.queues->adopt(*before.queues, [](rte_mbuf*) {});
  EXPECT_EQ(before.queues->size(), 0u);
  EXPECT_EQ(after.queues->size(), 100u);
  EXPECT_EQ(after.buffer.queue(1, 5).packets.value(), 100u);
  const std::uint64_t bytes = after.buffer.queue(1, 5).bytes.value();
  EXPECT_EQ(after.buffer.port_bytes(1).value(), bytes);
  EXPECT_EQ(before.buffer.port_bytes(1).value(), 0u);
  EXPECT_EQ(after.take_classes(64).size(), 64u);
  EXPECT_EQ(after.buffer.port_bytes(1).value(), bytes * 36 / 100);
}

TEST(MarkCe, ChangesNothingButTheEcnFieldAndTheChecksum) {
  Queues q(two());
  rte_mbuf* m = q.packet(27, Ecn::ect1, 200);
  const std::vector<std::uint8_t> was(frame(m), frame(m) + m->data_len);
  mark_ce(m);
  for (std::size_t i = 0; i < was.size(); ++i) {
    if (i == 15 || i == 24 || i == 25) continue;  // TOS and checksum
    EXPECT_EQ(frame(m)[i], was[i]) << i;
  }
  EXPECT_EQ(frame(m)[15], was[15] | 3);
  EXPECT_EQ(meta(m).parsed.tos, frame(m)[15]);
  rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace weft::pipeline
