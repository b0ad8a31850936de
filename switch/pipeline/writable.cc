// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/writable.h"

#include <algorithm>
#include <cstring>

#include "switch/pipeline/pool.h"
#include "switch/wire/icrc.h"

namespace weft::pipeline {
namespace {

// If no more bytes than this follow the requested ones, they are copied too: that is cheaper than one more segment.
constexpr std::uint32_t kCopyBehind = 64;

// A byte of a packet, and the segment in front of the one that it lies in (nullptr for the first segment).
struct Place {
  rte_mbuf* before;
  rte_mbuf* segment;  // nullptr behind the last byte
  std::uint32_t offset;
};

Place find(rte_mbuf* m, std::uint32_t at) noexcept {
  Place place{nullptr, m, at};
  while (place.segment != nullptr && place.offset >= place.segment->data_len) {
    place.offset -= place.segment->data_len;
    place.before = place.segment;
    place.segment = place.segment->next;
  }
  return place;
}

std::uint32_t bytes_in_segments(const rte_mbuf* m) noexcept {
  std::uint32_t bytes = 0;
  for (; m != nullptr; m = m->next) bytes += m->data_len;
  return bytes;
}

// A view of the same buffer that begins `offset` bytes later, and the rest of the chain. nullptr without a buffer.
rte_mbuf* view_from(rte_mbuf* segment, std::uint32_t offset) noexcept {
  rte_mbuf* view = rte_pktmbuf_alloc(segment->pool);
  if (view == nullptr) return nullptr;
  rte_pktmbuf_attach(view, segment);
  view->data_off = static_cast<std::uint16_t>(segment->data_off + offset);
  view->data_len = static_cast<std::uint16_t>(segment->data_len - offset);
  view->next = segment->next;
  return view;
}

// Puts `own` in the place of the bytes [at, end), which neither begin the packet nor end beyond it. False without a
// buffer.
bool put_in_place(rte_mbuf* m, std::uint32_t at, std::uint32_t end, rte_mbuf* own) noexcept {
  const Place from = find(m, at);
  const Place to = find(m, end);
  rte_mbuf* behind = to.segment;
  if (behind == from.segment && from.offset != 0) {
    behind = view_from(behind, to.offset);
    if (behind == nullptr) return false;
  } else if (behind != nullptr) {
    behind->data_off = static_cast<std::uint16_t>(behind->data_off + to.offset);
    behind->data_len = static_cast<std::uint16_t>(behind->data_len - to.offset);
  }
  rte_mbuf* gone = from.segment;
  rte_mbuf* last = from.before;
  if (from.offset != 0) {
    last = from.segment;
    gone = last->next;
    last->data_len = static_cast<std::uint16_t>(from.offset);
  }
  // With a view, the segments behind are the view's already.
  while (gone != to.segment && (to.segment != from.segment || from.offset == 0)) {
    rte_mbuf* next = gone->next;
    rte_pktmbuf_free_seg(gone);
    gone = next;
  }
  last->next = own;
  own->next = behind;
  std::uint16_t segments = 0;
  for (const rte_mbuf* s = m; s != nullptr; s = s->next) ++segments;
  m->nb_segs = segments;
  return true;
}

std::uint8_t* make_own(rte_mbuf* m, std::uint32_t at, std::uint32_t bytes) noexcept {
  rte_mbuf* own = rte_pktmbuf_alloc(m->pool);
  if (own == nullptr) return nullptr;
  const std::uint32_t there = bytes_in_segments(m);
  const std::uint32_t room = rte_pktmbuf_tailroom(own);
  std::uint32_t end = at + bytes;
  if (there - end <= kCopyBehind && there - at <= room) end = there;
  auto* to = rte_pktmbuf_mtod(own, std::uint8_t*);
  if (end - at <= room) {
    const void* from = rte_pktmbuf_read(m, at, end - at, to);
    if (from != to) std::memcpy(to, from, end - at);
    own->data_len = static_cast<std::uint16_t>(end - at);
    if (put_in_place(m, at, end, own)) return to;
  }
  rte_pktmbuf_free_seg(own);
  return nullptr;
}

}  // namespace

bool has_bytes(const rte_mbuf* m, std::uint32_t at, std::uint32_t bytes) noexcept {
  return std::uint64_t{at} + bytes <= bytes_in_segments(m);
}

std::uint8_t* writable(rte_mbuf* m, std::uint32_t at, std::uint32_t bytes) noexcept {
  const auto [before, segment, offset] = find(m, at);
  if (segment == nullptr) return nullptr;
  const bool contiguous = offset + bytes <= segment->data_len;
  if (contiguous && !shares_bytes(segment)) [[likely]]
    return rte_pktmbuf_mtod_offset(segment, std::uint8_t*, offset);
  if (segment == m) {
    // The headers must stay in one piece. Copies of this packet begin behind them.
    if (RTE_MBUF_CLONED(m) && at < own_header_bytes(m)) return nullptr;
    if (contiguous && at + bytes <= own_header_bytes(m)) return rte_pktmbuf_mtod_offset(m, std::uint8_t*, at);
    if (at == 0) return nullptr;
  }
  return has_bytes(m, at, bytes) ? make_own(m, at, bytes) : nullptr;
}

std::optional<std::uint32_t> icrc_offset(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = meta(m).parsed;
  if (parsed.kind != wire::FrameKind::roce) return std::nullopt;
  const std::uint32_t at = wire::roce_layout(frame(m), parsed).icrc;
  if (m->data_len != m->pkt_len && !has_bytes(m, at, wire::kIcrcBytes)) return std::nullopt;
  return at;
}

std::uint8_t* writable_icrc(rte_mbuf* m) noexcept {
  const auto at = icrc_offset(m);
  return at ? writable(m, *at, wire::kIcrcBytes) : nullptr;
}

}  // namespace weft::pipeline
