// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/partition.h"

#include <algorithm>

#include "tools/sim/link.h"

namespace weft::sim {

void Partition::take_in() {
  for (Link* link : incoming_) link->take_in();
  incoming_.clear();
}

void Partition::run(TimeNs until) {
  take_in();
  events_.run_before(until);
  next_ = events_.next_time();
}

void Partition::begin(TimeNs now) {
  take_in();
  events_.begin(now);
}

void Partition::hand_over() {
  for (Link* link : sent_) {
    Partition& to = link->receiver();
    to.next_ = std::min(to.next_, link->first_sent());
    if (link->hand_over()) to.incoming_.push_back(link);
  }
  sent_.clear();
}

}  // namespace weft::sim
