// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/workers.h"

#include <utility>

#include "switch/pipeline/steer.h"
#include "switch/stages/nack_filter/options.h"

namespace weft::stages {

NackFilterShared::NackFilterShared(const pipeline::StageBuild& build)
    : workers_(build.workers),
      owners_(build.owners),
      uplinks_{"the set of uplinks of nack_filter", {}},
      rings_(std::make_unique<Ring[]>(std::size_t{build.workers} * build.workers)) {
  for (std::uint16_t from = 0; from < workers_; ++from) {
    for (std::uint16_t to = 0; to < workers_; ++to) {
      if (from != to) ring(from, to).items = std::make_unique<NackMail[]>(kCapacity);
    }
  }
  const NackOptions options = nack_options(build.options, build.info);
  for (const pipeline::PortInfo& port : build.info.ports) {
    if (options.uplink_of_port[port.index] != NackOptions::kNoUplink) uplinks_.ports.push_back(port.index);
  }
}

std::uint16_t NackFilterShared::owner(const wire::Parsed& parsed) const noexcept {
  const std::uint16_t by_hash = pipeline::worker_by_hash(parsed.pair_hash(), workers_);
  return owners_ == nullptr || owners_->empty() ? by_hash : owners_->find(parsed.address_key, parsed.dest_qp, by_hash);
}

void NackFilterShared::push(std::uint16_t from, std::uint16_t to, const NackMail& mail) noexcept {
  Ring& r = ring(from, to);
  const std::uint32_t tail = r.tail.load(std::memory_order_relaxed);
  if (tail - r.head.load(std::memory_order_acquire) == kCapacity) {
    r.lost.fetch_add(1, std::memory_order_release);
    return;
  }
  r.items[tail % kCapacity] = mail;
  r.tail.store(tail + 1, std::memory_order_release);
}

bool NackFilterShared::pop(std::uint16_t from, std::uint16_t to, NackMail& mail) noexcept {
  Ring& r = ring(from, to);
  const std::uint32_t head = r.head.load(std::memory_order_relaxed);
  if (head == r.tail.load(std::memory_order_acquire)) return false;
  mail = r.items[head % kCapacity];
  r.head.store(head + 1, std::memory_order_release);
  return true;
}

bool NackFilterShared::pending(std::uint16_t to) const noexcept {
  for (std::uint16_t from = 0; from < workers_; ++from) {
    const Ring& r = ring(from, to);
    if (r.head.load(std::memory_order_relaxed) != r.tail.load(std::memory_order_acquire)) return true;
  }
  return false;
}

std::uint32_t NackFilterShared::lost(std::uint16_t from, std::uint16_t to) const noexcept {
  return ring(from, to).lost.load(std::memory_order_acquire);
}

void NackFilterShared::adopt(StageShared& old_shared, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<NackFilterShared&>(old_shared);
  // With other options all queue pairs begin anew: then nobody wants to know what left before.
  if (adoption.same_options && old.workers_ == workers_) std::swap(rings_, old.rings_);
}

}  // namespace weft::stages
