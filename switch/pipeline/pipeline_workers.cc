// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The engine between workers: packets that belong to another worker, or leave through its port, go there.
#include <cassert>

#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {

void Pipeline::steer(TimeNs now, Batch& batch) noexcept {
  // All owners first, because most bursts have no other.
  const OwnerTable& owners = state_.owners();
  const std::uint16_t workers = state_.workers();
  const bool by_addresses = owners.empty();
  std::uint16_t owner[Batch::kCapacity];
  std::uint32_t others = 0;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const wire::Parsed& parsed = meta(batch.packet[i]).parsed;
    owner[i] = by_addresses ? owners.worker_of_addresses(parsed, workers) : owners.worker_of(parsed, workers);
    others |= static_cast<std::uint32_t>(owner[i] ^ host_.worker);
  }
  if (others == 0) [[likely]]
    return;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    if (owner[i] == host_.worker) continue;
    batch.remove(i);
    hand_over(now, owner[i], batch.packet[i], 1);
  }
  if (batch.removed != 0) batch.compact();
}

// Without qos, a worker that does not keep up may hold no more than its share of the buffers. With qos, the limits of
// the shared buffer apply instead, which are asked about a burst at once.
void Pipeline::hand_over(TimeNs now, std::uint16_t worker, rte_mbuf* m, std::uint8_t stage) noexcept {
  meta(m).stage = stage;
  if (qos_ != nullptr) {
    UnchargedHandoffs& handoffs = qos_->handoffs;
    if (handoffs.size == UnchargedHandoffs::kMost) charge_handoffs(now);
    handoffs.packet[handoffs.size] = m;
    handoffs.worker[handoffs.size++] = worker;
    return;
  }
  if (outbox_->size(worker) < outbox_most_ && outbox_->push(worker, m)) [[likely]]
    return;
  drop(now, m, DropReason::handoff_full, stage == kToEgress ? Half::egress : Half::ingress);
}

void Pipeline::flush_outbox() noexcept {
  if (outbox_ == nullptr || outbox_->size() == 0) return;
  totals_.handed_out.add(outbox_->flush(*host_.handoff));
}

void Pipeline::take_handoff(TimeNs now, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  totals_.handed_in.add(count_in);
  assert(count_in <= Batch::kCapacity);
  rte_mbuf* to_egress[Batch::kCapacity];
  std::uint16_t leaving = 0;
  std::uint16_t staying = 0;
  for (std::uint16_t i = 0; i < count_in; ++i) {
    rte_mbuf* m = packets[i];
    if (meta(m).stage == kToOwner) {
      take_mac_control(now, m);
    } else if (meta(m).stage == kToEgress) {
      to_egress[leaving++] = m;
    } else {
      packets[staying++] = m;
    }
  }
  if (leaving != 0) admit_handed(now, to_egress, leaving);
  // These have left the ring and are in the hands of their worker, as if they had just been received: admission will
  // charge them again.
  if (qos_ != nullptr) release_groups(packets, staying);
  Batch batch;
  std::uint8_t at = 0;
  for (std::uint16_t i = 0; i < staying; ++i) {
    rte_mbuf* m = packets[i];
    if (batch.size != 0 && meta(m).stage != at) {
      run_ingress(now, batch, at);
      batch.size = 0;
    }
    at = meta(m).stage;
    batch.push(m);
  }
  if (batch.size != 0) run_ingress(now, batch, at);
  settle(now);
}

}  // namespace weft::pipeline
