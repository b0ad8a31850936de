// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/memory.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace weft::nic {

Mr MemoryTable::add(Pd pd, std::uint8_t* data, std::uint64_t length, std::uint32_t access, std::uint64_t address) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
    entries_.back().tag = static_cast<std::uint8_t>(index * 37 + 17);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Entry& e = entries_[index];
  ++e.tag;
  e.data = data;
  e.address = address;
  e.length = length;
  e.access = access;
  e.pd = pd.id;
  e.used = e.valid = true;
  return {address, length, (index + 1) << 8 | e.tag};
}

bool MemoryTable::remove(std::uint32_t key) noexcept {
  const Entry* found = find(key);
  if (found == nullptr) return false;
  const auto index = static_cast<std::size_t>(found - entries_.data());
  entries_[index].used = entries_[index].valid = false;
  free_.push_back(static_cast<std::uint32_t>(index));
  return true;
}

bool MemoryTable::invalidate(Pd pd, std::uint32_t key) noexcept {
  const Entry* found = find(key);
  if (found == nullptr || !found->valid || found->pd != pd.id) return false;
  entries_[static_cast<std::size_t>(found - entries_.data())].valid = false;
  return true;
}

bool ScatterList::resolve(const MemoryTable& table, Pd pd, std::span<const Sge> sge, std::uint32_t access) noexcept {
  assert(sge.size() <= kMaxSge);
  count_ = 0;
  length_ = 0;
  for (const Sge& s : sge) {
    if (s.length == 0) continue;
    const auto memory = table.resolve(pd, s.lkey, s.address, s.length, access);
    if (!memory) return false;
    pieces_[count_++] = {*memory, s.length};
    length_ += s.length;
  }
  return true;
}

void ScatterList::write(std::uint64_t offset, const std::uint8_t* from, std::uint32_t bytes) const noexcept {
  assert(offset + bytes <= length_);
  for (std::size_t i = 0; i < count_ && bytes > 0; ++i) {
    const Piece& p = pieces_[i];
    if (offset >= p.length) {
      offset -= p.length;
      continue;
    }
    const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, p.length - offset));
    if (from != nullptr) {
      if (p.memory.data != nullptr) std::memcpy(p.memory.data + offset, from, part);
      from += part;
    }
    bytes -= part;
    offset = 0;
  }
}

void ScatterList::gather(std::uint64_t offset, std::uint32_t bytes, Payload& out) const noexcept {
  assert(offset + bytes <= length_);
  out.bytes = bytes;
  out.count = 0;
  for (std::size_t i = 0; i < count_ && bytes > 0; ++i) {
    const Piece& p = pieces_[i];
    if (offset >= p.length) {
      offset -= p.length;
      continue;
    }
    const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, p.length - offset));
    out.pieces[out.count++] = {p.memory.data == nullptr ? nullptr : p.memory.data + offset, part};
    bytes -= part;
    offset = 0;
  }
}

}  // namespace weft::nic
