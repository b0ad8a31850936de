// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The traffic of bench/ndr: sends RoCEv2 frames with numbers and time stamps into a device at a given rate, and counts
// what comes out of it. One thread, two DPDK ports. It reads trials from the standard input, a JSON object a line,
//
//   {"rate_pps": 1000000, "seconds": 1}      0 pps: as fast as it can
//
// and answers each with a line: what was intended and really sent, what arrived, twice or out of order, how long the
// frames took in the device, and how many found its receive ring full. Both count as lost: a wire does not wait.
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/ndr/tally.h"
#include "nic/dpdk/eal.h"
#include "switch/wire/builder.h"

namespace weft::ndr {
namespace {

constexpr std::uint16_t kBurst = 32, kDescriptors = 1024;
constexpr std::uint32_t kBuffers = 16384, kCache = 256;
/// Frames that may be sent late at once, when the thread had to wait for its CPU: a quarter of a device's ring, because
/// a burst that is much larger would lose frames in a device that is fast enough.
constexpr double kLateFrames = 256;
constexpr double kDrainS = 0.5, kQuietS = 0.05, kConnectS = 20;
constexpr std::uint32_t kFirstQpn = 0x100;
/// Ethernet, IPv4, UDP, BTH; the stamp follows.
constexpr std::size_t kDestinationQp = 14 + 20 + 8 + 5, kPsn = 14 + 20 + 8 + 9, kStampAt = 14 + 20 + 8 + 12;

/// Begin of each frame's payload.
struct Stamp {
  std::uint64_t tsc = 0;
  std::uint64_t number = 0;
  std::uint32_t trial = 0;
  std::uint32_t direction = 0;
};
constexpr std::size_t kLeastFrame = kStampAt + sizeof(Stamp) + 4;

struct Options {
  std::vector<std::string> ports;
  std::uint32_t frame_bytes = kLeastFrame;
  std::uint32_t qps = 16;
  bool both = false;
  std::uint16_t rx_queues = 1;
  std::string memory = "--no-huge";
};

[[noreturn]] void die(const std::string& what) {
  std::cerr << "ndr-traffic: " << what << "\n";
  std::exit(1);
}

class Port {
 public:
  Port(const std::string& devargs, rte_mempool* pool, std::uint16_t rx_queues) : rx_queues_(rx_queues) {
    if (rte_dev_probe(devargs.c_str()) != 0) die("DPDK cannot open the device '" + devargs + "'");
    rte_dev_iterator iterator{};
    std::uint16_t id = 0;
    RTE_ETH_FOREACH_MATCHING_DEV(id, devargs.c_str(), &iterator) id_ = id;
    if (id_ == RTE_MAX_ETHPORTS) die("DPDK has no driver for the device '" + devargs + "'");
    rte_eth_conf configuration{};
    if (rte_eth_dev_configure(id_, rx_queues_, 1, &configuration) != 0) die(devargs + ": it refuses its configuration");
    std::uint16_t rx = kDescriptors, tx = kDescriptors;
    rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
    bool ok = rte_eth_tx_queue_setup(id_, 0, tx, 0, nullptr) == 0;
    for (std::uint16_t q = 0; q < rx_queues_; ++q) ok = ok && rte_eth_rx_queue_setup(id_, q, rx, 0, nullptr, pool) == 0;
    if (!ok) die(devargs + ": it has no queues");
  }
  /// False while the other end is not there.
  bool up() {
    if (!started_) started_ = rte_eth_dev_start(id_) == 0;
    if (!started_) return false;
    rte_eth_link link{};
    return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  }
  /// A burst of one of the queues, in turn.
  std::uint16_t receive(rte_mbuf** m) {
    next_ = static_cast<std::uint16_t>(next_ + 1 < rx_queues_ ? next_ + 1 : 0);
    return rte_eth_rx_burst(id_, next_, m, kBurst);
  }
  /// How many were taken; the others are freed.
  std::uint16_t send(rte_mbuf** m, std::uint16_t count) {
    const std::uint16_t taken = rte_eth_tx_burst(id_, 0, m, count);
    rte_pktmbuf_free_bulk(m + taken, count - taken);
    return taken;
  }

 private:
  std::uint16_t id_ = RTE_MAX_ETHPORTS;
  std::uint16_t rx_queues_, next_ = 0;
  bool started_ = false;
};

/// What goes in at one port and comes out at the other.
class Direction {
 public:
  Direction(std::uint32_t index, Port& from, Port& to, rte_mempool* pool, const Options& o)
      : index_(index), from_(from), to_(to), pool_(pool), bytes_(o.frame_bytes), psn_(o.qps, 0) {
    const auto mac = [](std::uint32_t n) { return wire::MacAddress::from_u64(0x02'00'00'00'0d'00 + n); };
    const std::string source = "10.0.0." + std::to_string(index + 1), to_ip = "10.0.0." + std::to_string(2 - index);
    frame_ = wire::FrameBuilder()
                 .eth(mac(index + 1), mac(2 - index))
                 .ipv4(source, to_ip)
                 .udp(49152)
                 .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(kFirstQpn), wire::Psn(0))
                 .payload(o.frame_bytes - kStampAt - 4)
                 .build();
  }

  void begin(std::uint32_t trial) {
    trial_ = trial;
    sent_ = ring_full_ = 0;
    tally_ = Tally(static_cast<std::uint32_t>(psn_.size()));
  }
  /// Sends `count` frames, at most a burst.
  void send(std::uint16_t count) {
    std::array<rte_mbuf*, kBurst> m;
    if (rte_pktmbuf_alloc_bulk(pool_, m.data(), count) != 0) return;
    const std::uint64_t now = rte_rdtsc();
    for (std::uint16_t i = 0; i < count; ++i) {
      auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m[i], static_cast<std::uint16_t>(bytes_)));
      std::memcpy(at, frame_.data(), bytes_);
      const std::uint64_t number = sent_ + i;
      const auto qp = static_cast<std::uint32_t>(number % psn_.size());
      put24(at + kDestinationQp, kFirstQpn + qp);
      put24(at + kPsn, psn_[qp]++);
      const Stamp stamp{now, number, trial_, index_};
      std::memcpy(at + kStampAt, &stamp, sizeof stamp);
    }
    sent_ += count;
    ring_full_ += count - from_.send(m.data(), count);
  }
  /// Takes what has come out; returns how many frames.
  std::uint16_t receive() {
    std::array<rte_mbuf*, kBurst> m;
    const std::uint16_t count = to_.receive(m.data());
    if (count == 0) return 0;
    const std::uint64_t now = rte_rdtsc();
    for (std::uint16_t i = 0; i < count; ++i) take(now, *m[i]);
    rte_pktmbuf_free_bulk(m.data(), count);
    return count;
  }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t ring_full() const { return ring_full_; }
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  static void put24(std::uint8_t* at, std::uint32_t v) {
    at[0] = static_cast<std::uint8_t>(v >> 16);
    at[1] = static_cast<std::uint8_t>(v >> 8);
    at[2] = static_cast<std::uint8_t>(v);
  }
  void take(std::uint64_t now, const rte_mbuf& m) {
    if (m.data_len != bytes_) return;
    Stamp stamp;
    std::memcpy(&stamp, rte_pktmbuf_mtod(&m, const std::uint8_t*) + kStampAt, sizeof stamp);
    // Frames of an earlier trial, and what the device says by itself.
    if (stamp.trial != trial_ || stamp.direction != index_ || stamp.number >= sent_) return;
    const std::uint64_t ticks = now > stamp.tsc ? now - stamp.tsc : 0;
    tally_.arrived(static_cast<std::uint32_t>(stamp.number % psn_.size()), stamp.number,
                   static_cast<std::uint64_t>(static_cast<double>(ticks) * ns_per_tick_));
  }

  std::uint32_t index_;
  Port& from_;
  Port& to_;
  rte_mempool* pool_;
  std::size_t bytes_;
  std::vector<std::uint32_t> psn_;
  std::vector<std::uint8_t> frame_{};
  double ns_per_tick_ = 1e9 / static_cast<double>(rte_get_tsc_hz());
  std::uint32_t trial_ = 0;
  std::uint64_t sent_ = 0, ring_full_ = 0;
  Tally tally_{1};
};

class Traffic {
 public:
  explicit Traffic(const Options& o) {
    pool_ = rte_pktmbuf_pool_create(
        "frames", kBuffers, kCache, 0,
        static_cast<std::uint16_t>(std::max(o.frame_bytes + 64, 2048u)) + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
    if (pool_ == nullptr) die(std::string("no memory for packet buffers: ") + rte_strerror(rte_errno));
    for (const std::string& devargs : o.ports) ports_.push_back(std::make_unique<Port>(devargs, pool_, o.rx_queues));
    directions_.emplace_back(0, *ports_[0], *ports_[1], pool_, o);
    if (o.both) directions_.emplace_back(1, *ports_[1], *ports_[0], pool_, o);
    teacher_ = std::make_unique<Direction>(1, *ports_[1], *ports_[0], pool_, o);
  }

  void connect() {
    const std::uint64_t end = rte_rdtsc() + ticks(kConnectS);
    for (const auto& port : ports_) {
      while (!port->up()) {
        if (rte_rdtsc() > end) die("a port has no other end");
        usleep(10'000);
      }
    }
  }

  nlohmann::ordered_json trial(double rate_pps, double seconds) {
    ++trial_;
    // Bridges learn where both ends are.
    teacher_->begin(0);
    teacher_->send(1);
    drain();
    for (Direction& d : directions_) d.begin(trial_);
    const std::uint64_t begin = rte_rdtsc(), length = ticks(seconds);
    const double per_tick = rate_pps / static_cast<double>(directions_.size()) / static_cast<double>(rte_get_tsc_hz());
    double credit = 0;
    std::uint64_t last = begin, now = begin;
    for (; now - begin < length; now = rte_rdtsc()) {
      credit = std::min(credit + static_cast<double>(now - last) * per_tick, kLateFrames);
      last = now;
      const auto due = rate_pps == 0 ? kBurst : static_cast<std::uint16_t>(std::min<double>(credit, kBurst));
      for (Direction& d : directions_) {
        if (due > 0) d.send(due);
        d.receive();
      }
      credit -= due;
    }
    const double took = static_cast<double>(now - begin) / static_cast<double>(rte_get_tsc_hz());
    drain();
    return result(rate_pps * took, took);
  }

 private:
  static std::uint64_t ticks(double seconds) {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(rte_get_tsc_hz()));
  }
  /// Receives until nothing comes any more.
  void drain() {
    const std::uint64_t end = rte_rdtsc() + ticks(kDrainS);
    std::uint64_t last = rte_rdtsc();
    for (std::uint64_t now = last; now < end && now - last < ticks(kQuietS); now = rte_rdtsc()) {
      std::uint16_t some = teacher_->receive();
      for (Direction& d : directions_) some |= d.receive();
      if (some > 0) last = now;
    }
  }
  nlohmann::ordered_json result(double intended, double seconds) const {
    std::uint64_t sent = 0, received = 0, duplicates = 0, reordered = 0, full = 0;
    nlohmann::ordered_json latency = nlohmann::ordered_json::array();
    for (const Direction& d : directions_) {
      sent += d.sent();
      full += d.ring_full();
      received += d.tally().received();
      duplicates += d.tally().duplicates();
      reordered += d.tally().reordered();
      const Histogram& h = d.tally().latency();
      latency.push_back(
          {{"p50", h.quantile(0.5)}, {"p99", h.quantile(0.99)}, {"p99.9", h.quantile(0.999)}, {"max", h.largest()}});
    }
    return {{"seconds", seconds},     {"intended", static_cast<std::uint64_t>(intended)},
            {"sent", sent},           {"received", received},
            {"ring_full", full},      {"duplicates", duplicates},
            {"reordered", reordered}, {"latency_ns", std::move(latency)}};
  }

  rte_mempool* pool_ = nullptr;
  std::vector<std::unique_ptr<Port>> ports_{};
  std::vector<Direction> directions_{};
  std::unique_ptr<Direction> teacher_{};
  std::uint32_t trial_ = 0;
};

void start_eal(const Options& o) {
  std::vector<std::string> words{"ndr-traffic",
                                 "--no-pci",
                                 "--no-shconf",
                                 "--no-telemetry",
                                 "-m",
                                 "256",
                                 "--log-level=error",
                                 "--log-level=pmd.net.memif:critical",
                                 "--lcores=0@(" + nic::allowed_cpus() + ")",
                                 o.memory};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    die(std::string("DPDK did not start: ") + rte_strerror(rte_errno));
  }
}

int serve(Traffic& traffic) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = nlohmann::json::parse(line, nullptr, false);
    if (!asked.is_object() || !asked.value("seconds", nlohmann::json()).is_number() ||
        !asked.value("rate_pps", nlohmann::json()).is_number()) {
      die("not a trial: " + line);
    }
    const double rate = asked["rate_pps"], seconds = asked["seconds"];
    if (!(rate >= 0) || !(seconds > 0) || seconds > 3600) die("not a trial: " + line);
    std::cout << traffic.trial(rate, seconds).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace weft::ndr

int main(int argc, char** argv) {
  using namespace weft::ndr;
  Options o;
  CLI::App app{"The traffic of bench/ndr/run: trials are read from the standard input, results written to the output."};
  app.add_option("--port", o.ports, "DPDK device; two of them")->required()->expected(2);
  app.add_option("--frame-bytes", o.frame_bytes, "Size of a frame without FCS")
      ->check(CLI::Range(static_cast<std::uint32_t>(kLeastFrame), 9000u));
  app.add_option("--qps", o.qps, "Queue pairs of a direction")->check(CLI::Range(1u, 1u << 20));
  app.add_option("--rx-queues", o.rx_queues, "Queues of a port, for devices that send on several")
      ->check(CLI::Range(1, 16));
  app.add_flag("--both", o.both, "Frames in both directions");
  bool huge = false;
  app.add_flag("--hugepages", huge, "Packet memory in hugepages");
  CLI11_PARSE(app, argc, argv);
  if (huge) o.memory = "--in-memory";
  start_eal(o);
  Traffic traffic(o);
  traffic.connect();
  std::cout << "{\"ready\": true}" << std::endl;
  return serve(traffic);
}
