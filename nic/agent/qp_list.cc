// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/qp_list.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace weft::agent {
namespace {

constexpr std::uint32_t kMask24 = 0xffffff;
constexpr std::uint32_t kLeastQpn = 2;  // 0 and 1 are for management: a switch refuses to hear of them

// Texts of an event are zero-terminated, or not.
std::string text_of(const char* text, std::size_t most) {
  return {text, strnlen(text, most)};
}

std::uint32_t mtu_bytes(std::uint32_t code) {
  return code >= 1 && code <= 5 ? 128u << code : 0;
}

bool has(const weft_qp_event& e, std::uint32_t bits) {
  return (e.mask & bits) == bits;
}

}  // namespace

wire::IpAddress address_of_gid(const std::uint8_t (&gid)[16]) noexcept {
  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::array<std::uint8_t, 16> bytes;
  std::copy_n(gid, bytes.size(), bytes.begin());
  if (!std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) return wire::IpAddress::v6(bytes);
  return wire::IpAddress::v4(std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 |
                             std::uint32_t{bytes[14]} << 8 | bytes[15]);
}

QpList::QpList(AddressOf address_of, std::size_t most) : address_of_(std::move(address_of)), most_(most) {}

std::vector<Change> QpList::on_event(const weft_qp_event& event) {
  ++counters_.events;
  if (event.unread != 0) {
    ++counters_.unread;
    return {};
  }
  const Key key{text_of(event.device, sizeof event.device), event.qpn & kMask24};
  if (event.kind == WEFT_QP_DESTROY) return remove(key);
  if (event.kind != WEFT_QP_MODIFY || !has(event, WEFT_MASK_STATE)) return {};
  switch (event.state) {
    case WEFT_STATE_RTR:
      return has(event, WEFT_MASK_AV | WEFT_MASK_DEST_QPN) ? connect(event, key) : std::vector<Change>{};
    case WEFT_STATE_RTS:
      return complete(event, key);
    case WEFT_STATE_RESET:
      return remove(key);
    default:
      return {};  // in ERROR it sends nothing, and is destroyed or reset
  }
}

// To RTR: from here on its number stands for a connection.
std::vector<Change> QpList::connect(const weft_qp_event& event, const Key& key) {
  if (event.type != static_cast<std::uint32_t>(Transport::rc) &&
      event.type != static_cast<std::uint32_t>(Transport::uc)) {
    return {};
  }
  const auto local = address_of_(key.first, event.port, event.sgid_index);
  const wire::IpAddress remote = address_of_gid(event.dgid);
  const bool numbered = key.second >= kLeastQpn && (event.dest_qpn & kMask24) >= kLeastQpn;
  if (!local || local->is_v6() != remote.is_v6() || !numbered) {
    ++counters_.foreign;
    return remove(key);
  }
  HostQp qp;
  qp.local = *local;
  qp.remote = remote;
  qp.qpn = key.second;
  qp.remote_qpn = event.dest_qpn & kMask24;
  qp.transport = static_cast<Transport>(event.type);
  if (has(event, WEFT_MASK_PATH_MTU)) qp.mtu = mtu_bytes(event.path_mtu);
  if (has(event, WEFT_MASK_RQ_PSN)) qp.rq_psn = event.rq_psn & kMask24;
  qp.process = text_of(event.process, sizeof event.process);
  qp.device = key.first;
  qp.pid = event.pid;
  const auto at = qps_.find(key);
  // The kernel and the library tell of the same call.
  if (at != qps_.end() && !at->second.qp.sq_psn && at->second.qp.remote == qp.remote &&
      at->second.qp.remote_qpn == qp.remote_qpn && at->second.qp.rq_psn == qp.rq_psn) {
    at->second.kernel = at->second.kernel || event.kernel != 0;
    return {};
  }
  std::vector<Change> changes = remove(key);
  if (qps_.size() >= most_) {
    ++counters_.full;
    return changes;
  }
  qps_[key] = {qp, event.kernel != 0};
  changes.push_back({true, std::move(qp)});
  return changes;
}

// To RTS: now it is known, too, with which PSN it begins.
std::vector<Change> QpList::complete(const weft_qp_event& event, const Key& key) {
  const auto at = qps_.find(key);
  if (at == qps_.end() || !has(event, WEFT_MASK_SQ_PSN) || at->second.qp.sq_psn) return {};
  at->second.qp.sq_psn = event.sq_psn & kMask24;
  return {{true, at->second.qp}};
}

std::vector<Change> QpList::remove(const Key& key) {
  const auto at = qps_.find(key);
  if (at == qps_.end()) return {};
  Change gone{false, {}};
  gone.qp.local = at->second.qp.local;
  gone.qp.qpn = at->second.qp.qpn;
  qps_.erase(at);
  return {std::move(gone)};
}

std::vector<Change> QpList::on_exit(const std::function<bool(std::uint32_t pid)>& is_gone) {
  std::vector<Key> orphans;
  for (const auto& [key, record] : qps_) {
    if (!record.kernel && is_gone(record.qp.pid)) orphans.push_back(key);
  }
  std::vector<Change> changes;
  for (const Key& key : orphans) {
    for (Change& change : remove(key)) changes.push_back(std::move(change));
  }
  return changes;
}

void QpList::restore(HostQp qp, bool kernel) {
  if (qps_.size() >= most_) return;
  Key key{qp.device, qp.qpn};
  qps_.try_emplace(std::move(key), Record{std::move(qp), kernel});
}

std::vector<std::pair<HostQp, bool>> QpList::all() const {
  std::vector<std::pair<HostQp, bool>> found;
  for (const auto& [key, record] : qps_) found.emplace_back(record.qp, record.kernel);
  return found;
}

std::vector<std::uint32_t> QpList::processes() const {
  std::set<std::uint32_t> pids;
  for (const auto& [key, record] : qps_) {
    if (!record.kernel) pids.insert(record.qp.pid);
  }
  return {pids.begin(), pids.end()};
}

std::vector<HostQp> QpList::list(std::optional<Key>& after, std::size_t most) const {
  std::vector<HostQp> found;
  for (auto at = after ? qps_.upper_bound(*after) : qps_.begin(); at != qps_.end() && found.size() < most; ++at) {
    found.push_back(at->second.qp);
    after = at->first;
  }
  return found;
}

}  // namespace weft::agent
