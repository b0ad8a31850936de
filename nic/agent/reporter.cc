// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/reporter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::agent {
namespace {

nlohmann::ordered_json to_json(const Change& change, bool with_psns) {
  const HostQp& qp = change.qp;
  nlohmann::ordered_json out{{"up", change.up}, {"local", qp.local.to_string()}, {"qpn", qp.qpn}};
  if (!change.up) return out;
  out["remote"] = qp.remote.to_string();
  out["remote_qpn"] = qp.remote_qpn;
  out["transport"] = qp.transport == Transport::rc ? "rc" : "uc";
  if (qp.mtu != 0) out["mtu"] = qp.mtu;
  if (with_psns && qp.sq_psn) out["sq_psn"] = *qp.sq_psn;
  if (with_psns && qp.rq_psn) out["rq_psn"] = *qp.rq_psn;
  out["process"] = qp.process;
  out["pid"] = qp.pid;
  out["device"] = qp.device;
  return out;
}

}  // namespace

std::string changes_text(const Message& message, bool with_psns) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Change& change : message.changes) list.push_back(to_json(change, with_psns));
  // A process may have any bytes for a name.
  return list.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

void Reporter::add(std::vector<Change> changes) {
  if (wants_snapshot_) return;  // it will have them
  for (Change& change : changes) {
    ups_waiting_ += change.up ? 1 : 0;
    waiting_.push_back(std::move(change));
  }
  if (waiting_.size() > kMostWaiting) wants_snapshot_ = true;
}

const Message* Reporter::next(TimeNs now) {
  if (now < not_before_) return nullptr;
  if (sent_) return &*sent_;
  if (!snapshot_ && now >= refresh_at_) wants_snapshot_ = true;
  const bool something = wants_snapshot_ || snapshot_ || !waiting_.empty();
  if (!something && now < heartbeat_at_) return nullptr;
  if (times_.gather != 0 && only_ends()) {
    if (gather_until_ == 0) gather_until_ = now + times_.gather;
    if (now < gather_until_) return nullptr;
  }
  gather_until_ = 0;
  sent_ = make(now);
  return &*sent_;
}

// A part of a snapshot, else changes, else nothing: a heartbeat.
Message Reporter::make(TimeNs now) {
  Message message;
  message.sequence = ++sequence_;
  if (wants_snapshot_) {
    // The list has all that is waiting.
    waiting_.clear();
    ups_waiting_ = 0;
    wants_snapshot_ = false;
    snapshot_ = message.begin = true;
    after_.reset();
    refresh_at_ = now + times_.refresh;
    ++snapshots_;
  }
  if (snapshot_) {
    for (HostQp& qp : list_.list(after_, kMostChanges)) message.changes.push_back({true, std::move(qp)});
    message.end = message.changes.size() < kMostChanges;
    return message;
  }
  const auto many = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostChanges));
  message.changes.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.begin() + many));
  waiting_.erase(waiting_.begin(), waiting_.begin() + many);
  for (const Change& change : message.changes) ups_waiting_ -= change.up ? 1 : 0;
  return message;
}

TimeNs Reporter::deadline() const noexcept {
  const bool something = sent_ || wants_snapshot_ || snapshot_ || !waiting_.empty();
  const bool gathers = !sent_ && only_ends();
  const TimeNs due = gathers     ? std::min(gather_until_, refresh_at_)
                     : something ? 0
                                 : std::min(heartbeat_at_, refresh_at_);
  return std::max(due, not_before_);
}

void Reporter::answered(TimeNs now, bool resync) {
  if (!sent_) return;
  if (resync || sent_->end) snapshot_ = false;
  wants_snapshot_ = wants_snapshot_ || resync;
  sent_.reset();
  retry_ = 0;
  // Two agents that call themselves the same make each other's switch ask again and again.
  not_before_ = resync ? now + times_.least_retry : 0;
  heartbeat_at_ = now + times_.heartbeat;
}

void Reporter::failed(TimeNs now) {
  retry_ = std::clamp(2 * retry_, times_.least_retry, times_.longest_retry);
  not_before_ = now + retry_;
}

}  // namespace weft::agent
