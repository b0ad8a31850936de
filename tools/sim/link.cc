// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/link.h"

#include <algorithm>
#include <utility>

namespace weft::sim {

void Flight::grow() {
  const std::uint32_t count = size();
  const std::uint32_t room = std::max(16u, 2 * count);
  auto items = std::make_unique<Packet[]>(room);
  for (std::uint32_t i = 0; i < count; ++i) items[i] = items_[(head_ + i) & mask_];
  items_ = std::move(items);
  mask_ = room - 1;
  head_ = 0;
  tail_ = count;
}

void Flight::prefetch() const noexcept {
  if (empty()) return;
  const auto* m = reinterpret_cast<const char*>(front().packet);
  constexpr int kLine = 64;
  __builtin_prefetch(m);
  __builtin_prefetch(m + sizeof(rte_mbuf));
  __builtin_prefetch(m + sizeof(rte_mbuf) + pipeline::kMetaSize + kLine);
  __builtin_prefetch(m + sizeof(rte_mbuf) + pipeline::kMetaSize + 2 * kLine);
}

Link::~Link() {
  drop_all();
}

void Link::arrive_due(TimeNs now) noexcept {
  while (!flight_.empty() && flight_.front().at <= now) {
    rte_mbuf* m = flight_.front().packet;
    flight_.pop();
    flight_.prefetch();
    arrive(now, m, now - plan_.delay);
  }
  if (!flight_.empty()) to_partition_.events().schedule(arrival_, flight_.front().at);
  to_->received_all();
}

bool Link::hand_over() {
  const bool first = handed_.empty();
  if (first) {
    std::swap(sent_, handed_);
  } else {
    for (const Flight::Packet& packet : sent_) handed_.push_back(packet);
    sent_.clear();
  }
  return first;
}

void Link::take_in() {
  for (const Flight::Packet& packet : handed_) travel(packet);
  handed_.clear();
}

bool Link::taken_by_fault(TimeNs now, rte_mbuf* m, TimeNs sent_at) noexcept {
  if (!up_ || sent_at < up_since_) {
    ++counters_.cut;
  } else if (loss_.hit(rng_)) {
    ++counters_.lost;
  } else {
    return false;
  }
  to_partition_.witness().lost(now, to_->device_number(), m);
  rte_pktmbuf_free(m);
  return true;
}

void Link::drop_all() noexcept {
  for (; !flight_.empty(); flight_.pop()) rte_pktmbuf_free(flight_.front().packet);
  for (auto* packets : {&sent_, &handed_}) {
    for (const Flight::Packet& packet : *packets) rte_pktmbuf_free(packet.packet);
    packets->clear();
  }
}

}  // namespace weft::sim
