// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Conservation under a random schedule of everything that stages, devices, links and workers may do.
#include <gmock/gmock.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "switch/stages/impair/drops.h"
#include "switch/stages/parse/drops.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

// A stage that does at random, by the pipeline's own random source, all that a stage may do. State per worker.
class Chaos {
 public:
  Script script() {
    return {
        .ingress = [this](Context& c, Batch& b) { ingress(c, b); },
        .egress = [this](Context& c, PortIndex, Batch& b) { egress(c, b); },
        .deadline = [this](std::uint16_t w) { return held_[w].empty() ? kNever : deadline_[w]; },
        .timer = [this](Context& c) { release(c, c.rng.below(held_[c.worker].size() + 1)); },
        .drop = [this](Context& c, const rte_mbuf*, DropReason) { on_drop(c); },
        .held = [this](std::uint16_t w) { return held_[w].size(); },
        .flush = [this](Context& c) { release(c, held_[c.worker].size()); },
    };
  }

 private:
  void ingress(Context& c, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      rte_mbuf* m = batch.packet[i];
      switch (c.rng.below(16)) {
        case 0:
          c.drop(batch, i, stages::ImpairDrop::impair_loss);
          break;
        case 1:
          c.consume(batch, i);
          break;
        case 2:
          batch.remove(i);
          hold(c, m);
          break;
        case 3:
          batch.remove(i);
          c.resume(m);
          break;
        case 4:
          batch.remove(i);
          c.send(m, static_cast<PortIndex>(c.rng.below(5)));  // the last one does not exist
          break;
        case 5:
        case 6:
          replicate(c, m);
          break;
        case 7:
          generate(c);
          break;
        case 8:
          release(c, c.rng.below(200));
          break;
        default:
          break;
      }
    }
  }
  void egress(Context& c, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      switch (c.rng.below(24)) {
        case 0:
          c.drop(batch, i, stages::ParseDrop::icrc);
          break;
        case 1:
          c.consume(batch, i);
          break;
        case 2:
          generate(c);
          break;
        case 3:
          release(c, 1);
          break;
        default:
          break;
      }
    }
  }
  void on_drop(Context& c) {
    if (c.rng.below(4) == 0) generate(c);
    if (c.rng.below(4) == 0) release(c, 1);
  }
  void hold(Context& c, rte_mbuf* m) {
    held_[c.worker].push_back(m);
    deadline_[c.worker] = c.now + c.rng.below(3000);
  }
  void release(Context& c, std::uint64_t count) {
    auto& held = held_[c.worker];
    for (; count > 0 && !held.empty(); --count) {
      rte_mbuf* m = held.back();
      held.pop_back();
      if (c.rng.below(8) == 0) {
        c.drop(m, stages::ImpairDrop::impair_queue_full);
      } else {
        c.resume(m);
      }
    }
    deadline_[c.worker] = c.now + 1 + c.rng.below(3000);
  }
  static void replicate(Context& c, rte_mbuf* m) {
    rte_mbuf* copy = c.replicate(m);
    if (copy == nullptr) return;
    if (c.rng.below(2) == 0) {
      c.resume(copy);
    } else {
      c.send(copy, static_cast<PortIndex>(c.rng.below(4)));
    }
  }
  static void generate(Context& c) {
    rte_mbuf* m = c.generate();
    if (m == nullptr) return;
    const Label label{0, 0, 0};
    std::memcpy(rte_pktmbuf_append(m, 64), &label, sizeof label);
    c.send(m, static_cast<PortIndex>(c.rng.below(4)));
  }

  std::vector<rte_mbuf*> held_[2];
  TimeNs deadline_[2]{kNever, kNever};
};

void run_schedule(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " (WEFT_SEED)");
  Rng rng(seed);
  Chaos first;
  Chaos second;
  RigOptions options;
  options.workers = static_cast<std::uint16_t>(1 + rng.below(2));
  options.buffers = static_cast<std::uint32_t>(300 + rng.below(2000));
  options.queue_packets = static_cast<std::uint32_t>(1 + rng.below(200));
  options.handoff_capacity = 1 + rng.below(300);
  options.rate_mbps = rng.below(2) == 0 ? 0 : 1 + rng.below(100'000);
  options.delay_ns = rng.below(2) == 0 ? 0 : rng.below(20'000);
  options.seed = seed;
  Rig rig({{"parse", parse_label()}, {"first", first.script()}, {"fwd", forward()}, {"second", second.script()}},
          options);
  for (auto& device : rig.devices) {
    device->behaviour = [&rng, d = device.get()](rte_mbuf** packets, std::uint16_t count) {
      const auto take = static_cast<std::uint16_t>(rng.below(count + 1u));
      if (take == 0 || rng.below(6) != 0) return d->take(packets, take);
      // The last of them is one that the device cannot carry.
      TxResult result = d->take(packets, static_cast<std::uint16_t>(take - 1));
      result.rejected = 1;
      result.rejected_bytes = packets[take - 1]->pkt_len;
      rte_pktmbuf_free(packets[take - 1]);
      ++result.taken;
      return result;
    };
  }
  std::uint64_t id = 0;
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t what = rng.below(10);
    if (what < 4) {
      // A burst that leaves a few buffers for copies.
      std::vector<Label> labels;
      const std::uint32_t free = rte_mempool_avail_count(rig.pool());
      const std::uint64_t most = free > 20 ? std::min<std::uint64_t>(free - 20, Batch::kCapacity) : 0;
      for (std::uint64_t i = rng.below(most + 1); i > 0; --i) {
        labels.push_back({++id, static_cast<std::uint32_t>(rng.next()), static_cast<PortIndex>(rng.below(5))});
      }
      if (!labels.empty()) rig.receive(static_cast<PortIndex>(rng.below(4)), labels);
    } else if (what < 8) {
      rig.step(static_cast<std::uint16_t>(rng.below(options.workers)));
    } else if (what < 9) {
      rig.now += rng.below(5000);
    } else {
      rig.state->set_link(static_cast<PortIndex>(rng.below(4)), rng.below(3) != 0);
    }
    ASSERT_EQ(rig.imbalance(), "") << "after step " << step;
  }
  for (PortIndex p = 0; p < 4; ++p) rig.state->set_link(p, true);
}

TEST(PipelineProperty, EveryPacketEndsInOnePlaceWhateverHappens) {
  if (const char* seed = std::getenv("WEFT_SEED")) return run_schedule(std::strtoull(seed, nullptr, 0));
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    run_schedule(seed);
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  }
}

TEST(PipelineProperty, EveryPacketEndsInOnePlaceForNewSeedsToo) {
  std::random_device entropy;
  for (int i = 0; i < 20; ++i) {
    run_schedule(entropy());
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace weft::pipeline
