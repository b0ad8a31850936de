// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Vectors beyond 1 GiB, which is what one invocation of the switches takes at most, with addresses and no memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "collectives/comm/request.h"

namespace weft::inc::comm {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// What a rank sends: its control messages, and where its data is.
struct Sent {
  std::vector<ControlMessage> controls;
  const std::uint8_t* next = nullptr;  ///< behind the data so far
  std::uint64_t bytes = 0, gaps = 0, strange = 0;
};

/// Acknowledges at once, and brings nothing.
class SinkPair final : public QueuePair {
 public:
  explicit SinkPair(Sent& sent) : sent_(sent) {}
  QpEnd end() const override { return {}; }
  ConnectState connect(const QpEnd&, std::optional<std::uint32_t>) override { return ConnectState::connected; }
  bool send(std::uint64_t, const void* data, std::uint32_t bytes, std::uint32_t,
            std::optional<std::uint32_t> immediate) override {
    ++acks_;
    const auto* at = static_cast<const std::uint8_t*>(data);
    if (immediate) {
      ControlMessage control;
      if (read_control(*immediate, {at, bytes}, control)) ++sent_.strange;
      sent_.controls.push_back(control);
    } else {
      if (sent_.next != nullptr && at != sent_.next) ++sent_.gaps;
      sent_.next = at + bytes;
      sent_.bytes += bytes;
    }
    return true;
  }
  bool receive(std::uint64_t, void*, std::uint32_t, std::uint32_t) override { return true; }
  std::size_t poll_sent(std::span<Completion> out) override {
    const std::size_t n = std::min(acks_, out.size());
    std::fill_n(out.begin(), n, Completion{});
    acks_ -= n;
    return n;
  }
  std::size_t poll_received(std::span<Completion>) override { return 0; }

 private:
  Sent& sent_;
  std::size_t acks_ = 0;
};

class SinkTransport final : public Transport {
 public:
  explicit SinkTransport(Sent& sent) : sent_(sent) {}
  std::uint32_t largest_mtu() const override { return 4096; }
  std::unique_ptr<QueuePair> create_qp(const QpSettings&) override { return std::make_unique<SinkPair>(sent_); }
  std::uint32_t register_memory(const void*, std::size_t bytes) override {
    largest = std::max(largest, bytes);
    return 1;
  }
  void forget(std::uint32_t) override {}
  std::size_t largest = 0;

 private:
  Sent& sent_;
};

class LargeVector : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    memory_ = mmap(nullptr, 3 * kGiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
  }
  void TearDown() override { munmap(memory_, 3 * kGiB); }
  void* memory_ = nullptr;
};

TEST_P(LargeVector, GoesInInvocationsOfAGibibyteAndWhatIsLeft) {
  const std::uint64_t bytes = GetParam();
  for (const Collective collective : {Collective::reduce, Collective::broadcast}) {
    Sent sent;
    SinkTransport transport(sent);
    Memory memory(transport);
    SwitchPath path(transport, 1, {4096, 64, 8});
    ASSERT_EQ(path.connect({}, 7, 8), ConnectState::connected);
    // This rank gives the Reduce, and is the root of the Broadcast: it gets nothing of either.
    const Call call{
        collective, memory_, memory_, bytes / 4, DataType::fp32, Op::sum, collective == Collective::reduce ? 0u : 1u};
    ASSERT_EQ(check(call, 1, 4), "");
    Request request(memory, call, 1, 4);
    request.start(path);
    while (path.progress()) {
    }
    EXPECT_EQ(path.error(), "");
    EXPECT_EQ(path.completed(), request.last_invocation);
    ASSERT_EQ(sent.controls.size(), (bytes + kGiB - 1) / kGiB);
    for (std::size_t i = 0; i < sent.controls.size(); ++i) {
      EXPECT_EQ(sent.controls[i].bytes, std::min(kGiB, bytes - i * kGiB));
    }
    // From the first byte to the last, each once and in order.
    EXPECT_EQ(sent.bytes, bytes);
    EXPECT_EQ(sent.next, static_cast<const std::uint8_t*>(memory_) + bytes);
    EXPECT_EQ(sent.gaps + sent.strange, 0u);
    EXPECT_EQ(transport.largest, bytes) << "registered as a whole";
  }
}

/// Nobody answers the network while a request begins, so that is not the time to copy a vector: no memory is touched.
TEST_P(LargeVector, NoneOfItIsCopiedWhenARequestBegins) {
  constexpr std::uint32_t kRanks = 4;
  const std::uint64_t elements = GetParam() / 4 / kRanks;
  auto* memory = static_cast<std::uint8_t*>(memory_);
  for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::broadcast,
                                      Collective::reduce_scatter, Collective::allgather}) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      Sent sent;
      SinkTransport transport(sent);
      Memory registered(transport);
      const MessageShape shape{4096, 64, 8};
      // The result lies behind what is given, or before it.
      const Call call{collective,
                      collective == Collective::broadcast ? nullptr : memory + kRanks * elements * 4,
                      collective == Collective::reduce_scatter ? memory : memory + 2 * kRanks * elements * 4,
                      elements,
                      DataType::fp32,
                      Op::sum,
                      0};
      ASSERT_EQ(check(call, rank, kRanks), "");
      HostPath hosts(transport, rank, kRanks, shape);
      Request by_hosts(registered, call, rank, kRanks);
      by_hosts.start(hosts);
      SwitchPath path(transport, rank, shape);
      Request by_switch(registered, call, rank, kRanks);
      by_switch.start(path);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeVector, ::testing::Values(kGiB, kGiB + 4, 2 * kGiB + 4, 3 * kGiB));

}  // namespace
}  // namespace weft::inc::comm
