// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which packets belong to queue pairs that the switch knows well enough to treat them differently from others.
#pragma once

#include <array>

#include "switch/pipeline/stage.h"
#include "switch/stages/rdma_track/tracked_qps.h"
#include "switch/wire/opcodes.h"

namespace weft::stages {

/// Packets that an RC requester sends, by opcode: SEND, WRITE, READ requests and atomics.
inline constexpr std::array<bool, 256> kRcRequests = [] {
  std::array<bool, 256> requests{};
  for (unsigned raw = 0; raw < requests.size(); ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    requests[raw] = wire::opcode_info(opcode).is_request() && wire::transport_of(opcode) == wire::Transport::rc;
  }
  return requests;
}();

/// Packets that an RC responder sends, by opcode: ACK and NAK, READ and ATOMIC responses.
inline constexpr std::array<bool, 256> kRcResponses = [] {
  std::array<bool, 256> responses{};
  for (unsigned raw = 0; raw < responses.size(); ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    responses[raw] = wire::opcode_info(opcode).role == wire::OpcodeRole::response &&
                     wire::transport_of(opcode) == wire::Transport::rc;
  }
  return responses;
}();

/// The option `accept` of stages that act on known queue pairs.
[[nodiscard]] inline config::Schema::Key accept_option() {
  return config::Schema::Key::with_default(
      "accept", config::Schema::one_of({"known", "inferred"}), config::Value("known"),
      "known: queue pairs whose two directions CM, the configuration or a host named; inferred: also those that "
      "rdma_track paired from traffic.");
}

/// The queue pairs of one worker whose two directions are known, from sources that count.
class KnownPairs {
 public:
  /// For a stage that needs `qp` and has the option `accept`.
  explicit KnownPairs(const pipeline::StageBuild& build) {
    tracker_ = &build.capability<TrackedQps>().tracker(build.worker);
    least_ = static_cast<std::uint8_t>(build.options["accept"].string() == "known" ? tables::PairSource::agent
                                                                                   : tables::PairSource::traffic);
  }

  [[nodiscard]] const QpTracker& tracker() const noexcept { return *tracker_; }
  /// QpTracker::set_in_order() of the requests that a response, whose entry this is, answers.
  void set_in_order(const tables::QpEntry& response) noexcept { tracker_->set_in_order(response.peer); }
  /// The source of a pairing counts.
  [[nodiscard]] bool counts(const tables::QpEntry& entry) const noexcept {
    return (entry.response.high() & tables::ResponseFlag::source_mask) >= least_ && entry.paired();
  }
  /// The entry of a packet that rdma_track has seen in this burst; nullptr when it has none or its pair does not count.
  [[nodiscard]] const tables::QpEntry* entry(const pipeline::PacketMeta& pm) const noexcept {
    if (pm.qp_handle == 0 || pm.qp_handle > tracker_->table().slots()) return nullptr;
    const tables::QpEntry& entry = tracker_->table().entry(pm.qp_handle - 1);
    return entry.dest_qp() == pm.parsed.dest_qp && counts(entry) ? &entry : nullptr;
  }
  [[nodiscard]] bool known(const pipeline::PacketMeta& pm) const noexcept { return entry(pm) != nullptr; }

 private:
  QpTracker* tracker_;
  std::uint8_t least_;
};

}  // namespace weft::stages
