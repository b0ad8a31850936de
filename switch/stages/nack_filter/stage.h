// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// nack_filter: Themis-D at the receivers' ToR. In its ingress half it judges the NACKs of its hosts; in its egress half
// it records which packets of cross-rack queue pairs leave to them. What it decides by is in unit.h.
//
// Only queue pairs take state whose requests come in through an uplink and leave through another port, and whose two
// directions are known (`accept`). All other packets pass, and so do all NACKs that the filter cannot judge: nothing is
// known of their queue pair, their ICRC is wrong, or there is no room. RNR NAKs and the NAKs that end a connection pass
// always.
//
// A blocked NACK is dropped as nack_blocked, or goes on as an ACK of everything before the PSN that it asks for. When a
// compensation is due, the same NACK is sent after all: its PSN and MSN from the state of the queue pair, the rest from
// the frame of the last NACK that was blocked. It says what the receiver has said, and nothing that it acknowledges has
// been taken back since.
//
// Responses of a receiver that keeps no early packets carry a mark (frame.h) from here to the sender's ToR. The filter
// of that ToR, which sees them come in through an uplink, takes the mark out and tells rdma_track: `lb: psn` then sends
// the requests of that queue pair as `ecmp` does.
//
// The worker that owns an egress port records; the one that owns the queue pair judges. Where they are not the same,
// what left goes from one to the other through a ring before the packet itself leaves, so that a NACK that it brings
// about comes later.
#pragma once

#include <vector>

#include "switch/base/counter_set.h"
#include "switch/base/timer_heap.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/nack_filter/frame.h"
#include "switch/stages/nack_filter/options.h"
#include "switch/stages/nack_filter/unit.h"
#include "switch/stages/nack_filter/workers.h"
#include "switch/stages/rdma_track/known.h"
#include "switch/tables/page_memory.h"
#include "switch/wire/roce_editor.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class NackCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/nack_filter/counters.def"
#undef WEFT_COUNTER
  count_,
};

class NackFilterStage : public pipeline::Stage {
 public:
  NackFilterStage(const pipeline::StageBuild& build, NackFilterShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void egress(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) override;
  void on_links(pipeline::Context& context) override;
  void on_drop(pipeline::Context& context, const rte_mbuf* packet, pipeline::DropReason reason) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t token) const override;
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] bool takes_mail() const override { return shared_.workers() > 1; }
  [[nodiscard]] bool has_mail() const override { return shared_.pending(worker_); }
  void on_mail(pipeline::Context& context) override { read_mail(context); }
  void flush(pipeline::Context& context) override { release_all(context); }
  /// Queue pairs keep their state unless the options change: then all begin anew, and what was blocked goes on.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"nack_filter", "nack_filter_qps"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  // What the stage keeps of a queue pair besides the unit's state.
  struct alignas(64) Extra {
    std::uint64_t addresses;                       ///< QpEntry::addresses
    std::uint32_t position;                        ///< of its entry in the table of rdma_track
    pipeline::PortIndex in_port;                   ///< of the NACK that is pending, or was last
    bool warned;                                   ///< it counts in warned_
    std::uint32_t nacks, valid, blocked, unknown;  ///< statistics
    std::uint32_t compensated, guard, released, spurious, after_block;
    NackFrame frame;
  };
  static constexpr std::uint32_t kNone = 0xffffffff;
  // Retransmissions of one queue pair that follow blocked NACKs and are worth a warning.
  static constexpr std::uint32_t kWarnAfter = 64;
  // A compensation for which there was no buffer is tried again after this long; so often are the queues of other
  // workers' ports looked at that have to be empty first.
  static constexpr TimeNs kRetryNs = 100'000;

  [[nodiscard]] NackQp qp(std::uint32_t slot) const noexcept { return unit_.view(slot_memory(slot)); }
  [[nodiscard]] Extra& extra(std::uint32_t slot) const noexcept {
    return *reinterpret_cast<Extra*>(slot_memory(slot) + extra_at_);
  }
  [[nodiscard]] std::byte* slot_memory(std::uint32_t slot) const noexcept { return memory_ + slot * stride_; }

  /// A request packet on its way from an uplink to a host.
  [[nodiscard]] bool to_host(const pipeline::PacketMeta& pm, pipeline::PortIndex out) const noexcept {
    return pm.in_port < options_.uplink_of_port.size() && out < options_.uplink_of_port.size() &&
           options_.uplink_of_port[pm.in_port] != NackOptions::kNoUplink &&
           options_.uplink_of_port[out] == NackOptions::kNoUplink && kRcRequests[pm.parsed.opcode] &&
           pm.parsed.kind == wire::FrameKind::roce && pm.qp_handle != 0;
  }
  /// Where a packet came in, as the unit wants it.
  [[nodiscard]] std::uint8_t uplink_of(const pipeline::PacketMeta& pm) const noexcept {
    return options_.rules.arrival_check ? options_.uplink_of_port[pm.in_port] : std::uint8_t{0};
  }
  void record_all(pipeline::Context& context, pipeline::PortIndex port, const pipeline::Batch& batch) noexcept;
  void record_for_owners(pipeline::Context& context, pipeline::PortIndex port, const pipeline::Batch& batch) noexcept;
  void tell_owner(pipeline::Context& context, const rte_mbuf* m, bool dropped) noexcept;
  [[nodiscard]] NackMail mail_of(const rte_mbuf* m, bool dropped) const noexcept;
  void record(pipeline::Context& context, const NackMail& mail) noexcept;
  void act(pipeline::Context& context, std::uint32_t slot, const DataVerdict& verdict) noexcept;
  void read_mail(pipeline::Context& context) noexcept;

  [[nodiscard]] std::uint32_t slot_of_request(pipeline::Context& context, const NackMail& mail) noexcept;
  [[nodiscard]] std::uint32_t slot_of_response(const pipeline::PacketMeta& pm) const noexcept;
  [[nodiscard]] std::uint32_t create(pipeline::Context& context, const NackMail& mail) noexcept;
  [[nodiscard]] std::uint32_t psns_of(const NackMail& mail) const noexcept;
  [[nodiscard]] bool began_before_me(std::uint32_t position) const noexcept;
  [[nodiscard]] std::uint32_t free_slot(pipeline::Context& context) noexcept;
  [[nodiscard]] bool in_use(std::uint32_t slot) const noexcept;
  void evict(pipeline::Context& context, std::uint32_t slot) noexcept;
  void release_all(pipeline::Context& context) noexcept;
  void note_excluded(pipeline::Context& context) noexcept;
  void release_cut(pipeline::Context& context, pipeline::PortIndex port) noexcept;
  void release_drained(pipeline::Context& context) noexcept;
  [[nodiscard]] bool is_host_port(pipeline::PortIndex port) const noexcept {
    return port < options_.uplink_of_port.size() && options_.uplink_of_port[port] == NackOptions::kNoUplink;
  }
  /// A bit per uplink whose port fulfils the condition.
  template <typename Condition>
  [[nodiscard]] std::uint64_t uplinks_where(Condition&& condition) const noexcept {
    std::uint64_t found = 0;
    for (pipeline::PortIndex port = 0; port < options_.uplink_of_port.size(); ++port) {
      if (!is_host_port(port) && condition(port)) found |= std::uint64_t{1} << options_.uplink_of_port[port];
    }
    return found;
  }

  [[nodiscard]] bool on_response(pipeline::Context& context, rte_mbuf* m) noexcept;
  [[nodiscard]] bool on_nack(pipeline::Context& context, std::uint32_t slot, rte_mbuf* m) noexcept;
  void read_mark(rte_mbuf* m) noexcept;
  void note_in_order(std::uint32_t slot) noexcept;
  void set_warned(Extra& e, bool warned) noexcept;
  void make_ack(rte_mbuf* m) const noexcept;
  void send_nack(pipeline::Context& context, std::uint32_t slot, NackCounter why) noexcept;
  [[nodiscard]] bool send_frame(pipeline::Context& context, const NackState& s, const Extra& e) const noexcept;
  void start_timer(pipeline::Context& context, std::uint32_t slot) noexcept;
  void count(NackCounter c, std::uint64_t n = 1) noexcept { counters_.add(c, n); }

  [[nodiscard]] nlohmann::ordered_json memory_rows() const;
  [[nodiscard]] std::string excluded_names() const;
  [[nodiscard]] nlohmann::ordered_json qp_row(std::uint32_t slot) const;

  NackOptions options_;
  NackFilterUnit unit_;
  KnownPairs known_;
  NackFilterShared& shared_;
  std::uint16_t worker_;
  wire::IcrcMode icrc_mode_;
  const pipeline::SwitchInfo& info_;

  tables::PageArray<std::uint32_t> slot_of_position_;  ///< slot + 1; 0 for none
  std::size_t extra_at_, stride_;
  tables::PageMemory pages_;
  std::byte* memory_;
  std::byte* no_slot_state_;  ///< state for packets whose queue pair has no slot; it matches none of them
  PathCount usual_paths_;     ///< of most queue pairs
  std::uint32_t used_ = 0;    ///< slots that were ever in use
  std::vector<std::uint32_t> free_;
  std::uint32_t sweep_at_ = 0;
  std::uint32_t warned_ = 0;                   ///< queue pairs with kWarnAfter retransmissions after blocked NACKs
  TimerHeap<TimeNs, kNever> timers_;           ///< by slot: when its guard expires, or before that
  std::vector<std::uint64_t> mail_lost_seen_;  ///< by worker
  std::uint64_t uplinks_down_ = 0;             ///< a bit per uplink, down or excluded; none without arrival check
  std::uint64_t excluded_ = 0;                 ///< a bit per uplink
  std::vector<bool> draining_;                 ///< by port: what waits there may have come in before a link went down
  std::uint32_t draining_count_ = 0;
  TimeNs look_at_drains_ = 0;
  TimeNs began_anew_ = 0;  ///< when the queue pairs were forgotten, 0: not since the switch began
  CounterSet<NackCounter> counters_;
};

/// Registered as `nack_filter`; needs `qp`. Options: see nack_options_schema().
[[nodiscard]] pipeline::StageType nack_filter_stage_type();

}  // namespace weft::stages
