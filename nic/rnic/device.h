// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An RNIC: queue pairs, completion queues, memory regions, and the connection manager behind QP1. It is the verbs of
// libibverbs without a kernel: whoever runs it hands it frames and time, and takes frames.
//
//   Device nic({.mac = ..., .address = ...});
//   Pd pd = nic.alloc_pd();
//   Mr mr = nic.reg_mr(pd, memory, bytes, Access::all);
//   Cq& cq = nic.create_cq(256);
//   Qp& qp = nic.create_qp(pd, cq, cq, config);
//   qp.connect(peer); qp.post_send(...);
//   forever: on_packet() for what arrives, on_timer() when next_deadline() has come; poll cq.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nic/rnic/cm.h"
#include "nic/rnic/config.h"
#include "nic/rnic/frame.h"
#include "nic/rnic/memory.h"
#include "nic/rnic/qp.h"
#include "nic/rnic/work.h"
#include "switch/base/timer_heap.h"

namespace weft::nic {

struct DeviceConfig {
  wire::MacAddress mac{};
  wire::IpAddress address{};
  /// Speed of the port: frames follow each other no faster, preamble and gap included. 0: as fast as the sink takes
  /// them.
  std::uint64_t link_bps = 0;
  /// Frames whose ICRC is wrong are dropped. Off where payload is elided.
  bool check_icrc = true;
  /// Makes PSNs, QPNs and identifiers of connections differ between devices and runs.
  std::uint64_t seed = 1;
  CmConfig cm{};
};

/// What became of frames that no queue pair saw. All only grow.
struct DeviceCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;       ///< whole frames without FCS
  std::uint64_t not_roce = 0;       ///< no valid RoCEv2
  std::uint64_t other_address = 0;  ///< for somebody else's IP address
  std::uint64_t icrc_errors = 0;
  std::uint64_t pkey_errors = 0;
  std::uint64_t unknown_qp = 0;   ///< no such queue pair, not connected, or from another address than its peer's
  std::uint64_t unsupported = 0;  ///< an opcode of another transport than RC, but for CM and CNP
};

class Device {
 public:
  explicit Device(const DeviceConfig& config);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const DeviceConfig& config() const noexcept { return config_; }

  // Verbs. References stay good until the object is destroyed.
  [[nodiscard]] Pd alloc_pd() noexcept { return {++last_pd_}; }
  /// Registers memory, which must outlive the region. Its address is the pointer's value.
  Mr reg_mr(Pd pd, void* data, std::uint64_t length, std::uint32_t access);
  /// Registers memory whose first byte is named by `address`: the packets of two runs are then the same.
  Mr reg_mr_iova(Pd pd, void* data, std::uint64_t length, std::uint32_t access, std::uint64_t address);
  /// Registers addresses without memory (MemoryTable).
  Mr reg_virtual_mr(Pd pd, std::uint64_t address, std::uint64_t length, std::uint32_t access);
  bool dereg_mr(const Mr& mr) noexcept { return memory_.remove(mr.key); }
  [[nodiscard]] Cq& create_cq(std::uint32_t depth);
  /// No queue pair uses it any more.
  void destroy_cq(Cq& cq) noexcept {
    std::erase_if(cqs_, [&](const auto& one) { return one.get() == &cq; });
  }
  [[nodiscard]] Qp& create_qp(Pd pd, Cq& send_cq, Cq& receive_cq, const QpConfig& config);
  /// The queue pair's number is not used again soon.
  void destroy_qp(Qp& qp) noexcept;
  /// All that exist, in the order of their numbers' slots.
  [[nodiscard]] std::vector<Qp*> qps() const;
  [[nodiscard]] Cm& cm() noexcept { return cm_; }
  /// A PSN for a queue pair to start with.
  [[nodiscard]] wire::Psn pick_psn() noexcept { return wire::Psn(static_cast<std::uint32_t>(next_random())); }

  // Data path. No allocation, except that a queue pair takes the memory of its reorder buffer when it first needs it.
  /// Takes a frame of `length` bytes, of which the `bytes` are there; the rest is payload that was elided.
  void on_packet(Time now, std::span<const std::uint8_t> bytes, std::uint32_t length, TxSink& sink) noexcept;
  void on_packet(Time now, std::span<const std::uint8_t> bytes, TxSink& sink) noexcept {
    on_packet(now, bytes, static_cast<std::uint32_t>(bytes.size()), sink);
  }
  /// Runs what is due and sends what may leave.
  void on_timer(Time now, TxSink& sink) noexcept;
  /// When on_timer() has something to do, at the latest; a time that has passed means at once.
  [[nodiscard]] Time next_deadline() const noexcept;
  /// Stops and resumes what has certain DSCPs, as PFC stops the priority that they belong to (IEEE 802.1Q clause 36).
  /// Timers go on: what waits for too long for an answer is sent again when it may.
  /// @param dscps  bit i: no packet with DSCP i leaves. CM messages have 0
  void set_paused(std::uint64_t dscps) noexcept;
  [[nodiscard]] bool paused(std::uint8_t dscp) const noexcept { return (paused_ >> (dscp & 63) & 1) != 0; }
  /// Something was posted to a queue pair.
  void wake(Qp& qp) noexcept;

  [[nodiscard]] const DeviceCounters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] Qp* find(wire::Qpn qpn) const noexcept;
  [[nodiscard]] bool addressed_to_us(const std::uint8_t* frame, const wire::Parsed& parsed) const noexcept;
  void receive(Time now, std::span<const std::uint8_t> bytes, std::uint32_t length) noexcept;
  void deliver(Time now, Qp& qp, std::span<const std::uint8_t> bytes, const wire::Parsed& parsed) noexcept;
  void schedule(Time now, Qp& qp) noexcept;
  void pump(Time now, TxSink& sink) noexcept;
  [[nodiscard]] bool mad_waits() const noexcept { return cm_.has_mad() && !paused(0); }
  void send_mad(Time now, TxSink& sink) noexcept;
  void send(Time now, const TxFrame& frame, TxSink& sink) noexcept;
  std::uint64_t next_random() noexcept;

  DeviceConfig config_;
  std::uint64_t random_;
  std::uint32_t last_pd_ = 0;
  MemoryTable memory_;
  std::vector<std::unique_ptr<Cq>> cqs_;
  struct Slot {
    std::unique_ptr<Qp> qp;
    std::uint8_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  TimerHeap<Time, kNever> timers_;
  std::vector<std::uint32_t> round_;  ///< ring of queue pairs with something to send
  std::size_t round_head_ = 0, round_count_ = 0;
  Packet rx_packet_, tx_packet_;  ///< kept, because clearing one costs more than filling it
  Time link_free_ = 0;
  std::uint64_t paused_ = 0;  ///< by DSCP
  Cm cm_;
  DeviceCounters counters_;
};

}  // namespace weft::nic
