// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Two RNICs back to back in one thread, without I/O: WRITEs from one to the other, requester and responder together.
// `packets` are those of the WRITEs; the ACKs, one for a message, are told apart.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "nic/rnic/device.h"
#include "switch/wire/icrc.h"

namespace weft::nic {
namespace {

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMessage = 64 * 1024;
constexpr std::uint32_t kDepth = 32;

/// Frames on their way from one device to the other, whole or headers alone.
class Lane : public TxSink {
 public:
  explicit Lane(bool whole) : whole_(whole), bytes_(kSlots * kSlotBytes), frames_(kSlots) {}
  [[nodiscard]] bool ready() noexcept override { return count_ < kSlots; }
  void send(const TxFrame& f) noexcept override {
    std::uint8_t* at = slot(count_);
    std::size_t bytes = f.head.size();
    if (whole_) {
      bytes = copy_frame(f, {at, kSlotBytes});
    } else {
      std::memcpy(at, f.head.data(), bytes);
      // The parser's fast path reads so much; a packet of a simulator lies in a room that has it.
      bytes = std::min<std::size_t>(f.bytes(), 96);
    }
    frames_[count_++] = {static_cast<std::uint32_t>(bytes), f.bytes()};
  }
  template <class Each>
  void drain(Each&& each) noexcept {
    const std::size_t count = count_;
    count_ = 0;
    for (std::size_t i = 0; i < count; ++i)
      each(std::span<const std::uint8_t>(slot(i), frames_[i].there), frames_[i].length);
  }

 private:
  static constexpr std::size_t kSlots = 512, kSlotBytes = 4352;
  struct Frame {
    std::uint32_t there, length;
  };
  std::uint8_t* slot(std::size_t i) noexcept { return bytes_.data() + i * kSlotBytes; }
  bool whole_;
  std::vector<std::uint8_t> bytes_;
  std::vector<Frame> frames_;
  std::size_t count_ = 0;
};

Device& make(std::unique_ptr<Device>& d, std::uint32_t number, bool whole) {
  DeviceConfig c;
  c.mac = wire::MacAddress::from_u64(number);
  c.address = wire::IpAddress::v4(number);
  c.check_icrc = whole;
  d = std::make_unique<Device>(c);
  return *d;
}

void run(benchmark::State& state, bool whole, std::uint32_t mtu) {
  std::unique_ptr<Device> da, db;
  Device &a = make(da, 1, whole), &b = make(db, 2, whole);
  const Pd pa = a.alloc_pd(), pb = b.alloc_pd();
  Cq &ca = a.create_cq(256), &cb = b.create_cq(256);
  QpConfig config;
  config.path_mtu = mtu;
  config.ack_interval = 64;
  Qp &qa = a.create_qp(pa, ca, ca, config), &qb = b.create_qp(pb, cb, cb, config);
  qa.connect({qb.qpn(),
              {a.config().mac, b.config().mac, a.config().address, b.config().address, 0, 64, 0},
              wire::Psn(1),
              wire::Psn(1)});
  qb.connect({qa.qpn(),
              {b.config().mac, a.config().mac, b.config().address, a.config().address, 0, 64, 0},
              wire::Psn(1),
              wire::Psn(1)});
  std::vector<std::uint8_t> from(kMessage, 1), to(kMessage, 2);
  const Mr mf =
      whole ? a.reg_mr(pa, from.data(), kMessage, Access::all) : a.reg_virtual_mr(pa, 0, kMessage, Access::all);
  const Mr mt = whole ? b.reg_mr(pb, to.data(), kMessage, Access::all) : b.reg_virtual_mr(pb, 0, kMessage, Access::all);
  SendWr wr;
  wr.opcode = WrOpcode::write;
  wr.with({mf.address, kMessage, mf.key});
  wr.remote_address = mt.address;
  wr.rkey = mt.key;
  Lane ab(whole), ba(whole);
  Time now = 1;
  std::array<Wc, 64> done;
  std::uint64_t messages = 0, posted = 0;
  for (auto _ : state) {
    while (posted - messages < kDepth && qa.post_send(wr) == PostResult::ok) ++posted;
    a.on_timer(++now, ab);
    ab.drain([&](auto bytes, std::uint32_t length) { b.on_packet(now, bytes, length, ba); });
    ba.drain([&](auto bytes, std::uint32_t length) { a.on_packet(now, bytes, length, ab); });
    messages += ca.poll(done);
  }
  if (messages == 0 || qa.requester().counters().retransmitted != 0) std::abort();
  // All that `b` sends are ACKs.
  const auto packets = static_cast<double>(a.counters().tx_frames), acks = static_cast<double>(b.counters().tx_frames);
  state.counters["packets/s"] = benchmark::Counter(packets, benchmark::Counter::kIsRate);
  state.counters["ACKs/s"] = benchmark::Counter(acks, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<std::int64_t>(messages * kMessage));
}

void BM_rnic_whole_packets(benchmark::State& state) {
  run(state, true, kMtu);
}
BENCHMARK(BM_rnic_whole_packets);

void BM_rnic_headers_only(benchmark::State& state) {
  run(state, false, 1024);
}
BENCHMARK(BM_rnic_headers_only);

/// What moving the same bytes costs at least: a copy and a CRC on either side.
void BM_copy_and_crc(benchmark::State& state) {
  std::vector<std::uint8_t> from(kMessage, 1), wire_bytes(kMessage, 0), to(kMessage, 2);
  for (auto _ : state) {
    for (std::uint32_t at = 0; at < kMessage; at += kMtu) {
      std::memcpy(wire_bytes.data() + at, from.data() + at, kMtu);
      const wire::RoceLayout layout{0, 20, kMtu, false};
      benchmark::DoNotOptimize(wire::icrc_full(wire_bytes.data() + at, layout));
      benchmark::DoNotOptimize(wire::icrc_full(wire_bytes.data() + at, layout));
      std::memcpy(to.data() + at, wire_bytes.data() + at, kMtu);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * kMessage);
}
BENCHMARK(BM_copy_and_crc);

}  // namespace
}  // namespace weft::nic

BENCHMARK_MAIN();
