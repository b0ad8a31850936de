// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/address_pairs.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "switch/wire/hash.h"

namespace weft::tables {

AddressPairs::AddressPairs(std::uint32_t capacity)
    : capacity_(capacity), chain_mask_(std::bit_ceil(capacity) - 1), heads_(chain_mask_ + 1), records_(capacity) {
  assert(capacity >= 1 && capacity <= 1u << 30);
}

AddressPairs::Canonical AddressPairs::canonical(const std::uint8_t* addresses) noexcept {
  Canonical c;
  std::memcpy(c.low.data(), addresses, 16);
  std::memcpy(c.high.data(), addresses + 16, 16);
  c.direction = std::memcmp(c.low.data(), c.high.data(), 16) > 0 ? 1 : 0;
  if (c.direction != 0) std::swap(c.low, c.high);
  return c;
}

std::uint32_t AddressPairs::chain_of(const Address& low, const Address& high) const noexcept {
  return wire::hash_v6(low.data(), high.data()).unordered & chain_mask_;
}

std::uint32_t AddressPairs::find(const std::uint8_t* addresses) const noexcept {
  const Canonical pair = canonical(addresses);
  std::uint32_t at = heads_[chain_of(pair.low, pair.high)];
  for (std::uint32_t steps = 0; at != 0 && steps < kMaxChain; ++steps) {
    const Record& record = records_[at - 1];
    if (record.low == pair.low && record.high == pair.high) return (at - 1) << 1 | pair.direction;
    at = record.next;
  }
  return kNone;
}

std::uint32_t AddressPairs::acquire(const std::uint8_t* addresses) noexcept {
  const std::uint32_t known = find(addresses);
  if (known != kNone) {
    retain(known);
    return known;
  }
  const Canonical pair = canonical(addresses);
  std::uint32_t& head = heads_[chain_of(pair.low, pair.high)];
  std::uint32_t length = 0;
  for (std::uint32_t at = head; at != 0; at = records_[at - 1].next) ++length;
  if (size_ == capacity_ || length >= kMaxChain) return kNone;

  std::uint32_t position = fresh_;
  if (free_ != 0) {
    position = free_ - 1;
    free_ = records_[position].next;
  } else {
    ++fresh_;
  }
  records_[position] = {pair.low, pair.high, 1, head};
  head = position + 1;
  ++size_;
  return position << 1 | pair.direction;
}

void AddressPairs::release(std::uint32_t id) noexcept {
  const std::uint32_t position = id >> 1;
  Record& record = records_[position];
  assert(record.references > 0);
  if (--record.references != 0) return;
  std::uint32_t* link = &heads_[chain_of(record.low, record.high)];
  while (*link != position + 1) link = &records_[*link - 1].next;
  *link = record.next;
  record.next = free_;
  free_ = position + 1;
  --size_;
}

std::uint32_t AddressPairs::reverse(std::uint32_t id) const noexcept {
  if (id == kNone) return kNone;
  const Record& record = records_[id >> 1];
  return record.low == record.high ? id : id ^ 1;
}

std::pair<wire::IpAddress, wire::IpAddress> AddressPairs::addresses(std::uint32_t id) const noexcept {
  const Record& record = records_[id >> 1];
  const auto low = wire::IpAddress::v6(record.low), high = wire::IpAddress::v6(record.high);
  return (id & 1) != 0 ? std::pair{high, low} : std::pair{low, high};
}

}  // namespace weft::tables
