// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/rank_progress.h"

#include <algorithm>

namespace weft::inc {

bool rank_sends(const ControlMessage& m, std::uint32_t rank) noexcept {
  if (m.primitive == Primitive::reduce) return m.root != rank;
  return m.primitive != Primitive::broadcast || m.root == rank;
}

bool rank_receives(const ControlMessage& m, std::uint32_t rank) noexcept {
  if (m.primitive == Primitive::reduce) return m.root == rank;
  return m.primitive != Primitive::broadcast || m.root != rank;
}

std::uint32_t RankProgress::messages(const ControlMessage& m) const noexcept {
  return 1 + static_cast<std::uint32_t>((m.bytes + message_bytes_ - 1) / message_bytes_);
}

RankMessage RankProgress::message(std::size_t collective, std::uint32_t number) const noexcept {
  RankMessage out{collective, number, 0, 0};
  if (number == 0) return out;
  out.offset = std::uint64_t{number - 1} * message_bytes_;
  out.bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(message_bytes_, (*all_)[collective].bytes - out.offset));
  return out;
}

std::optional<RankMessage> RankProgress::post() {
  for (; current_ < all_->size(); ++current_, posted_ = 0) {
    const ControlMessage& m = (*all_)[current_];
    if (rank_sends(m, rank_) && posted_ < messages(m)) {
      if (outstanding_ == window_) return std::nullopt;
      ++outstanding_;
      return message(current_, posted_++);
    }
    if (rank_receives(m, rank_) && receiving_ <= current_) return std::nullopt;
  }
  return std::nullopt;
}

/// Messages come in the order of the collectives in which this rank receives.
void RankProgress::skip_others() noexcept {
  while (receiving_ < all_->size() && !rank_receives((*all_)[receiving_], rank_)) ++receiving_;
}

std::optional<RankMessage> RankProgress::arrived() {
  skip_others();
  if (receiving_ == all_->size()) return std::nullopt;
  const RankMessage out = message(receiving_, arrived_);
  if (++arrived_ == messages((*all_)[receiving_])) {
    arrived_ = 0;
    ++receiving_;
    skip_others();
  }
  return out;
}

}  // namespace weft::inc
