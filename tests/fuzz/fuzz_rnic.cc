// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: what arrives at an RNIC with a queue pair of each loss recovery and work under way. Records of 16 bytes: most
// make a RoCE packet with a right ICRC and fields near those that are expected, the rest are bytes as they are. Memory
// outside of the regions stays as it was, and what the RNIC sends can be parsed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "nic/rnic/device.h"
#include "switch/wire/parse.h"
#include "tests/fuzz/require.h"

namespace weft::nic {
namespace {

constexpr std::uint32_t kMtu = 256;
constexpr std::uint64_t kLine = 100'000'000'000;  // of the one that has congestion control
constexpr std::size_t kGuard = 64, kRegion = 4096, kRecord = 16;
constexpr std::uint8_t kGuardByte = 0xa5;

/// Judges what is sent.
struct Judge : TxSink {
  void send(const TxFrame& frame) noexcept override {
    std::array<std::uint8_t, 1024> out;
    const auto bytes = static_cast<std::uint32_t>(copy_frame(frame, out));
    wire::Parsed p;
    wire::parse_frame(out.data(), bytes, bytes, p);
    require(p.kind == wire::FrameKind::roce && p.validity == wire::Validity::ok, "what is sent is valid RoCEv2");
    require(wire::icrc_ok(out.data(), p), "what is sent has its ICRC");
    require(++count < 200'000, "what arrives does not set off a storm");
  }
  std::uint64_t count = 0;
};

class Fixture {
 public:
  Fixture()
      : device_({.mac = kOurMac, .address = kOurs, .seed = 7}), pd_(device_.alloc_pd()), cq_(device_.create_cq(4096)) {
    memory_.fill(kGuardByte);
    mr_ = device_.reg_mr(pd_, memory_.data() + kGuard, kRegion, Access::all);
    device_.cm().listen(4711);
    for (const auto recovery : {LossRecovery::gbn, LossRecovery::nic_sr, LossRecovery::irn, LossRecovery::ideal}) {
      QpConfig c;
      c.path_mtu = kMtu;
      c.loss_recovery = recovery;
      c.reorder_window = 64;
      c.rto_ns = 100 * kUs;
      c.max_dest_rd_atomic = 2;
      c.max_inflight_packets = 16;
      if (recovery == LossRecovery::ideal) {
        c.congestion_control = CongestionControl::dcqcn;
        c.dcqcn.near_qcn.enabled = true;
        c.line_bps = kLine;
      }
      Qp& qp = device_.create_qp(pd_, cq_, cq_, c);
      qp.connect(
          {wire::Qpn(0x99), {kOurMac, kTheirMac, kOurs, kTheirs, 0, 64, 0}, wire::Psn(0xfffff0), wire::Psn(0xfffff0)});
      qps_.push_back(&qp);
      receive(qp);
    }
    header_.set({kTheirMac, kOurMac, kTheirs, kOurs, 50000, 64, 0});
  }

  void run(std::span<const std::uint8_t> data) {
    for (; data.size() >= kRecord; data = data.subspan(kRecord)) record(data.first(kRecord));
    const auto exact = std::make_unique<std::uint8_t[]>(data.size());
    std::copy(data.begin(), data.end(), exact.get());
    device_.on_packet(now_, {exact.get(), data.size()}, judge_);
    const double rate = qps_.back()->rate().rate_bps(now_);
    require(rate > 0 && rate <= static_cast<double>(kLine), "no rate is nothing, or more than the line's");
    for (std::size_t i = 0; i < kGuard; ++i) {
      require(memory_[i] == kGuardByte && memory_[kGuard + kRegion + i] == kGuardByte, "memory outside is untouched");
    }
  }

 private:
  static constexpr auto kOurMac = wire::MacAddress::from_u64(0x020000000001);
  static constexpr auto kTheirMac = wire::MacAddress::from_u64(0x020000000002);
  static constexpr auto kOurs = wire::IpAddress::v4(0x0a000001);
  static constexpr auto kTheirs = wire::IpAddress::v4(0x0a000002);

  void receive(Qp& qp) {
    for (int i = 0; i < 4; ++i) static_cast<void>(qp.post_recv(RecvWr().with({mr_.address, 600, mr_.key})));
  }

  void record(std::span<const std::uint8_t> r) {
    Qp& qp = *qps_[r[0] % qps_.size()];
    switch (r[0] >> 4) {
      case 0:
        now_ += Time{r[1]} << (r[2] & 15);
        device_.on_timer(now_, judge_);
        break;
      case 1:
        post(qp, r);
        break;
      case 2:
        receive(qp);
        break;
      case 3: {
        const auto exact = std::make_unique<std::uint8_t[]>(kRecord);
        std::copy(r.begin(), r.end(), exact.get());
        device_.on_packet(now_, {exact.get(), kRecord}, judge_);
        break;
      }
      default:
        packet(qp, r);
    }
    std::array<Wc, 64> done;
    while (cq_.poll(done) > 0) continue;
    while (device_.cm().poll_event()) continue;
  }

  void post(Qp& qp, std::span<const std::uint8_t> r) {
    SendWr wr;
    wr.opcode = static_cast<WrOpcode>(r[1] % 8);
    wr.with({mr_.address + r[2], is_atomic(wr.opcode) ? 8u : r[3] * 8u, mr_.key});
    wr.fence = (r[4] & 1) != 0;
    static_cast<void>(qp.post_send(wr));
    device_.on_timer(now_, judge_);
  }

  void packet(Qp& qp, std::span<const std::uint8_t> r) {
    Packet p;
    p.opcode = static_cast<wire::Opcode>(r[1]);
    const wire::OpcodeInfo& info = p.info();
    if (!info.known()) return;
    const auto near = static_cast<std::uint32_t>(static_cast<std::int8_t>(r[2]));
    p.psn = (info.is_request() ? qp.responder().expected_psn() : wire::Psn(0xfffff0 + r[3])) + near;
    p.ack_req = (r[4] & 1) != 0;
    p.solicited = (r[4] & 2) != 0;
    p.syndrome = r[5];
    p.msn = (r[4] & 4) != 0 ? (p.psn + r[6]).value() : r[6];
    p.remote_address = mr_.address + r[7] * 16u + (r[4] >> 7);
    p.rkey = mr_.key ^ ((r[4] & 8) != 0 ? 1 : 0);
    p.dma_length = r[8] * 32u;
    p.immediate = (r[4] & 16) != 0 ? mr_.key : r[9];
    p.swap_add = r[10];
    p.compare = r[11];
    std::uint32_t payload = r[12] == 255 ? kMtu : r[12];
    if (!info.may_carry_payload()) payload = 0;
    if (info.payload == wire::PayloadRule::required) payload = std::max(payload, 1u);
    std::array<std::uint8_t, 512> data{};
    std::copy(r.begin(), r.end(), data.begin());
    p.payload.set(data.data(), payload);
    std::array<std::uint8_t, kMaxHeadBytes> head;
    std::array<std::uint8_t, 1024> out;
    const auto tos = static_cast<std::uint8_t>(r[13] & 3);
    const wire::Qpn to = r[14] == 1 ? wire::kGsiQpn : qp.qpn();
    const TxFrame frame = make_frame(header_, tos, p, to, head.data());
    if (p.opcode == wire::Opcode::CNP) {  // Reserved bytes, with the EtherType of QCN's notification or without.
      std::uint8_t* const reserved = head.data() + frame.head.size() - wire::kCnpReservedBytes;
      std::copy_n(r.begin(), wire::kCnpReservedBytes, reserved);
      if ((r[15] & 1) != 0) reserved[0] = 0x22, reserved[1] = 0xe9, reserved[2] = 0;
    }
    const std::size_t bytes = copy_frame(frame, out);
    const auto exact = std::make_unique<std::uint8_t[]>(bytes);
    std::copy_n(out.begin(), bytes, exact.get());
    device_.on_packet(now_, {exact.get(), bytes}, judge_);
  }

  std::array<std::uint8_t, kGuard + kRegion + kGuard> memory_;
  Device device_;
  Pd pd_;
  Cq& cq_;
  Mr mr_{};
  std::vector<Qp*> qps_;
  HeaderTemplate header_;
  Judge judge_;
  Time now_ = 1000;
};

}  // namespace
}  // namespace weft::nic

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargest = 4096;
  if (size > kLargest) return 0;
  weft::nic::Fixture fixture;
  fixture.run({data, size});
  return 0;
}
