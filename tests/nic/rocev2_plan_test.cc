// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The checks of sonic-mgmt's RoCEv2 test plan, as this project's own: RNICs on the ports of a switch with qos, in
// virtual time. Data in two lossless queues (DSCP 3 and 4), CNPs, ACKs and NAKs with DSCP 48 in queue 6, path MTU 4096,
// messages of 1 MiB.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/nic/rnic/fabric.h"
#include "tests/switch/pipeline/qos_rig.h"

namespace weft::nic {
namespace {

using pipeline::ClassQueues;
using pipeline::PortIndex;
using pipeline::QosRig;
using pipeline::SentFrame;
using testing::Bytes;
using testing::Node;

constexpr std::uint64_t kRateMbps = 10'000;
constexpr Time kDelay = kUs;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMessageBytes = 1 << 20;
constexpr PortIndex kPorts = 4;
constexpr PortIndex kReceiver = 3;
constexpr unsigned kControlQueue = 6;

qos::Settings settings(std::uint64_t shared_bytes) {
  qos::Settings s = QosRig::settings(kPorts, {.speed_mbps = kRateMbps, .delay_ns = kDelay, .mtu_bytes = 4200});
  s.pool_bytes = qos::own_bytes(s) + shared_bytes;
  return s;
}

pipeline::RigOptions rig_options(qos::Settings s) {
  pipeline::RigOptions o;
  o.ports = kPorts;
  o.rate_mbps = kRateMbps;
  o.buffers = 6000;
  o.data_room_bytes = 4608;
  o.mtu_bytes = 4200;
  o.qos = std::move(s);
  return o;
}

/// A flow of WRITEs from a host of its own to the receiver.
struct Flow {
  unsigned dscp = 3;
  std::uint32_t messages = 4;
  CongestionControl cc = CongestionControl::none;
  std::uint64_t rate_bps = 0;  ///< 0: as fast as the link
};

/// Hosts on ports 0 to 2, each with a flow to the one on port 3. Pauses stop a host in the class of its flow.
class Lab {
 public:
  Lab(const qos::Settings& s, std::vector<Flow> flows) : rig(rig_options(s)), flows_(std::move(flows)) {
    rig.keep_frames = false;
    rig.on_sent = [this](PortIndex port, const SentFrame& f) { leave(port, f); };
    for (PortIndex p = 0; p < kPorts; ++p) {
      hosts_.push_back(std::make_unique<Host>(*this, p));
      pfc_class_.push_back(p < flows_.size() ? rig.state->info().qos->ports[p].map.dscp_to_tc[flows_[p].dscp] : 0);
    }
    for (PortIndex p = 0; p < flows_.size(); ++p) connect(p);
  }

  /// Runs until all messages are done; false when they are not within the time.
  bool run(Time limit = 400 * kMs) {
    const Time end = now() + limit;
    while (completed_ < expected_) {
      const Time next = next_time();
      if (next == kNever || next > end) return false;
      rig.now = static_cast<TimeNs>(std::max(next, now() + 1));
      step();
    }
    // What is still on its way: the last ACKs, and XON.
    for (const Time quiet = now() + 5 * kMs; next_time() <= quiet;) {
      rig.now = static_cast<TimeNs>(std::max(next_time(), now() + 1));
      step();
    }
    return true;
  }

  [[nodiscard]] const Qp& sender(PortIndex p) const { return *hosts_[p]->node.qp; }
  [[nodiscard]] const Qp& receiver(PortIndex p) const { return *receivers_[p]; }
  [[nodiscard]] const pipeline::QueueCounters& queue(PortIndex port, unsigned queue) const {
    return rig.queues(port).counters(queue);
  }
  [[nodiscard]] std::uint64_t sum(auto&& of_flow) const {
    std::uint64_t total = 0;
    for (PortIndex p = 0; p < flows_.size(); ++p) total += of_flow(p);
    return total;
  }
  [[nodiscard]] std::uint64_t retransmitted() const {
    return sum([&](PortIndex p) { return sender(p).requester().counters().retransmitted; });
  }
  [[nodiscard]] std::uint64_t naks() const {
    return sum([&](PortIndex p) { return receiver(p).responder().counters().naks_sent; });
  }
  [[nodiscard]] std::uint64_t cnps_sent() const {
    return sum([&](PortIndex p) { return receiver(p).counters().cnps_sent; });
  }
  [[nodiscard]] std::uint64_t cnps_received() const {
    return sum([&](PortIndex p) { return sender(p).counters().cnps_received; });
  }
  [[nodiscard]] std::uint64_t ce_received() const {
    return sum([&](PortIndex p) { return receiver(p).counters().ce_marked; });
  }
  [[nodiscard]] std::uint64_t marked() const {
    std::uint64_t total = 0;
    for (unsigned q = 0; q < qos::kClasses; ++q) total += queue(kReceiver, q).ecn_marked.value();
    return total;
  }
  [[nodiscard]] std::uint64_t xoffs() const {
    std::uint64_t total = 0;
    for (PortIndex p = 0; p < kPorts; ++p) {
      for (unsigned i = 0; i < qos::kClasses; ++i) total += rig.queues(p).sender().counters().xoff[i].value();
    }
    return total;
  }
  [[nodiscard]] std::uint64_t dropped() const { return rig.pipelines[0]->totals().all_dropped(); }

  QosRig rig;
  Time first_ce = kNever;  ///< when the receiver saw the first mark

 private:
  struct Host : TxSink {
    Host(Lab& l, PortIndex p)
        : lab(l),
          port(p),
          node(0x0a000001u + p, 0x020000000000u + p, DeviceConfig{.link_bps = kRateMbps * 1'000'000, .seed = 5}) {
      node.memory(kMessageBytes, p);
    }
    void send(const TxFrame& frame) noexcept override {
      Bytes bytes(frame.bytes());
      if (copy_frame(frame, bytes) != bytes.size()) std::abort();
      lab.events_.insert({lab.now() + kDelay, {port, false, std::move(bytes)}});
    }
    Lab& lab;
    PortIndex port;
    Node node;
    Time paused_until = 0;
  };
  struct Event {
    PortIndex port;
    bool to_host;
    Bytes bytes;
  };

  [[nodiscard]] Time now() const { return static_cast<Time>(rig.now); }

  void connect(PortIndex p) {
    const Flow& flow = flows_[p];
    QpConfig config;
    config.path_mtu = kMtu;
    config.dscp = static_cast<std::uint8_t>(flow.dscp);
    config.ack_dscp = 48;
    config.congestion_control = flow.cc;
    config.line_bps = flow.rate_bps != 0 ? flow.rate_bps : kRateMbps * 1'000'000;
    config.dcqcn = *dcqcn_parameters("hpcc_mix", config.line_bps);
    config.rto_ns = 20 * kMs;
    config.max_inflight_packets = 2048;
    Node& from = hosts_[p]->node;
    Node& to = hosts_[kReceiver]->node;
    from.create_qp(config);
    to.create_qp(config);
    receivers_.push_back(to.qp);
    from.qp->connect(testing::Fabric::peer(from, to, wire::Psn(1000u + p), wire::Psn(2000u + p)));
    to.qp->connect(testing::Fabric::peer(to, from, wire::Psn(2000u + p), wire::Psn(1000u + p)));
    for (std::uint32_t i = 0; i < flow.messages; ++i) {
      SendWr wr;
      wr.opcode = WrOpcode::write;
      wr.with(from.sge(0, kMessageBytes));
      wr.remote_address = to.mr.address;
      wr.rkey = to.mr.key;
      if (from.qp->post_send(wr) != PostResult::ok) std::abort();
      ++expected_;
    }
  }

  [[nodiscard]] Time next_time() const {
    const TimeNs of_switch = rig.pipelines[0]->next_deadline();
    Time next = of_switch == weft::kNever ? kNever : static_cast<Time>(of_switch);
    if (!events_.empty()) next = std::min(next, events_.begin()->first);
    for (const auto& host : hosts_) {
      next = std::min(next, host->node.device.next_deadline());
      if (host->paused_until > now()) next = std::min(next, host->paused_until);
    }
    return next;
  }

  void step() {
    while (!events_.empty() && events_.begin()->first <= now()) {
      const Event event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      if (event.to_host) {
        arrive(*hosts_[event.port], event.bytes);
      } else {
        rig.arrive(event.port, event.bytes);
      }
    }
    for (auto& host : hosts_) {
      host->node.device.set_paused(host->paused_until > now() ? ~std::uint64_t{0} : 0);
      if (host->node.device.next_deadline() <= now()) host->node.device.on_timer(now(), *host);
      for (const Wc& wc : host->node.poll()) {
        EXPECT_EQ(wc.status, WcStatus::success);
        ++completed_;
      }
    }
    rig.run_until_quiet();
  }

  void leave(PortIndex port, const SentFrame& f) { events_.insert({now() + kDelay, {port, true, f.bytes}}); }

  void arrive(Host& host, const Bytes& bytes) {
    wire::Parsed parsed;
    const auto length = static_cast<std::uint32_t>(bytes.size());
    wire::parse_frame(bytes.data(), length, length, parsed);
    if (parsed.kind != wire::FrameKind::mac_control) {
      if ((parsed.tos & 3) == 3) first_ce = std::min(first_ce, now());
      return host.node.device.on_packet(now(), bytes, host);
    }
    const auto& pfc = wire::header_at<wire::PfcHeader>(bytes.data() + 14);
    const unsigned priority = pfc_class_[host.port];
    if (!pfc.enabled(priority)) return;
    host.paused_until = now() + static_cast<Time>(qos::pause_ns(pfc.quanta[priority].value(), kRateMbps));
    host.node.device.set_paused(host.paused_until > now() ? ~std::uint64_t{0} : 0);
  }

  std::vector<Flow> flows_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Qp*> receivers_;
  std::vector<unsigned> pfc_class_;
  std::multimap<Time, Event> events_;
  std::size_t completed_ = 0, expected_ = 0;
};

std::uint64_t packets(const Flow& flow) {
  return flow.messages * (kMessageBytes / kMtu);
}

TEST(Rocev2Plan, TwoLosslessQueuesWithoutCongestionLoseMarkPauseAndRepeatNothing) {
  const std::vector<Flow> flows{{.dscp = 3, .rate_bps = 4'000'000'000}, {.dscp = 4, .rate_bps = 4'000'000'000}};
  Lab lab(settings(12'000'000), flows);
  ASSERT_TRUE(lab.run());
  EXPECT_EQ(lab.queue(kReceiver, 3).packets.value(), packets(flows[0]));
  EXPECT_EQ(lab.queue(kReceiver, 4).packets.value(), packets(flows[1]));
  EXPECT_EQ(lab.dropped(), 0u);
  EXPECT_EQ(lab.retransmitted(), 0u);
  EXPECT_EQ(lab.naks(), 0u);
  EXPECT_EQ(lab.marked(), 0u);
  EXPECT_EQ(lab.cnps_sent(), 0u);
  EXPECT_EQ(lab.xoffs(), 0u);
  for (const PortIndex p : {PortIndex{0}, PortIndex{1}}) {
    const std::uint64_t acks = lab.receiver(p).responder().counters().acks_sent;
    EXPECT_GT(acks, 0u);
    EXPECT_EQ(lab.sender(p).requester().counters().acks, acks) << "ACKs sent and received";
    EXPECT_EQ(lab.queue(p, kControlQueue).packets.value(), acks) << "ACKs go by their own DSCP";
    EXPECT_EQ(lab.queue(p, 3).packets.value() + lab.queue(p, 4).packets.value(), 0u);
  }
}

TEST(Rocev2Plan, LosslessFlowsLoseNothingUnderThreeToOneIncastAndLossyOnesDo) {
  for (const auto model : {qos::BufferModel::hpcc, qos::BufferModel::conweave}) {
    qos::Settings s = settings(1'500'000);
    s.model = model;
    for (auto& port : s.ports) port.wred = {};  // PFC alone
    const std::vector<Flow> lossless{{.dscp = 3}, {.dscp = 4}, {.dscp = 3}};
    Lab lab(s, lossless);
    ASSERT_TRUE(lab.run());
    EXPECT_EQ(lab.dropped(), 0u) << "frames";
    EXPECT_EQ(lab.retransmitted(), 0u);
    EXPECT_EQ(lab.naks(), 0u);
    EXPECT_EQ(lab.queue(kReceiver, 3).packets.value(), packets(lossless[0]) + packets(lossless[2]));
    EXPECT_EQ(lab.queue(kReceiver, 4).packets.value(), packets(lossless[1]));
    EXPECT_EQ(lab.marked() + lab.cnps_sent(), 0u) << "nobody asked for marks";
    for (PortIndex p = 0; p < 3; ++p) {
      const auto& sent = lab.rig.queues(p).sender().counters();
      const unsigned tc = lossless[p].dscp;
      EXPECT_GT(sent.xoff[tc].value(), 0u) << "the sender had to be paused";
      EXPECT_EQ(sent.xoff[tc].value(), sent.xon[tc].value());
      EXPECT_EQ(sent.xoff[7 - tc].value(), 0u) << "nobody else's class";
    }
  }
  const std::vector<Flow> lossy{{.dscp = 8}, {.dscp = 8}, {.dscp = 8}};
  qos::Settings s = settings(1'500'000);
  for (auto& port : s.ports) port.queue[1] = {.static_th_bytes = 400'000};
  Lab lab(s, lossy);
  ASSERT_TRUE(lab.run()) << "RC repeats what the class loses";
  EXPECT_GT(lab.queue(kReceiver, 1).dropped_queue.value(), 0u);
  EXPECT_GE(lab.retransmitted(), lab.queue(kReceiver, 1).dropped_queue.value());
  EXPECT_GT(lab.naks(), 0u);
  EXPECT_EQ(lab.xoffs(), 0u);
}

// Marks long before pauses: 40 kB to 160 kB, and room for 3 MB.
constexpr std::uint32_t kLongMessages = 12;
std::vector<Flow> long_flows(CongestionControl cc) {
  return {{.dscp = 3, .messages = kLongMessages, .cc = cc},
          {.dscp = 4, .messages = kLongMessages, .cc = cc},
          {.dscp = 3, .messages = kLongMessages, .cc = cc}};
}

TEST(Rocev2Plan, WithDcqcnEveryMarkIsCountedWhereItIsMadeSeenAndAnsweredAndQueueSixCarriesEveryCnp) {
  Lab lab(settings(12'000'000), long_flows(CongestionControl::dcqcn));
  ASSERT_TRUE(lab.run());
  EXPECT_EQ(lab.dropped(), 0u);
  EXPECT_EQ(lab.retransmitted(), 0u);
  EXPECT_EQ(lab.naks(), 0u);
  EXPECT_GT(lab.queue(kReceiver, 3).ecn_marked.value(), 0u);
  EXPECT_GT(lab.queue(kReceiver, 4).ecn_marked.value(), 0u);
  EXPECT_EQ(lab.marked(), lab.ce_received());
  EXPECT_EQ(lab.queue(kReceiver, kControlQueue).ecn_marked.value(), 0u);
  EXPECT_GT(lab.cnps_sent(), 0u);
  EXPECT_EQ(lab.cnps_sent(), lab.cnps_received());
  for (PortIndex p = 0; p < 3; ++p) {
    EXPECT_GT(lab.sender(p).counters().cnps_received, 0u);
    const auto& answers = lab.receiver(p);
    EXPECT_EQ(lab.queue(p, kControlQueue).packets.value(),
              answers.responder().counters().acks_sent + answers.counters().cnps_sent);
  }
}

TEST(Rocev2Plan, WithoutCongestionControlTheIncastIsHeldByPausesAndWithDcqcnByMarks) {
  // The buffer is large enough for what senders have on their way before the first marks work, and no larger.
  const qos::Settings s = settings(6'000'000);
  Lab pfc(s, long_flows(CongestionControl::none));
  ASSERT_TRUE(pfc.run());
  Lab dcqcn(s, long_flows(CongestionControl::dcqcn));
  ASSERT_TRUE(dcqcn.run());
  for (const Lab* lab : {&pfc, &dcqcn}) {
    EXPECT_EQ(lab->dropped(), 0u);
    EXPECT_EQ(lab->retransmitted(), 0u);
  }
  EXPECT_GT(pfc.xoffs(), 0u);
  EXPECT_EQ(dcqcn.xoffs(), 0u);
  EXPECT_GT(pfc.marked(), 4 * dcqcn.marked()) << "senders that do not slow down are marked all the time";
  EXPECT_EQ(pfc.cnps_sent(), pfc.cnps_received());
}

TEST(Rocev2Plan, MarksAtDequeueTellTheReceiverEarlierThanMarksAtEnqueue) {
  const auto first_mark = [](qos::WredSettings::Point point) {
    qos::Settings s = settings(12'000'000);
    for (auto& port : s.ports) {
      for (const unsigned q : {3u, 4u}) {
        port.wred[q]->mark = {200'000, 200'000, 1};
        port.wred[q]->mark_at = point;
      }
    }
    Lab lab(s, {{.dscp = 3}, {.dscp = 3}, {.dscp = 3}});
    EXPECT_TRUE(lab.run());
    return lab.first_ce;
  };
  const Time dequeue = first_mark(qos::WredSettings::Point::dequeue);
  const Time enqueue = first_mark(qos::WredSettings::Point::enqueue);
  // 200,000 bytes take 160 us at 10 Gbit/s: so long the mark of the packet that came last has to wait in the queue.
  EXPECT_GT(enqueue, dequeue + 150 * kUs);
}

}  // namespace
}  // namespace weft::nic
