// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "switch/base/spsc_ring.h"
#include "switch/base/time.h"

namespace weft::capture {

/// Why a packet was copied.
enum class RecordKind : std::uint8_t { filler, rx, tx, drop };

/// Precedes the bytes of every packet in a ring.
struct Record {
  TimeNs time;
  std::uint32_t size;      ///< of record and packet bytes, a multiple of 8
  std::uint32_t captured;  ///< packet bytes that follow
  std::uint32_t length;    ///< of the packet on the wire, without FCS
  std::uint16_t in_port;   ///< PortIndex
  std::uint16_t out_port;  ///< PortIndex
  RecordKind kind;
  std::uint8_t switch_index;
  std::uint8_t reason;   ///< of a drop
  std::uint8_t refused;  ///< tx: the device refused so many packets of the burst that this one belongs to
};
static_assert(sizeof(Record) == 32);

/// A bounded ring of packet copies with one writing and one reading thread. The writer never waits: what finds no room
/// is counted. What was written is seen by the reader when it has been published, and can be taken back until then.
class RecordRing {
 public:
  /// @param bytes  a power of two, at least 64 KiB. Touched here, so that the writer meets no page fault.
  explicit RecordRing(std::size_t bytes);

  // The writer.
  /// Room for a record and `captured` bytes behind it; nullptr, and one more lost packet, when there is none.
  [[nodiscard]] Record* reserve(std::uint32_t captured) noexcept;
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  /// Shows the reader everything before `position`, which written() gave, and forgets what lies behind.
  void publish(std::uint64_t position) noexcept {
    written_ = position;
    at_.publish(position);
  }

  /// Forgets what has not been published.
  void take_back() noexcept { written_ = at_.tail(); }

  // The reader.
  /// The oldest record, nullptr when there is none. Valid until pop().
  [[nodiscard]] const Record* front() noexcept;
  void pop() noexcept;

  /// Packets that found no room. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept { return at_.lost(); }

 private:
  [[nodiscard]] Record* record_at(std::uint64_t position) noexcept {
    return reinterpret_cast<Record*>(bytes_.get() + (position & (size_ - 1)));
  }

  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
  alignas(64) std::uint64_t written_ = 0;  ///< by the writer, published or not
  SpscPositions at_;
};

/// The packet of a record.
[[nodiscard]] inline const std::uint8_t* packet_of(const Record& record) noexcept {
  return reinterpret_cast<const std::uint8_t*>(&record + 1);
}

}  // namespace weft::capture
