// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packets that are followed through the stages: a bounded table that all workers write into, each for the packets in
// its hands, and a tap per pipeline that chooses packets and finds them again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "switch/capture/packet_filter.h"
#include "switch/pipeline/batch.h"
#include "switch/pipeline/tap.h"

namespace weft::capture {

/// The way of one packet.
struct TraceRecord {
  static constexpr std::size_t kEvents = 64;
  enum class State : std::uint8_t { free, open, done };

  std::atomic<State> state{State::free};
  std::atomic<std::uint32_t> size{0};  ///< events that happened; more than kEvents: the last ones were not kept
  std::atomic<const rte_mbuf*> packet{nullptr};
  pipeline::TracePlace at{};
  std::uint32_t offered = 0;  ///< position of the event of an offer to a device that may come to nothing
  bool matches = false;       ///< it was dropped for a reason that was asked for
  wire::Parsed parsed{};      ///< as it arrived
  std::uint32_t length = 0;
  std::array<std::uint8_t, 96> head{};  ///< of the frame as it arrived: Ethernet to BTH, also behind a tag and IPv6
  std::uint8_t head_bytes = 0;          ///< of which so many were there
  std::uint8_t origin = 0;              ///< switch that saw it first
  std::array<pipeline::TraceEvent, kEvents> events{};
};

/// All records of one trace, and how many packets it still wants. Packets are marked in their buffers, so that finding
/// them again, also on another worker or in another switch of the process, is one test.
class TraceTable {
 public:
  static constexpr std::size_t kPerWorker = 64;

  /// @param wanted  packets to follow
  /// @param reasons  when given, only packets that are dropped for one of these count; all others are forgotten
  TraceTable(std::uint16_t workers, std::uint32_t wanted, std::optional<PacketFilter::Reasons> reasons);

  /// False when the mark could not be had from DPDK: then nothing can be traced.
  [[nodiscard]] bool usable() const noexcept { return mark_ != 0; }

  // Workers.
  /// A record for a packet, marked; kNone when none is wanted or none is free.
  int open(std::uint16_t worker, rte_mbuf* m) noexcept;
  [[nodiscard]] int find(const rte_mbuf* m) const noexcept;
  [[nodiscard]] TraceRecord& record(int handle) noexcept { return records_[static_cast<std::size_t>(handle)]; }
  [[nodiscard]] const TraceRecord& record(int handle) const noexcept {
    return records_[static_cast<std::size_t>(handle)];
  }
  void add(int handle, const pipeline::TraceEvent& event) noexcept;
  void mark(int handle, rte_mbuf* m) noexcept;
  void close(int handle) noexcept;
  [[nodiscard]] bool wants(pipeline::DropReason reason) const noexcept {
    return reasons_ && (*reasons_)[static_cast<std::size_t>(reason)];
  }

  // The reader, any thread.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// Packets that matched and could not be followed, because too many were on their way.
  [[nodiscard]] std::uint64_t missed() const noexcept { return missed_.load(std::memory_order_relaxed); }
  /// Frees a record in state `done` after the reader has read it, so that a worker can open it for another packet.
  void release(std::size_t index) noexcept { records_[index].state.store(TraceRecord::State::free); }

 private:
  std::size_t count_;
  std::unique_ptr<TraceRecord[]> records_;
  std::optional<PacketFilter::Reasons> reasons_;
  std::atomic<std::int64_t> wanted_;
  std::atomic<std::uint64_t> missed_{0};
  std::uint64_t mark_ = 0;
  int field_ = -1;
};

/// Chooses packets at reception and follows all packets of the table through one pipeline.
class TraceTap : public pipeline::Tracer {
 public:
  /// @param filter  of packets to choose; nullopt: none is chosen here, only followed
  /// @param links  by PortIndex: the port is a cable to another switch of the process, where the packet goes on
  TraceTap(TraceTable& table, std::optional<PacketFilter> filter, std::uint8_t switch_index, std::uint16_t worker,
           std::vector<bool> links)
      : table_(table),
        filter_(std::move(filter)),
        switch_index_(switch_index),
        worker_(worker),
        links_(std::move(links)) {}

  void received(TimeNs now, pipeline::PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override;
  void sending(TimeNs now, pipeline::PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override;
  void sent(std::uint16_t taken, std::uint16_t rejected) noexcept override;
  void dropped(TimeNs now, const rte_mbuf* packet, pipeline::DropReason reason) noexcept override;

  [[nodiscard]] int find(const rte_mbuf* m) const noexcept override { return table_.find(m); }
  [[nodiscard]] bool open(int handle) const noexcept override {
    return table_.record(handle).state.load(std::memory_order_relaxed) == TraceRecord::State::open;
  }
  void enter(int handle, pipeline::TracePlace place) noexcept override { table_.record(handle).at = place; }
  void note(int handle, const pipeline::TraceEvent& event) noexcept override { table_.add(handle, event); }
  void moved(int handle, rte_mbuf* to) noexcept override { table_.mark(handle, to); }
  void close(int handle) noexcept override { table_.close(handle); }

 private:
  [[nodiscard]] bool chosen(const rte_mbuf* m, wire::Parsed& parsed) const noexcept;

  TraceTable& table_;
  std::optional<PacketFilter> filter_;
  std::uint8_t switch_index_;
  std::uint16_t worker_;
  std::vector<bool> links_;
  // Traced packets among those that are being offered to a device.
  struct Offered {
    int handle;
    std::uint16_t position;
  };
  std::array<Offered, pipeline::Batch::kCapacity> offered_{};
  std::uint16_t offered_count_ = 0;
  bool offered_to_link_ = false;
};

}  // namespace weft::capture
