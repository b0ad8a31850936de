// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a rank has to send and will receive in a sequence of collectives: which messages, in which order, and when each
// may be posted (EPIC 3.3.2, Figure 4). No memory and no RNIC: whoever has those asks here.
//
// A collective is begun when the rank has all that the earlier ones bring it. It has one message for control, and one
// for each `message_bytes` of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/engine/control_message.h"

namespace weft::inc {

/// Whether a rank sends in a collective, and whether it receives.
[[nodiscard]] bool rank_sends(const ControlMessage& collective, std::uint32_t rank) noexcept;
[[nodiscard]] bool rank_receives(const ControlMessage& collective, std::uint32_t rank) noexcept;

/// A message of a collective.
struct RankMessage {
  std::size_t collective = 0;  ///< index in the sequence
  std::uint32_t number = 0;    ///< 0: the control message
  std::uint64_t offset = 0;    ///< of its data in the vector, bytes
  std::uint32_t bytes = 0;     ///< of data

  [[nodiscard]] bool is_control() const noexcept { return number == 0; }
};

class RankProgress {
 public:
  /// @param window         messages that may be under way (W)
  /// @param message_bytes  of a full message (M packets of U bytes)
  /// @param collectives    what all ranks run; it outlives this
  RankProgress(std::uint32_t rank, std::uint32_t window, std::uint32_t message_bytes,
               const std::vector<ControlMessage>& collectives) noexcept
      : rank_(rank), window_(window), message_bytes_(message_bytes), all_(&collectives) {}

  /// The next message, when one may be posted now; it counts as posted.
  [[nodiscard]] std::optional<RankMessage> post();
  /// A message has been acknowledged.
  void sent() noexcept { --outstanding_; }
  /// A message has arrived: which it is; nullopt when nobody was to send one.
  [[nodiscard]] std::optional<RankMessage> arrived();

  /// Collectives that this rank is through with: all is posted, and all that they bring has come.
  [[nodiscard]] std::size_t passed() const noexcept { return current_; }
  /// The collective whose messages come next; as many as there are when none will.
  [[nodiscard]] std::size_t receiving() const noexcept { return receiving_; }
  /// All is done, and what was sent is acknowledged.
  [[nodiscard]] bool done() const noexcept { return current_ == all_->size() && outstanding_ == 0; }

 private:
  [[nodiscard]] std::uint32_t messages(const ControlMessage& m) const noexcept;
  [[nodiscard]] RankMessage message(std::size_t collective, std::uint32_t number) const noexcept;
  void skip_others() noexcept;

  std::uint32_t rank_, window_, message_bytes_;
  const std::vector<ControlMessage>* all_;
  std::size_t current_ = 0, receiving_ = 0;
  std::uint32_t posted_ = 0, arrived_ = 0, outstanding_ = 0;
};

}  // namespace weft::inc
