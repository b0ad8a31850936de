// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A switch of one or more workers whose stages, devices and rings the test writes, run in one thread.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/pipeline/registry.h"

namespace weft::pipeline {

/// What a scripted stage does; every part may be left out.
struct Script {
  std::function<void(Context&, Batch&)> ingress{};
  std::function<void(Context&, PortIndex, Batch&)> egress{};
  std::function<TimeNs(std::uint16_t worker)> deadline{};  ///< of timer 0, asked after every call as well
  std::function<void(Context&)> timer{};
  std::function<void(Context&, const rte_mbuf*, DropReason)> drop{};
  std::function<std::size_t(std::uint16_t worker)> held{};
  std::function<void(Context&)> flush{};
  std::function<void(Context&)> links{};
  std::uint32_t timers = 1;
  std::function<void(Context&, std::uint32_t token)> token{};  ///< instead of `timer`
  std::function<bool(std::uint16_t worker)> has_mail{};        ///< asked when there is `mail`
  std::function<void(Context&)> mail{};
};

class ScriptedStage : public Stage {
 public:
  ScriptedStage(const Script& script, std::uint16_t worker) : script_(script), worker_(worker) {}
  void ingress(Context& context, Batch& batch) override {
    if (script_.ingress) script_.ingress(context, batch);
    arm(context);
  }
  void egress(Context& context, PortIndex port, Batch& batch) override {
    script_.egress(context, port, batch);
    arm(context);
  }
  [[nodiscard]] std::uint32_t timers() const override { return script_.timers; }
  [[nodiscard]] TimeNs deadline(std::uint32_t token) const override {
    return script_.deadline && token == 0 ? script_.deadline(worker_) : kNever;
  }
  void on_timer(Context& context, std::uint32_t token) override {
    script_.token ? script_.token(context, token) : script_.timer(context);
    arm(context);
  }
  [[nodiscard]] bool takes_mail() const override { return static_cast<bool>(script_.mail); }
  [[nodiscard]] bool has_mail() const override { return script_.has_mail(worker_); }
  void on_mail(Context& context) override {
    script_.mail(context);
    arm(context);
  }
  void on_drop(Context& context, const rte_mbuf* m, DropReason reason) override {
    script_.drop(context, m, reason);
    arm(context);
  }
  [[nodiscard]] std::size_t held() const override { return script_.held ? script_.held(worker_) : 0; }
  void flush(Context& context) override {
    if (script_.flush) script_.flush(context);
  }
  void on_links(Context& context) override {
    if (script_.links) script_.links(context);
  }

 private:
  void arm(Context& context) {
    if (script_.deadline) context.at(script_.deadline(worker_));
  }
  const Script& script_;
  std::uint16_t worker_;
};

/// The first bytes of every test packet.
struct Label {
  std::uint64_t id;
  std::uint32_t flow;
  PortIndex out;
};
inline Label label_of(const rte_mbuf* m) {
  Label label;
  std::memcpy(&label, rte_pktmbuf_mtod(m, const char*), sizeof label);
  return label;
}

/// Sets out_port as the label says; the last stage of most tests.
inline Script forward() {
  return {.ingress = [](Context&, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) meta(batch.packet[i]).out_port = label_of(batch.packet[i]).out;
  }};
}

/// Stands in for the parser: owner(packet) follows the flow in the label.
inline Script parse_label() {
  return {.ingress = [](Context&, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      meta(batch.packet[i]).parsed = {};
      meta(batch.packet[i]).parsed.stored_pair_hash = label_of(batch.packet[i]).flow;
    }
  }};
}

struct RigOptions {
  std::uint16_t ports = 4;
  std::uint16_t workers = 1;
  std::uint32_t buffers = 2048;
  std::uint32_t queue_packets = 1024;
  std::uint64_t rate_mbps = 0;
  std::uint64_t delay_ns = 0;
  std::size_t handoff_capacity = 1024;
  std::uint64_t seed = 1;
  std::optional<qos::Settings> qos{};
  std::uint16_t data_room_bytes = 1024;
  std::uint64_t* admitted = nullptr;  ///< PipelineHost::admitted of every worker
  std::uint32_t mtu_bytes = 1500;
  bool tx_per_worker = false;  ///< of every port
};

/// The destructor checks that all packets are accounted for and no buffer is lost.
class Rig {
 public:
  struct Sent {
    std::uint64_t id;
    TimeNs at;
  };
  class Device : public PortTx {
   public:
    explicit Device(Rig& rig) : rig_(rig) {}
    TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
      return behaviour ? behaviour(packets, count) : take(packets, count);
    }
    TxResult take(rte_mbuf** packets, std::uint16_t count) {
      for (std::uint16_t i = 0; i < count; ++i) {
        sent.push_back({label_of(packets[i]).id, rig_.now});
        rte_pktmbuf_free(packets[i]);
      }
      return {.taken = count};
    }
    [[nodiscard]] std::vector<std::uint64_t> ids() const {
      std::vector<std::uint64_t> out;
      for (const Sent& s : sent) out.push_back(s.id);
      return out;
    }
    std::function<TxResult(rte_mbuf**, std::uint16_t)> behaviour;
    std::vector<Sent> sent;

   private:
    Rig& rig_;
  };

  explicit Rig(std::vector<std::pair<std::string, Script>> stages, const RigOptions& options = {})
      : options_(options), scripts_(std::move(stages)) {
    static int serial = 0;
    pool_ = make_pool("rig" + std::to_string(serial++), options.buffers, options.data_room_bytes, 0);
    if (!pool_) throw std::runtime_error("no packet pool");
    SwitchInfo info;
    info.seed = options.seed;
    info.qos = options.qos;
    for (std::uint16_t p = 0; p < options.ports; ++p) {
      info.ports.push_back({.name = "p" + std::to_string(p),
                            .index = p,
                            .type = "test",
                            .device = {},
                            .mtu_bytes = options.mtu_bytes,
                            .rate_mbps = options.rate_mbps,
                            .delay_ns = options.delay_ns,
                            .queue_packets = options.queue_packets});
      devices.push_back(std::make_unique<Device>(*this));
    }
    for (const auto& [name, script] : scripts_) {
      StageType type;
      type.name = name;
      type.has_egress = static_cast<bool>(script.egress);
      type.wants_drops = static_cast<bool>(script.drop);
      type.make = [&script](const StageBuild& build, StageShared*) {
        return std::make_unique<ScriptedStage>(script, build.worker);
      };
      registry_.add(std::move(type));
      info.pipeline.push_back({.name = name, .options = {}});
    }
    std::vector<std::uint16_t> owners;
    for (std::uint16_t p = 0; p < options.ports; ++p) owners.push_back(static_cast<std::uint16_t>(p % options.workers));
    state = std::make_unique<SwitchState>(registry_, std::move(info), owners, options.workers);
    for (PortIndex p = 0; options.tx_per_worker && p < options.ports; ++p) state->set_tx_per_worker(p);
    for (std::uint16_t w = 0; w < options.workers; ++w) {
      rings_.push_back(std::make_unique<Rings>(*this, w));
      PipelineHost host;
      host.worker = w;
      host.pool = pool_.get();
      host.handoff = options.workers > 1 ? rings_.back().get() : nullptr;
      host.meter = false;
      host.seed = options.seed;
      host.admitted = options.admitted;
      host.clock = &clock_;
      for (auto& device : devices) host.ports.push_back(device.get());
      pipelines.push_back(std::make_unique<Pipeline>(*state, std::move(host)));
    }
  }

  ~Rig() {
    for (auto& device : devices) device->behaviour = nullptr;
    // What a stage gives up may be held again by a later one, and a drop may make it hold or release more.
    for (int round = 0; round < 100 && held() != 0; ++round) {
      for (auto& p : pipelines) p->flush_stages(now);
      run_until_quiet();
      for (auto& p : pipelines) p->drop_queued(now);
    }
    EXPECT_EQ(imbalance(), "");
    EXPECT_EQ(held(), 0u);
    pipelines.clear();
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), options_.buffers) << "packet buffers leaked";
  }

  rte_mbuf* packet(Label label, std::uint16_t bytes = 64) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    if (m == nullptr) throw std::runtime_error("the rig has no buffer left");
    std::memset(rte_pktmbuf_append(m, bytes), 0xa5, bytes);
    std::memcpy(rte_pktmbuf_mtod(m, char*), &label, sizeof label);
    return m;
  }

  /// Packets arrive in bursts as large as a batch, on the worker that owns the port.
  void receive(PortIndex port, const std::vector<Label>& labels) {
    for (std::size_t first = 0; first < labels.size(); first += Batch::kCapacity) {
      rte_mbuf* packets[Batch::kCapacity];
      std::uint16_t count = 0;
      while (count < Batch::kCapacity && first + count < labels.size()) {
        packets[count] = packet(labels[first + count]);
        ++count;
      }
      pipelines[state->owner_of_port(port)]->receive(now, port, packets, count);
    }
  }

  /// One loop of one worker, without reception. Returns the packets that moved.
  std::uint32_t step(std::uint16_t worker) {
    std::uint32_t moved = 0;
    for (std::size_t i = 0; i < 2u * options_.workers; ++i) {
      // PAUSE and PFC frames of all workers come first.
      Rings& from = *rings_[i % options_.workers];
      auto& ring = i < options_.workers ? from.control[worker] : from.to[worker];
      std::vector<rte_mbuf*> packets;
      while (!ring.empty() && packets.size() < Batch::kCapacity) {
        packets.push_back(ring.front());
        ring.pop_front();
      }
      if (packets.empty()) continue;
      moved += static_cast<std::uint32_t>(packets.size());
      pipelines[worker]->take_handoff(now, packets.data(), static_cast<std::uint16_t>(packets.size()));
    }
    pipelines[worker]->run_timers(now);
    for (PortIndex p = 0; p < options_.ports; ++p) {
      if (pipelines[worker]->sends(p)) moved += pipelines[worker]->serve_port(now, p);
    }
    return moved;
  }

  void run_until_quiet() {
    for (int loop = 0; loop < 10'000; ++loop) {
      std::uint32_t moved = 0;
      for (std::uint16_t w = 0; w < options_.workers; ++w) moved += step(w);
      if (moved == 0) return;
    }
    ADD_FAILURE() << "packets move without end";
  }

  /// Virtual time passes; everything happens exactly when it is due.
  void advance_to(TimeNs end) {
    for (int guard = 0; guard < 1'000'000; ++guard) {
      run_until_quiet();
      TimeNs next = kNever;
      for (auto& p : pipelines) next = std::min(next, p->next_deadline());
      if (next > end || next <= now) break;  // not after now: a busy device
      now = next;
    }
    now = end;
    run_until_quiet();
  }

  /// Takes out what one worker has put into its ring to another: the caller brings it there.
  [[nodiscard]] std::deque<rte_mbuf*> take_ring(std::uint16_t from, std::uint16_t to) {
    return std::exchange(rings_[from]->to[to], {});
  }
  [[nodiscard]] std::uint64_t in_rings() const {
    std::uint64_t total = 0;
    for (const auto& rings : rings_) {
      for (const auto& ring : rings->to) total += ring.size();
      for (const auto& ring : rings->control) total += ring.size();
    }
    return total;
  }
  /// How often one worker has rung for another.
  [[nodiscard]] std::uint64_t woken(std::uint16_t by, std::uint16_t worker) const { return rings_[by]->woken[worker]; }
  [[nodiscard]] std::uint64_t held() const {
    std::uint64_t total = in_rings();
    for (const auto& p : pipelines) total += p->held();
    return total;
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    std::uint64_t total = 0;
    for (const auto& p : pipelines) total += p->totals().dropped[static_cast<std::size_t>(reason)].value();
    return total;
  }

  /// Empty when every worker's packets are accounted for; otherwise what is wrong.
  [[nodiscard]] std::string imbalance() const {
    std::uint64_t out = 0;
    std::uint64_t in = 0;
    for (const auto& p : pipelines) {
      const FlowTotals& t = p->totals();
      std::uint64_t dropped_here = 0;
      for (const auto& c : t.dropped) dropped_here += c.value();
      const std::uint64_t came = t.rx.value() + t.generated.value() + t.replicated.value() + t.handed_in.value();
      const std::uint64_t went = t.tx.value() + t.consumed.value() + dropped_here + p->held() + t.handed_out.value();
      if (came != went) {
        return "worker " + std::to_string(p->worker()) + ": " + std::to_string(came) + " came, " +
               std::to_string(went) + " went or are held";
      }
      out += t.handed_out.value();
      in += t.handed_in.value();
    }
    if (out != in + in_rings()) return "rings between workers lost packets";
    return "";
  }

  TimeNs now = 1'000'000'000;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<SwitchState> state;
  std::vector<std::unique_ptr<Pipeline>> pipelines;  ///< by worker
  [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }

 private:
  // The sending ends of one worker's rings.
  struct Rings : Handoff {
    Rings(Rig& rig, std::uint16_t own)
        : capacity(rig.options_.handoff_capacity),
          to(rig.options_.workers),
          control(rig.options_.workers),
          woken(rig.options_.workers),
          worker(own) {}
    std::uint16_t push(std::uint16_t target, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
      EXPECT_NE(target, worker);
      std::uint16_t taken = 0;
      while (taken < count && to[target].size() < capacity) to[target].push_back(packets[taken++]);
      return taken;
    }
    bool push_control(std::uint16_t target, rte_mbuf* m) noexcept override {
      EXPECT_NE(target, worker);
      control[target].push_back(m);
      return true;
    }
    void wake(std::uint16_t target) noexcept override { ++woken[target]; }
    std::size_t capacity;
    std::vector<std::deque<rte_mbuf*>> to, control;
    std::vector<std::uint64_t> woken;
    std::uint16_t worker;
  };

  RigOptions options_;
  std::vector<std::pair<std::string, Script>> scripts_;
  Registry registry_;
  Pool pool_;
  const std::function<TimeNs()> clock_ = [this] { return now; };
  std::vector<std::unique_ptr<Rings>> rings_;
};

}  // namespace weft::pipeline
