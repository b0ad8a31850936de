// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What lb_tag does for ConWeave on one worker of a leaf: the unit of the receiver's ToR with the packets that wait in
// it, answers to other leaves, and what other leaves answer to the unit of the sender's ToR.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/lb/conweave_destination.h"
#include "switch/stages/lb/conweave_tag.h"
#include "switch/stages/lb/held_room.h"
#include "switch/stages/lb/mark.h"
#include "switch/stages/lb_tag/counters.h"
#include "switch/stages/lb_tag/shared.h"

namespace weft::stages {

class ConweaveLeaf {
 public:
  /// What the unit does with the packets of a burst; see conweave_burst.h.
  class Burst;

  /// Of a leaf whose options have `conweave`.
  ConweaveLeaf(LbTagShared& shared, std::uint16_t worker);

  /// arrived() is called soon with a packet of these headers.
  void prefetch(const wire::Parsed& parsed) noexcept { far_.prefetch(FlowKey::of_qp(parsed)); }
  /// A data packet has come, its tag is off. It goes on in its batch, or waits.
  /// @param from  the leaf that put the tag on, by its position
  /// @return false when it is to be removed from the batch
  [[nodiscard]] bool arrived(Burst& burst, rte_mbuf* m, std::uint16_t from, const ConweaveLabel& label,
                             LbTagCounters& counters) noexcept;
  /// A leaf has answered; the packet is of no further use.
  void answered(TimeNs now, const rte_mbuf* m, std::uint16_t from, const ConweaveAnswer& answer,
                LbTagCounters& counters) noexcept;

  /// Answers that came to other workers.
  [[nodiscard]] bool takes_mail() const noexcept { return shared_.mails().workers() != 0; }
  [[nodiscard]] bool has_mail() const noexcept { return shared_.mails().pending(worker_); }
  void read_mail(TimeNs now) noexcept;

  [[nodiscard]] TimeNs next_deadline() const noexcept { return far_.next_deadline(); }
  void on_timer(pipeline::Context& context) noexcept;
  [[nodiscard]] std::size_t held() const noexcept { return far_.held(); }
  void flush(pipeline::Context& context) noexcept;
  /// Calls `use` with each packet that waits.
  void for_each_held(const std::function<void(rte_mbuf*)>& use) const;
  /// Takes the place of `old`, of the same options.
  void adopt(ConweaveLeaf& old) noexcept;

  /// Brings the stage's counters up to what the units have counted.
  void publish(LbTagCounters& counters) noexcept;
  /// `conweave`: flows of both edges.
  [[nodiscard]] nlohmann::ordered_json rows(std::uint64_t& cursor, std::size_t max) const;

 private:
  void answer(pipeline::Context& context, const rte_mbuf* m, std::uint8_t path, const ConweaveReply& reply,
              LbTagCounters& counters) noexcept;
  [[nodiscard]] bool notify_is_due(TimeNs now, std::uint16_t leaf, std::uint8_t path) noexcept;
  [[nodiscard]] nlohmann::ordered_json source_row(const ConweaveFlow& flow) const;
  [[nodiscard]] nlohmann::ordered_json destination_row(const ConweaveDestination::Flow& flow) const;

  LbTagShared& shared_;
  std::uint16_t worker_;
  LbMark mark_;
  ConweaveSource& near_;
  ConweaveDestination far_;
  HeldRoom room_;
  std::vector<TimeNs> next_notify_;  ///< by leaf, then path
  ConweaveSourceCounts near_told_{};
  ConweaveDestinationCounts far_told_{};
  HeldRoomCounts room_told_{};
  TimeNs now_ = 0;
};

}  // namespace weft::stages
