// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Runs the production pipeline of one switch on virtual time: frames go in at named ports, what leaves is captured.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/pipeline/registry.h"

namespace weft::testing {

using Bytes = std::vector<std::uint8_t>;

/// A frame that left through a port, and when.
struct SentFrame {
  Bytes bytes;
  TimeNs at;
};

struct HarnessOptions {
  std::uint16_t data_room_bytes = 2048 + 128;  ///< smaller than jumbo frames on purpose: those arrive chained
  std::uint32_t buffers = 4096;
  std::uint64_t seed = 1;
};

/// One switch, one worker. The destructor asserts that every packet ended in exactly one place, that no buffer
/// leaked, and that no room of the packet memory is still taken.
class Harness {
 public:
  /// @param yaml  one switch as in the `switches` list: name, ports, pipeline, ...; errors fail the test and throw.
  Harness(const pipeline::Registry& registry, std::string_view yaml, HarnessOptions options = {});
  /// The same from a description built in code.
  Harness(const pipeline::Registry& registry, pipeline::SwitchInfo info, HarnessOptions options = {});
  ~Harness();
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  /// Describes the switch anew while it runs, as a reload does: ports are matched by name. Nothing else happens.
  void reload(std::string_view yaml);

  /// One frame, or one burst, arrives. Everything that can happen at the current time happens before it returns.
  void inject(std::string_view port, std::span<const std::uint8_t> frame);
  void inject(std::string_view port, std::initializer_list<Bytes> burst);
  void inject(std::string_view port, const std::vector<Bytes>& burst);
  /// A frame cut into segments of the given sizes (the last takes the rest).
  void inject_chained(std::string_view port, std::span<const std::uint8_t> frame, std::vector<std::size_t> segments);
  /// A buffer made by the caller from pool().
  void inject(std::string_view port, rte_mbuf* m);

  /// When the pipeline wants to be called without a packet; kNever: not at all.
  [[nodiscard]] TimeNs next_deadline() const { return pipeline_->next_deadline(); }
  /// Lets virtual time pass; stage timers and queues run exactly at their deadlines, housekeeping each second.
  void advance_ns(TimeNs duration);
  [[nodiscard]] TimeNs now() const noexcept { return now_; }

  /// `weftctl set STAGE` for a stage whose instances are made anew for other options. What is wrong with the words.
  std::string set(std::string_view stage, const std::vector<std::string>& words);

  /// What has left through the port since the last call.
  std::vector<SentFrame> take(std::string_view port);

  /// The port's device takes no packets while blocked.
  void block_device(std::string_view port, bool blocked);
  void set_link(std::string_view port, bool up);
  /// Excludes the port from the path sets, or includes it again. What SwitchState::change_paths() has against it.
  std::string exclude(std::string_view port, bool excluded);

  [[nodiscard]] const pipeline::FlowTotals& totals() const { return pipeline_->totals(); }
  [[nodiscard]] std::uint64_t dropped(pipeline::DropReason reason) const;
  [[nodiscard]] std::uint64_t dropped_total() const;
  [[nodiscard]] std::uint64_t held() const { return pipeline_->held(); }
  /// A counter of a stage by the names of its StageType.
  [[nodiscard]] std::uint64_t counter(std::string_view stage, std::string_view name) const;
  /// All rows of a table, of shared or worker state.
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table) const;

  template <typename T>
  T& stage(std::string_view name) {
    return dynamic_cast<T&>(pipeline_->stage(position(name)));
  }
  /// Calls `what` with the instance of a stage, as a command does: it may want its timers at other times afterwards.
  template <typename T, typename F>
  void change(std::string_view name, F&& what) {
    pipeline_->change_stage(position(name), [&](pipeline::Stage& stage) { what(dynamic_cast<T&>(stage)); });
  }
  template <typename T>
  T& shared(std::string_view name) {
    return dynamic_cast<T&>(*state_->shared(name));
  }
  [[nodiscard]] const pipeline::PortInfo& port(std::string_view name) const;
  [[nodiscard]] pipeline::Pipeline& pipeline() noexcept { return *pipeline_; }
  [[nodiscard]] pipeline::SwitchState& state() noexcept { return *state_; }
  [[nodiscard]] rte_mempool* pool() noexcept { return pool_.get(); }

  /// Fails the test unless rx + generated + replicated = tx + consumed + dropped + held.
  void expect_conservation() const;

 private:
  class CapturePort;
  [[nodiscard]] pipeline::PipelineHost host(const pipeline::Pipeline* previous) const;
  rte_mbuf* make(std::span<const std::uint8_t> frame, std::span<const std::size_t> segments);
  /// With qos: every byte that was charged to the packet memory has been given back.
  void expect_no_room_taken() const;
  void settle();
  [[nodiscard]] std::size_t position(std::string_view stage) const;

  const pipeline::Registry& registry_;
  std::uint64_t seed_ = 1;
  TimeNs now_ = 1'000'000'000;
  TimeNs next_housekeeping_ = 2'000'000'000;
  pipeline::Pool pool_;
  std::uint32_t buffers_ = 0;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::vector<std::unique_ptr<CapturePort>> devices_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
};

}  // namespace weft::testing
