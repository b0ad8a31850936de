// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Memory regions: which bytes a key stands for, and who may do what with them (IBTA 10.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nic/rnic/config.h"
#include "nic/rnic/packet.h"
#include "nic/rnic/work.h"

namespace weft::nic {

/// A protection domain: regions and queue pairs of different ones do not meet.
struct Pd {
  std::uint32_t id = 0;

  friend bool operator==(const Pd&, const Pd&) = default;
};

/// A registered memory region. lkey and rkey are equal.
struct Mr {
  std::uint64_t address = 0;  ///< of its first byte, as work requests and the peer name it
  std::uint64_t length = 0;
  std::uint32_t key = 0;
};

/// Memory that takes the place of other memory: of a unit that was copied together with what it works in.
struct Relocation {
  const std::uint8_t* from = nullptr;
  std::uint64_t bytes = 0;
  std::uint8_t* to = nullptr;

  /// Where a pointer into the old memory points now; others, and null, stay as they are.
  [[nodiscard]] std::uint8_t* operator()(std::uint8_t* p) const noexcept {
    const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(from);
    return p == nullptr || offset >= bytes ? p : to + offset;
  }
};

/// All regions of a device. A region without memory behind it has addresses and rights alone: what is written to it is
/// not kept, what is read from it has no bytes. A simulator that elides payload registers those.
class MemoryTable {
 public:
  /// Registers `length` bytes at `data`, or nothing but addresses when data is null. `address` is what names the first
  /// byte; verbs use the pointer's value.
  Mr add(Pd pd, std::uint8_t* data, std::uint64_t length, std::uint32_t access, std::uint64_t address);
  /// Forgets a region. False when there is none.
  bool remove(std::uint32_t key) noexcept;
  /// Takes a key out of use, as SEND with Invalidate does (IBTA 10.6.5.2). False when it is not in use in this domain.
  bool invalidate(Pd pd, std::uint32_t key) noexcept;

  void relocate(const Relocation& moved) noexcept {
    for (Entry& e : entries_) e.data = moved(e.data);
  }

  /// The memory of `length` bytes at `address`; nullopt when the key, the domain, the rights or the bounds forbid it.
  [[nodiscard]] std::optional<Memory> resolve(Pd pd, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                                              std::uint32_t access) const noexcept {
    const Entry* e = find(key);
    if (e == nullptr || !e->valid || e->pd != pd.id || (e->access & access) != access) return std::nullopt;
    const std::uint64_t offset = address - e->address;
    if (address < e->address || offset > e->length || length > e->length - offset) return std::nullopt;
    return Memory{e->data == nullptr ? nullptr : e->data + offset};
  }

 private:
  struct Entry {
    std::uint8_t* data = nullptr;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t access = 0;
    std::uint32_t pd = 0;
    std::uint8_t tag = 0;  ///< the low byte of the key; changes when the slot is used again
    bool used = false;
    bool valid = false;
  };
  [[nodiscard]] const Entry* find(std::uint32_t key) const noexcept {
    const std::uint32_t index = (key >> 8) - 1;
    if (index >= entries_.size()) return nullptr;
    const Entry& e = entries_[index];
    return e.used && e.tag == (key & 0xff) ? &e : nullptr;
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
};

/// A scatter/gather list as memory: where byte `offset` of a message lies.
class ScatterList {
 public:
  ScatterList() = default;
  /// Checks every piece; false when one of them may not be used so.
  bool resolve(const MemoryTable& table, Pd pd, std::span<const Sge> sge, std::uint32_t access) noexcept;
  /// Puts a single piece of known memory there.
  void set(Memory memory, std::uint32_t length) noexcept {
    pieces_[0] = {memory, length};
    count_ = 1;
    length_ = length;
  }
  void relocate(const Relocation& moved) noexcept {
    for (Piece& p : pieces_) p.memory.data = moved(p.memory.data);
  }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
  /// Copies bytes to `offset`; bytes without a value (null) are counted only. The range must lie inside.
  void write(std::uint64_t offset, const std::uint8_t* from, std::uint32_t bytes) const noexcept;
  /// Lists the memory of a range, which must lie inside.
  void gather(std::uint64_t offset, std::uint32_t bytes, Payload& out) const noexcept;

  friend bool operator==(const ScatterList&, const ScatterList&) = default;

 private:
  struct Piece {
    Memory memory;
    std::uint32_t length = 0;

    friend bool operator==(const Piece&, const Piece&) = default;
  };
  std::array<Piece, kMaxSge> pieces_{};
  std::uint8_t count_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace weft::nic
