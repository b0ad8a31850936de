// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/handle.h"

#include <algorithm>
#include <set>

#include "nic/rnic/config.h"

namespace weft::inc::comm {
namespace {

constexpr std::uint32_t kMagic = 0x57494831;  // "WIH1"
constexpr std::uint32_t k24Bits = (1u << 24) - 1;

}  // namespace

void write_end(ByteWriter& out, const QpEnd& end) {
  for (const std::uint32_t n : {end.qpn, end.first_psn, end.expects_psn}) out.number(n & k24Bits, 3);
}

void read_end(ByteReader& in, QpEnd& end) {
  for (std::uint32_t* n : {&end.qpn, &end.first_psn, &end.expects_psn}) *n = static_cast<std::uint32_t>(in.number(3));
}

std::array<std::uint8_t, kHandleBytes> write_handle(const Handle& handle) {
  ByteWriter out;
  out.number(kMagic, 4);
  out.number(handle.rank, 4);
  out.number(handle.ranks, 4);
  out.number(handle.shape.mtu, 4);
  out.number(handle.shape.message_packets, 4);
  out.number(handle.shape.window, 4);
  out.address(handle.switch_end.address);
  write_end(out, handle.switch_end);
  for (const QpEnd& end : handle.ends) write_end(out, end);
  const auto bytes = out.take();
  std::array<std::uint8_t, kHandleBytes> padded{};
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  return padded;
}

std::optional<Handle> read_handle(std::span<const std::uint8_t, kHandleBytes> bytes) {
  ByteReader in(bytes);
  Handle h;
  if (in.number(4) != kMagic) return std::nullopt;
  h.rank = static_cast<std::uint32_t>(in.number(4));
  h.ranks = static_cast<std::uint32_t>(in.number(4));
  h.shape.mtu = static_cast<std::uint32_t>(in.number(4));
  h.shape.message_packets = static_cast<std::uint32_t>(in.number(4));
  h.shape.window = static_cast<std::uint32_t>(in.number(4));
  const wire::IpAddress address = in.address();
  if (h.ranks < 1 || h.ranks > kMaxGroupRanks || h.rank >= h.ranks || !nic::is_path_mtu(h.shape.mtu)) {
    return std::nullopt;
  }
  h.switch_end.address = address;
  read_end(in, h.switch_end);
  for (Partner p = 0; p < partners(h.ranks); ++p) {
    QpEnd end;
    end.address = address;
    read_end(in, end);
    h.ends.push_back(end);
  }
  return in.fine() ? std::optional(std::move(h)) : std::nullopt;
}

std::string disagreement(const std::vector<Handle>& all) {
  std::set<wire::IpAddress> seen;
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    const std::string name = "the handle of rank " + std::to_string(rank);
    if (all[rank].ranks != all.size()) return name + " is of a group of " + std::to_string(all[rank].ranks) + " ranks";
    if (all[rank].rank != rank) return name + " is that of rank " + std::to_string(all[rank].rank);
    if (all[rank].shape != all[0].shape) return name + " has another MTU, message size or window than that of rank 0";
    if (!seen.insert(all[rank].switch_end.address).second) {
      return name + " has the address of another rank: each rank needs an RNIC of its own";
    }
  }
  return "";
}

}  // namespace weft::inc::comm
