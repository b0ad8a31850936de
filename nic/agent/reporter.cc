// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/reporter.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace weft::agent {
namespace {

// A process may have any bytes for a name, and hardly ever has.
std::string quoted(const std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return '"' + text + '"';
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void write(std::string& out, const char* key, const std::string& value) {
  out.append(",\"").append(key).append("\":").append(value);
}

// As text, without a tree of values, which would be a fifth of what a message costs.
void write(const Change& change, bool with_psns, std::string& out) {
  const HostQp& qp = change.qp;
  out += change.up ? R"({"up":true)" : R"({"up":false)";
  write(out, "local", quoted(qp.local.to_string()));
  write(out, "qpn", std::to_string(qp.qpn));
  if (change.up) {
    write(out, "remote", quoted(qp.remote.to_string()));
    write(out, "remote_qpn", std::to_string(qp.remote_qpn));
    write(out, "transport", qp.transport == Transport::rc ? R"("rc")" : R"("uc")");
    if (qp.mtu != 0) write(out, "mtu", std::to_string(qp.mtu));
    if (with_psns && qp.sq_psn) write(out, "sq_psn", std::to_string(*qp.sq_psn));
    if (with_psns && qp.rq_psn) write(out, "rq_psn", std::to_string(*qp.rq_psn));
    write(out, "process", quoted(qp.process));
    write(out, "pid", std::to_string(qp.pid));
    write(out, "device", quoted(qp.device));
  }
  out += '}';
}

}  // namespace

std::string changes_text(const Message& message) {
  std::string text = "[";
  for (const Change& change : message.changes) {
    if (text.size() > 1) text += ',';
    write(change, !message.of_snapshot, text);
  }
  return text += ']';
}

void Reporter::add(std::vector<Change> changes, TimeNs now) {
  if (wants_snapshot_) return;  // it will have them
  for (Change& change : changes) add(std::move(change), now);
  if (waiting_.size() > kMostWaiting) wants_snapshot_ = true;
}

void Reporter::add(Change change, TimeNs now) {
  const bool goes_on = change.up && !waiting_.empty() && waiting_.back().up &&
                       waiting_.back().qp.local == change.qp.local && waiting_.back().qp.qpn == change.qp.qpn;
  if (goes_on) {
    --kinds_.of(waiting_.back());
    waiting_.pop_back();  // the later one says all that it does
  }
  if (++kinds_.of(change) == 1 && !goes_on) {
    if (!change.up) gather_until_ = now + times_.gather;
    if (change.up && !change.qp.sq_psn) settle_until_ = now + times_.settle;
  }
  waiting_.push_back(std::move(change));
}

TimeNs Reporter::due() const noexcept {
  if (wants_snapshot_ || snapshot_ || kinds_.whole != 0) return 0;
  const TimeNs changes = kinds_.halves != 0 ? settle_until_ : kinds_.ends != 0 ? gather_until_ : kNever;
  return std::min({changes, heartbeat_at_, refresh_at_});
}

const Message* Reporter::next(TimeNs now) {
  if (now < not_before_ || given_ == kMostUnderWay) return nullptr;
  if (given_ == sent_.size()) {
    if (now < due()) return nullptr;
    if (!snapshot_ && now >= refresh_at_) wants_snapshot_ = true;
    sent_.push_back(make(now));
  }
  return &sent_[given_++];
}

// A part of a snapshot, else changes, else nothing: a heartbeat.
Message Reporter::make(TimeNs now) {
  Message message;
  message.sequence = ++sequence_;
  heartbeat_at_ = now + times_.heartbeat;
  if (wants_snapshot_) {
    // The list has all that is waiting.
    waiting_.clear();
    kinds_ = {};
    wants_snapshot_ = false;
    snapshot_ = message.begin = true;
    last_begin_ = message.sequence;
    after_.reset();
    refresh_at_ = now + times_.refresh;
    ++snapshots_;
  }
  if (snapshot_) {
    for (HostQp& qp : list_.list(after_, kMostChanges)) message.changes.push_back({true, std::move(qp)});
    message.of_snapshot = true;
    message.end = message.changes.size() < kMostChanges;
    snapshot_ = !message.end;
    return message;
  }
  const auto many = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostChanges));
  message.changes.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.begin() + many));
  waiting_.erase(waiting_.begin(), waiting_.begin() + many);
  for (const Change& change : message.changes) --kinds_.of(change);
  return message;
}

TimeNs Reporter::deadline() const noexcept {
  if (given_ == kMostUnderWay) return kNever;
  return std::max(given_ < sent_.size() ? 0 : due(), not_before_);
}

void Reporter::answered(TimeNs now, bool resync) {
  if (given_ == 0) return;
  // What was under way when a snapshot began is not known to the switch, either: it asks again, and has been told.
  const bool asks = resync && sent_.front().sequence >= last_begin_;
  sent_.pop_front();
  --given_;
  retry_ = 0;
  if (!asks) return;
  wants_snapshot_ = true;
  snapshot_ = false;
  // Two agents that call themselves the same make each other's switch ask again and again.
  not_before_ = now + times_.least_retry;
}

void Reporter::failed(TimeNs now) {
  again();
  retry_ = std::clamp(2 * retry_, times_.least_retry, times_.longest_retry);
  not_before_ = now + retry_;
}

}  // namespace weft::agent
