// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/shared_buffer.h"

#include <bit>

#include "switch/qos/pfc_sender.h"

namespace weft::qos {
namespace {

// More than any threshold: with it, free << 8 keeps all its bits.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;

// A chunk is a few bursts of usual packets, and what all workers may have in their credits is little of the whole.
constexpr std::uint64_t kLargestChunk = 32 * 1024;
constexpr std::uint64_t kChunksOfAll = 512;

SharedBuffer::Limit limit_of(const BufferShare& share) noexcept {
  SharedBuffer::Limit limit;
  limit.reserve = share.reserve_bytes;
  limit.most = share.dynamic_th ? kMostBytes : std::min(share.static_th_bytes, kMostBytes);
  limit.fixed = share.dynamic_th ? 0 : ~std::uint64_t{0};
  limit.shift = share.dynamic_th ? static_cast<std::uint32_t>(8 - *share.dynamic_th) : 0;
  return limit;
}

// How much of a shared part of `size` a group has to hold, alone, to be at its threshold.
std::uint64_t reaches_threshold_at(const SharedBuffer::Limit& limit, std::uint64_t size) noexcept {
  // The more it holds, the lower is a dynamic threshold; with nothing left it is 0.
  std::uint64_t low = 1, high = limit.fixed != 0 ? limit.most : size;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (middle >= limit.threshold(size > middle ? size - middle : 0)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

SharedBuffer::SharedBuffer(const Settings& settings, bool shared_by_workers)
    : shared_by_workers_(shared_by_workers),
      ports_(settings.ports.size()),
      groups_(std::make_unique<Group[]>((settings.ports.size() + 1) * kClasses)),
      queues_(std::make_unique<Queue[]>(settings.ports.size() * kClasses)),
      port_bytes_(std::make_unique<PortBytes[]>(settings.ports.size())) {
  std::uint64_t own = 0;
  for (std::size_t port = 0; port < ports_; ++port) {
    for (unsigned i = 0; i < kClasses; ++i) {
      const BufferShare& share = settings.ports[port].group[i];
      Group& to = group(port, i);
      to.limit = limit_of(share);
      to.headroom_limit = share.headroom_bytes;
      to.xon_offset = static_cast<std::uint32_t>(share.xon_offset_bytes);
      own += share.reserve_bytes + share.headroom_bytes;
      BufferShare out = settings.ports[port].queue[i];
      if (settings.model == BufferModel::hpcc) out = BufferShare{};
      queue(port, i).limit = limit_of(out);
      queue(port, i).port_bytes = &port_bytes_[port].bytes;
    }
  }
  shared_size_ = settings.pool_bytes > own ? settings.pool_bytes - own : 0;
  chunk_ = std::min(kLargestChunk, shared_size_ / kChunksOfAll);
  full_from_ = ~std::uint64_t{0};
  for (std::size_t port = 0; port < ports_; ++port) {
    for (std::uint32_t left = PfcSender(settings.ports[port]).priorities(); left != 0; left &= left - 1) {
      const Group& asked = group(port, settings.ports[port].map.tc_to_group[std::countr_zero(left)]);
      full_from_ = std::min(full_from_, reaches_threshold_at(asked.limit, shared_size_));
    }
  }
  // What the switch itself sends is little, and it may have what is free.
  for (unsigned i = 0; i < kClasses; ++i) group(ports_, i).limit = limit_of({.dynamic_th = 0});
}

bool SharedBuffer::xon(const Group& group) const noexcept {
  if (group.headroom.value() != 0) return false;
  const std::uint64_t shared = group.limit.beyond_reserve(group.bytes.value());
  return shared == 0 || shared + std::max<std::uint64_t>(group.xon_offset, 1) <= threshold(group.limit);
}

std::uint64_t SharedBuffer::shared_used() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < group_count(); ++i) sum += groups_[i].limit.beyond_reserve(groups_[i].bytes.value());
  return sum;
}

}  // namespace weft::qos
