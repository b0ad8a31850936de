// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What policy conweave has decided about a packet, on its way from `lb` to the egress of `lb_tag`, where the tag is put
// on. It is in a dynamic field of the mbuf, so that it goes through queues and rings with the packet.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>
#include <optional>

#include "switch/stages/lb/conweave.h"

namespace weft::stages {

class LbMark {
 public:
  /// Asks for the field and its flag, once per process.
  LbMark() noexcept : field_(field()), flag_(field_ < 0 ? 0 : flag()) {}
  /// False when all fields of mbufs are in use: no packet has a mark then.
  [[nodiscard]] bool usable() const noexcept { return flag_ != 0; }

  /// The packet shall leave with this tag.
  void set(rte_mbuf* m, const ConweaveTag& tag) const noexcept { write(m, pack(tag)); }
  /// The packet has its tag: it is an answer of this switch.
  void set_own(rte_mbuf* m) const noexcept { write(m, kOwn); }
  [[nodiscard]] bool own(const rte_mbuf* m) const noexcept { return marked(m) && (read(m) & kOwn) != 0; }
  [[nodiscard]] std::optional<ConweaveTag> tag(const rte_mbuf* m) const noexcept {
    if (!marked(m) || (read(m) & kOwn) != 0) return std::nullopt;
    return unpack(read(m));
  }
  /// Switches of one process hand mbufs to each other: none may take the mark of another one for its own.
  void clear(rte_mbuf* m) const noexcept { m->ol_flags &= ~flag_; }

 private:
  static constexpr std::uint64_t kOwn = std::uint64_t{1} << 63, kRequest = std::uint64_t{1} << 62,
                                 kTail = std::uint64_t{1} << 61, kRerouted = std::uint64_t{1} << 60;
  static constexpr unsigned kSent = ConweaveTime::kBits, kEpoch = 2 * ConweaveTime::kBits;

  [[nodiscard]] static int field() noexcept {
    static const rte_mbuf_dynfield kField{"weft_lb_mark", sizeof(std::uint64_t), alignof(std::uint32_t), 0};
    return rte_mbuf_dynfield_register(&kField);
  }
  [[nodiscard]] static std::uint64_t flag() noexcept {
    static const rte_mbuf_dynflag kFlag{"weft_lb_marked", 0};
    const int bit = rte_mbuf_dynflag_register(&kFlag);
    return bit < 0 ? 0 : std::uint64_t{1} << bit;
  }
  [[nodiscard]] static std::uint64_t pack(const ConweaveTag& tag) noexcept {
    return (tag.request ? kRequest : 0) | (tag.tail ? kTail : 0) | (tag.rerouted ? kRerouted : 0) |
           std::uint64_t{tag.epoch} << kEpoch | std::uint64_t{tag.sent.ticks()} << kSent | tag.tail_sent.ticks();
  }
  [[nodiscard]] static ConweaveTag unpack(std::uint64_t bits) noexcept {
    return {.epoch = static_cast<std::uint8_t>(bits >> kEpoch),
            .rerouted = (bits & kRerouted) != 0,
            .tail = (bits & kTail) != 0,
            .request = (bits & kRequest) != 0,
            .sent = ConweaveTime::from_ticks(static_cast<std::uint32_t>(bits >> kSent)),
            .tail_sent = ConweaveTime::from_ticks(static_cast<std::uint32_t>(bits))};
  }
  [[nodiscard]] bool marked(const rte_mbuf* m) const noexcept { return (m->ol_flags & flag_) != 0; }
  [[nodiscard]] std::uint64_t read(const rte_mbuf* m) const noexcept {
    std::uint64_t bits;
    __builtin_memcpy(&bits, RTE_MBUF_DYNFIELD(m, field_, const std::uint8_t*), sizeof bits);
    return bits;
  }
  void write(rte_mbuf* m, std::uint64_t bits) const noexcept {
    m->ol_flags |= flag_;
    __builtin_memcpy(RTE_MBUF_DYNFIELD(m, field_, std::uint8_t*), &bits, sizeof bits);
  }

  int field_;
  std::uint64_t flag_;
};

}  // namespace weft::stages
