// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The part of the tracker that takes over what agents on hosts say about their queue pairs.
#include "switch/stages/rdma_track/agent_messages.h"
#include "switch/stages/rdma_track/unit.h"

namespace weft::stages {
using tables::PairSource;
using tables::QpEntry;
using tables::QpKey;
using tables::QpTable;
using tables::ResponseFlag;

bool QpTracker::on_agent_up(TimeNs now, const AgentQp& qp, bool told_again) noexcept {
  const QpKey there = acquire_key(qp.local, qp.remote, qp.remote_qpn);
  if (qp.local.is_v6() && there.addresses == tables::AddressPairs::kNone) {
    counters_.add(TrackCounter::table_full);
    return false;
  }
  const AgentPair pair{qp, there, table_.reverse(there, qp.qpn), told_again};
  // With `steer: qp` CM may have given the pair to another worker, which knows more than the agent does.
  const bool elsewhere = steering_ != nullptr && steering_->is_elsewhere(steered(there));
  const bool done = elsewhere || is_fixed(pair.there) || is_fixed(pair.back) || connect_agent(now, pair);
  release_key(there);
  return done;
}

// Both directions are in the table and open, and an agent, CM or the configuration has paired them.
bool QpTracker::is_open_pair(const QpKey& there, const QpKey& back) const noexcept {
  const std::uint32_t a = table_.find(there), b = table_.find(back);
  if (a == QpTable::kNone || b == QpTable::kNone) return false;
  const QpEntry& e = table_.entry(a);
  return e.peer == b && e.source() >= PairSource::agent && !e.closed() && !table_.entry(b).closed();
}

bool QpTracker::connect_agent(TimeNs now, const AgentPair& pair) noexcept {
  if (is_open_pair(pair.there, pair.back)) {
    // Its host still has it: it does not age, however long it is silent.
    if (pair.told_again) {
      for (const QpKey& key : {pair.there, pair.back}) table_.entry(table_.find(key)).last_seen = tables::tick_of(now);
    }
  } else {
    const bool late = is_in_use(pair.there) || is_in_use(pair.back);
    if (late && !pair.told_again) counters_.add(TrackCounter::late_entry);
    if (!open_direction(now, pair.there, pair.qp) || !open_direction(now, pair.back, pair.qp)) {
      const std::uint32_t there = table_.find(pair.there);
      if (there != QpTable::kNone && !table_.entry(there).paired()) pairing_.want(there, 0, tables::tick_of(now));
      return false;
    }
    // The second insertion may have moved the first entry.
    pairing_.link(table_.find(pair.there), table_.find(pair.back), PairSource::agent, 100);
  }
  begin_at(table_.find(pair.there), pair.qp.first_sent);
  begin_at(table_.find(pair.back), pair.qp.first_due);
  return true;
}

// Packets of this direction have passed, and neither agent, CM nor configuration has said whose they are.
bool QpTracker::is_in_use(const QpKey& key) const noexcept {
  const std::uint32_t position = table_.find(key);
  if (position == QpTable::kNone) return false;
  const QpEntry& e = table_.entry(position);
  return e.packets != 0 && !e.closed() && e.source() < PairSource::agent;
}

// An entry for a direction: what is known of a queue pair in use is kept, what belongs to an older one is not.
bool QpTracker::open_direction(TimeNs now, const QpKey& key, const AgentQp& qp) noexcept {
  std::uint32_t position = table_.find(key);
  if (position == QpTable::kNone) {
    position = learn(now, key, nullptr, TrackCounter::qps_learned_agent);
    if (position == QpTable::kNone) return false;
  } else if (!is_in_use(key)) {
    pairing_.forget(position);
    gap_naks_.forget(position);
    table_.reset(position, now);
    counters_.add(TrackCounter::qps_learned_agent);
  }
  QpEntry& e = table_.entry(position);
  e.set_transport(qp.transport);
  if (qp.pmtu_code != 0) e.set_pmtu_code(qp.pmtu_code);
  return true;
}

// The PSN of the first request of a direction, unless requests have passed.
void QpTracker::begin_at(std::uint32_t position, const std::optional<wire::Psn>& first) noexcept {
  QpEntry& e = table_.entry(position);
  if (!first || e.packets != 0) return;
  e.request.set_raw(first->value());
  e.window = 0;
  set_first_psn(position, *first);
}

void QpTracker::on_agent_down(const AgentQp& qp) noexcept {
  const QpKey there = acquire_key(qp.local, qp.remote, qp.remote_qpn);
  if (qp.local.is_v6() && there.addresses == tables::AddressPairs::kNone) return;
  const QpKey back = table_.reverse(there, qp.qpn);
  for (const auto& [key, other] : {std::pair{there, back}, std::pair{back, there}}) {
    const std::uint32_t position = table_.find(key);
    if (position == QpTable::kNone) {
      (void)close_elsewhere(key);
      continue;
    }
    QpEntry& e = table_.entry(position);
    // When it is paired with another direction, its QPN serves a newer connection.
    if (e.fixed() || (e.paired() && e.peer != table_.find(other))) continue;
    e.response.set(ResponseFlag::closed);
    // Whoever asks for the queue pair at the other end must not be told one that is gone.
    pairing_.forget(position);
  }
  release_key(there);
}

}  // namespace weft::stages
