// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/support/harness.h"

#include <gtest/gtest.h>
#include <rte_errno.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "switch/config/config.h"

namespace weft::testing {

using pipeline::Batch;
using pipeline::DropReason;
using pipeline::PortIndex;

class Harness::CapturePort : public pipeline::PortTx {
 public:
  explicit CapturePort(const TimeNs& now) : now_(now) {}

  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    if (blocked) return {};
    for (std::uint16_t i = 0; i < count; ++i) {
      Bytes bytes;
      for (const rte_mbuf* segment = packets[i]; segment != nullptr; segment = segment->next) {
        const auto* data = rte_pktmbuf_mtod(segment, const std::uint8_t*);
        bytes.insert(bytes.end(), data, data + segment->data_len);
      }
      EXPECT_EQ(bytes.size(), packets[i]->pkt_len);
      sent.push_back({std::move(bytes), now_});
      rte_pktmbuf_free(packets[i]);
    }
    return {.taken = count};
  }

  std::vector<SentFrame> sent;
  bool blocked = false;

 private:
  const TimeNs& now_;
};

namespace {

pipeline::SwitchInfo load(std::string_view yaml, const pipeline::Registry& registry) {
  config::Diagnostics diagnostics;
  auto info = config::load_switch(yaml, registry, diagnostics);
  if (!info) throw std::invalid_argument(diagnostics.to_string());
  return std::move(*info);
}

}  // namespace

Harness::Harness(const pipeline::Registry& registry, std::string_view yaml, HarnessOptions options)
    : Harness(registry, load(yaml, registry), options) {}

Harness::Harness(const pipeline::Registry& registry, pipeline::SwitchInfo info, HarnessOptions options)
    : registry_(registry), seed_(options.seed) {
  static int serial = 0;
  buffers_ = options.buffers;
  pool_ = pipeline::make_pool("harness" + std::to_string(serial++), buffers_, options.data_room_bytes, 0);
  if (!pool_) throw std::runtime_error(std::string("no packet pool: ") + rte_strerror(rte_errno));
  for (pipeline::PortInfo& port : info.ports) {
    if (port.mac.is_zero()) port.mac = wire::MacAddress::from_u64(0x020000000100 + port.index);
  }
  std::vector<std::uint16_t> owners(info.ports.size(), 0);
  state_ = std::make_unique<pipeline::SwitchState>(registry, std::move(info), owners, 1);
  for (std::size_t i = 0; i < owners.size(); ++i) devices_.push_back(std::make_unique<CapturePort>(now_));
  pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, host(nullptr));
}

pipeline::PipelineHost Harness::host(const pipeline::Pipeline* previous) const {
  pipeline::PipelineHost host;
  host.pool = pool_.get();
  host.meter = false;
  host.seed = seed_;
  host.previous = previous;
  for (const auto& device : devices_) host.ports.push_back(device.get());
  return host;
}

void Harness::reload(std::string_view yaml) {
  pipeline::SwitchInfo info = load(yaml, registry_);
  const auto& before = state_->info().ports;
  std::vector<PortIndex> to(before.size(), pipeline::kNoPort);
  std::vector<std::unique_ptr<CapturePort>> devices;
  for (pipeline::PortInfo& port : info.ports) {
    const auto old = std::find_if(before.begin(), before.end(), [&](const auto& p) { return p.name == port.name; });
    if (old != before.end()) to[old->index] = port.index;
    if (port.mac.is_zero()) {
      port.mac = old != before.end() ? old->mac : wire::MacAddress::from_u64(0x020000000200 + port.index);
    }
    devices.push_back(old != before.end() ? std::move(devices_[old->index]) : std::make_unique<CapturePort>(now_));
  }
  devices_ = std::move(devices);
  std::vector<std::uint16_t> owners(info.ports.size(), 0);
  auto state = std::make_unique<pipeline::SwitchState>(registry_, std::move(info), owners, 1,
                                                       pipeline::SteerMode::ip_pair, state_.get());
  auto pipeline = std::make_unique<pipeline::Pipeline>(*state, host(pipeline_.get()));
  const pipeline::PortMap ports(std::move(to));
  state->adopt(*state_, ports);
  pipeline->adopt(now_, *pipeline_, ports);
  EXPECT_EQ(pipeline_->held(), 0u) << "the old pipeline keeps packets";
  pipeline_ = std::move(pipeline);
  state_ = std::move(state);
  expect_conservation();
}

Harness::~Harness() {
  expect_conservation();
  for (auto& device : devices_) device->blocked = false;
  pipeline_->flush_stages(now_);
  settle();
  pipeline_->drop_queued(now_);
  EXPECT_EQ(pipeline_->held(), 0u) << "a stage keeps packets after flush()";
  expect_conservation();
  expect_no_room_taken();
  pipeline_.reset();
  EXPECT_EQ(rte_mempool_avail_count(pool_.get()), buffers_) << "packet buffers leaked";
}

void Harness::expect_no_room_taken() const {
  qos::SharedBuffer* const buffer = state_->buffer();
  if (buffer == nullptr) return;
  EXPECT_EQ(buffer->shared_used(), 0u);
  for (std::size_t port = 0; port <= buffer->port_count(); ++port) {
    for (unsigned group = 0; group < qos::kClasses; ++group) {
      const auto& state = std::as_const(*buffer).group(port, group);
      EXPECT_EQ(state.bytes.value() + state.headroom.value(), 0u) << "priority group " << group << " of port " << port;
    }
  }
}

const pipeline::PortInfo& Harness::port(std::string_view name) const {
  for (const auto& port : state_->info().ports) {
    if (port.name == name) return port;
  }
  throw std::out_of_range("no port " + std::string(name));
}

std::size_t Harness::position(std::string_view stage) const {
  for (std::size_t i = 0; i < state_->types().size(); ++i) {
    if (state_->types()[i]->name == stage) return i;
  }
  throw std::out_of_range("no stage " + std::string(stage));
}

rte_mbuf* Harness::make(std::span<const std::uint8_t> frame, std::span<const std::size_t> segments) {
  rte_mbuf* head = nullptr;
  rte_mbuf* last = nullptr;
  std::size_t index = 0;
  do {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    if (m == nullptr) throw std::runtime_error("the harness has no packet buffer left");
    std::size_t length = std::min<std::size_t>(frame.size(), rte_pktmbuf_tailroom(m));
    if (index < segments.size()) length = std::min(length, segments[index]);
    ++index;
    if (length != 0) std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(length)), frame.data(), length);
    frame = frame.subspan(length);
    if (head == nullptr) {
      head = m;
    } else {
      last->next = m;
      head->nb_segs = static_cast<std::uint16_t>(head->nb_segs + 1);
      head->pkt_len += static_cast<std::uint32_t>(length);
    }
    last = m;
  } while (!frame.empty());
  return head;
}

void Harness::inject(std::string_view name, rte_mbuf* m) {
  pipeline_->receive(now_, port(name).index, &m, 1);
  settle();
}

void Harness::inject(std::string_view name, std::span<const std::uint8_t> frame) {
  inject(name, make(frame, {}));
}

void Harness::inject_chained(std::string_view name, std::span<const std::uint8_t> frame,
                             std::vector<std::size_t> segments) {
  inject(name, make(frame, segments));
}

void Harness::inject(std::string_view name, std::initializer_list<Bytes> burst) {
  inject(name, std::vector<Bytes>(burst));
}

void Harness::inject(std::string_view name, const std::vector<Bytes>& burst) {
  for (std::size_t first = 0; first < burst.size(); first += Batch::kCapacity) {
    const std::size_t count = std::min<std::size_t>(burst.size() - first, Batch::kCapacity);
    rte_mbuf* packets[Batch::kCapacity];
    for (std::size_t i = 0; i < count; ++i) packets[i] = make(burst[first + i], {});
    pipeline_->receive(now_, port(name).index, packets, static_cast<std::uint16_t>(count));
    settle();
  }
}

void Harness::settle() {
  pipeline_->run_timers(now_);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    while (pipeline_->serve_port(now_, static_cast<PortIndex>(i)) != 0) {
    }
  }
}

void Harness::advance_ns(TimeNs duration) {
  const TimeNs end = now_ + duration;
  int steps_at_same_time = 0;
  while (true) {
    const TimeNs next = std::min(pipeline_->next_deadline(), next_housekeeping_);
    if (next > end) break;
    steps_at_same_time = next <= now_ ? steps_at_same_time + 1 : 0;
    if (steps_at_same_time > 1000) break;  // a blocked device: its queue is due but cannot move
    now_ = std::max(now_, next);
    if (now_ >= next_housekeeping_) {
      state_->housekeeping(now_);
      next_housekeeping_ += 1'000'000'000;
    }
    settle();
  }
  now_ = end;
  settle();
}

std::vector<SentFrame> Harness::take(std::string_view name) {
  return std::exchange(devices_[port(name).index]->sent, {});
}

void Harness::block_device(std::string_view name, bool blocked) {
  devices_[port(name).index]->blocked = blocked;
  settle();
}

void Harness::set_link(std::string_view name, bool up) {
  state_->set_link(port(name).index, up);
}

std::string Harness::exclude(std::string_view name, bool excluded) {
  const pipeline::PathChange change{port(name).index, excluded};
  return state_->change_paths({&change, 1});
}

std::string Harness::set(std::string_view stage, const std::vector<std::string>& words) {
  const std::size_t at = position(stage);
  const pipeline::StageType& type = *state_->types()[at];
  pipeline::OptionChange change = type.set(state_->info().pipeline[at].options, state_->info(), words, 1);
  if (!change.error.empty()) return change.error;
  if (auto error = pipeline::order_mistakes(registry_, state_->info().pipeline, at, change.options); !error.empty()) {
    return error;
  }
  std::shared_ptr<pipeline::Stage> made = type.make(state_->build_of(at, 0).with(change.options), state_->shared(at));
  pipeline_->exchange_stage(now_, at, made, pipeline::PortMap({}));
  state_->set_options(at, std::move(change.options));
  settle();
  return "";
}

std::uint64_t Harness::dropped(DropReason reason) const {
  return totals().dropped[static_cast<std::size_t>(reason)].value();
}

std::uint64_t Harness::dropped_total() const {
  std::uint64_t sum = 0;
  for (const auto& counter : totals().dropped) sum += counter.value();
  return sum;
}

std::uint64_t Harness::counter(std::string_view stage, std::string_view name) const {
  const std::size_t i = position(stage);
  const auto& names = state_->types()[i]->counters;
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& info) { return info.name == name; });
  if (found == names.end()) throw std::out_of_range("no counter " + std::string(name));
  return pipeline_->stage(i).counters()[static_cast<std::size_t>(found - names.begin())].value();
}

nlohmann::ordered_json Harness::rows(std::string_view table) const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto collect = [&](auto& owner) {
    const auto names = owner.tables();
    if (std::find(names.begin(), names.end(), table) == names.end()) return false;
    std::uint64_t cursor = 0;
    while (cursor != pipeline::StageShared::kEnd) {
      for (auto& row : owner.rows(table, cursor, 7)) all.push_back(row);
    }
    return true;
  };
  for (std::size_t i = 0; i < pipeline_->stage_count(); ++i) {
    if (auto* shared = state_->shared(i); shared != nullptr && collect(*shared)) return all;
    if (collect(pipeline_->stage(i))) return all;
  }
  throw std::out_of_range("no table " + std::string(table));
}

void Harness::expect_conservation() const {
  const auto& t = totals();
  EXPECT_EQ(t.rx.value() + t.generated.value() + t.replicated.value(),
            t.tx.value() + t.consumed.value() + dropped_total() + pipeline_->held())
      << "rx " << t.rx.value() << " generated " << t.generated.value() << " replicated " << t.replicated.value()
      << " tx " << t.tx.value() << " consumed " << t.consumed.value() << " dropped " << dropped_total() << " held "
      << pipeline_->held();
}

}  // namespace weft::testing
