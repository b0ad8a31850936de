// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// pnp: the Proactive Notification Point of the long-haul paper (section IV), at the edge switch of a data centre. A
// packet of an inter-DC flow that was marked CE on its way out of the data centre, by this switch too, becomes a CNP to
// its source, at most one per interval and flow, and goes on without its mark: its receiver, a long way off, need not
// say it again. What is decided is in unit.h.
//
// It acts in its egress half, where this switch's own marks are seen. The CNP goes on with the next ingress stage, so
// that l3 routes it to the source. With several workers the ingress half of the one that owns the queue pair notes
// which queue pair the source has, for the one that owns the egress port.
//
// With `telemetry` it does the same for HPCC (section VIII): what ports inside the data centre have written into
// packets goes back to the source with a CNP, and the packets go on as if they began here, so that the far receiver
// tells of the other ports alone. With `rtt_echo` it answers requests of sources with TIMELY, which so learn the round
// trip to here (switch/wire/rtt_echo.h).
//
// With `trigger: qcn` it does not look at marks: it samples the packets of each port and tells the sources of those
// that it finds while the port is congested (qcn.h), with the number that says how much (switch/wire/qcn_cnp.h). That
// is what Annulus has on ToRs.
//
// It fails open: a mark whose flow it does not know, or for which there is no buffer, stays, and the receiver's CNP
// does what this switch could not.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/pnp/cookie.h"
#include "switch/stages/pnp/flows.h"
#include "switch/stages/pnp/handshake.h"
#include "switch/stages/pnp/options.h"
#include "switch/stages/rdma_track/known.h"
#include "switch/wire/emit.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class PnpCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/pnp/counters.def"
#undef WEFT_COUNTER
  count_,
};

class PnpStage : public pipeline::Stage {
 public:
  PnpStage(const pipeline::StageBuild& build, PnpShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void egress(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) override;
  /// Handshakes under way go on: those that are looked at where the options have not changed, cookies in any case.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"pnp", "pnp_flows"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  void on_tcp(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  /// Answers the SYN of a pair that is not known, and resets the connection that this gives: true when the segment ends
  /// here.
  [[nodiscard]] bool challenge(pipeline::Context& context, const rte_mbuf* m, const TcpSegment& segment) noexcept;
  [[nodiscard]] bool answer(pipeline::Context& context, const rte_mbuf* m, std::uint8_t flags, std::uint32_t sequence,
                            std::uint32_t acknowledgement) noexcept;
  void add_pair(TimeNs now, std::uint64_t pair) noexcept;
  /// QCN: packets leave through a port.
  void sample(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) noexcept;
  void prefetch(const rte_mbuf* m) const noexcept;
  void prefetch_peer(const rte_mbuf* m) const noexcept;
  /// A packet that leaves, and what becomes of it.
  struct Notice {
    rte_mbuf* packet;
    std::uint8_t* option;     ///< telemetry of its IP header, which its source gets; nullptr: none
    std::uint32_t client_qp;  ///< whom a CNP goes to
    std::uint8_t feedback;    ///< of QCN, which a CNP says; 0: none
    bool marked;              ///< its mark is cleared
    bool notify;              ///< its source gets a CNP
  };
  /// The notices of a burst. Those of packets that go on as they are have no place in it.
  struct Notices {
    std::array<Notice, pipeline::Batch::kCapacity> notice;
    std::uint16_t size = 0, cnps = 0;
  };
  /// A packet leaves that may have something to say to its source.
  void leave(pipeline::Context& context, rte_mbuf* m, Notices& notices) noexcept;
  /// From a source in this data centre to another one.
  [[nodiscard]] bool leaves_own_dc(const rte_mbuf* m) const noexcept;
  /// The option of a RoCE packet for a `remote` host that ports on its way here have written into; nullptr: none.
  [[nodiscard]] std::uint8_t* collecting_option(rte_mbuf* m) const noexcept;
  /// A request leaves that asks for an echo.
  void echo(pipeline::Context& context, const rte_mbuf* m) noexcept;
  /// A packet leaves that is marked, or has records in this option of its IP header.
  void on_feedback(pipeline::Context& context, rte_mbuf* m, bool marked, std::uint8_t* option,
                   Notices& notices) noexcept;
  /// The mark is cleared, and the records are gone.
  void take_feedback(const Notice& notice) noexcept;
  /// Sends the CNPs of a burst, and does with its packets what the notices say. A packet whose CNP cannot be sent
  /// stays as it is, and so do those of its flow behind it.
  void carry_out(pipeline::Context& context, Notices& notices) noexcept;
  /// Notice `at` gets no CNP.
  void take_back(Notices& notices, std::uint16_t at) noexcept;
  [[nodiscard]] bool is_inter_dc(TimeNs now, const rte_mbuf* m) noexcept;
  [[nodiscard]] PnpVerdict judge(TimeNs now, const rte_mbuf* m, std::uint32_t& client_qp) noexcept;
  [[nodiscard]] PnpFlow* learn(TimeNs now, const rte_mbuf* m, const PnpName& name, PnpUnit& unit) noexcept;
  [[nodiscard]] PnpFlow* flow_of(TimeNs now, const rte_mbuf* m, const PnpName& name, PnpUnit& unit) noexcept;
  /// Makes a CNP of an empty packet. False when it has no room for it.
  [[nodiscard]] bool write_cnp(rte_mbuf* made, const Notice& notice) noexcept;
  /// How a packet from the receiver of `m` to its source is addressed.
  [[nodiscard]] wire::RoceAddressing reply_to(const rte_mbuf* m) const noexcept;
  void clear_mark(rte_mbuf* m) const noexcept;
  void count(PnpCounter c, std::uint64_t n = 1) noexcept { counters_.add(c, n); }
  [[nodiscard]] std::uint64_t value(PnpCounter c) const noexcept {
    return counters_.all()[static_cast<std::size_t>(c)].value();
  }

  PnpOptions options_;
  KnownPairs known_;
  PnpShared& shared_;
  std::uint16_t worker_;
  std::optional<HandshakeMonitor> monitor_;  ///< passive
  std::optional<HandshakeCookies> cookies_;  ///< cookie
  std::vector<QcnSampler> samplers_;         ///< by port, of trigger qcn
  TimeNs now_ = 0;                           ///< of the last mark
  CounterSet<PnpCounter> counters_;
};

/// Registered as `pnp`; needs `qp`, stands before l3. Options: see pnp_options_schema().
[[nodiscard]] pipeline::StageType pnp_stage_type();

}  // namespace weft::stages
