// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/control_ring.h"

#include <cassert>

#include "switch/wire/mac_control.h"

namespace weft {
namespace {

using wire::EthernetHeader;
using wire::MacControlOpcode;
using wire::PauseHeader;
using wire::PfcHeader;

template <typename Header>
Header& control_body(rte_mbuf* m) noexcept {
  return wire::header_at<Header>(pipeline::frame(m) + sizeof(EthernetHeader));
}

std::uint16_t control_opcode(rte_mbuf* m) noexcept {
  return wire::mac_control_opcode({pipeline::frame(m), m->data_len});
}

bool of_one_port(const rte_mbuf* a, const rte_mbuf* b) noexcept {
  return pipeline::meta(a).switch_index == pipeline::meta(b).switch_index &&
         pipeline::meta(a).in_port == pipeline::meta(b).in_port;
}

// Both have the opcode. A frame that its port has received belongs to nobody else, so it may be written.
void overwrite(rte_mbuf* waiting, rte_mbuf* later, std::uint16_t opcode) noexcept {
  if (opcode == MacControlOpcode::pause) {
    control_body<PauseHeader>(waiting).quanta = control_body<PauseHeader>(later).quanta;
    return;
  }
  PfcHeader& to = control_body<PfcHeader>(waiting);
  const PfcHeader& from = control_body<PfcHeader>(later);
  for (unsigned priority = 0; priority < from.quanta.size(); ++priority) {
    if (!from.enabled(priority)) continue;
    to.set_enabled(priority, true);
    to.quanta[priority] = from.quanta[priority];
  }
}

}  // namespace

// A port heeds either PAUSE or PFC (qos::PortSettings), so that the order of the two does not matter.
bool ControlRing::push(rte_mbuf* m) noexcept {
  retry();
  if (!waits() && ring_.push(m)) [[likely]]
    return true;
  const std::uint16_t opcode = control_opcode(m);
  if (opcode == 0) return false;
  for (rte_mbuf* waiting = first_; waiting != nullptr; waiting = next(waiting)) {
    if (!of_one_port(waiting, m) || control_opcode(waiting) != opcode) continue;
    overwrite(waiting, m, opcode);
    return false;
  }
  wait(m);
  return true;
}

void ControlRing::wait(rte_mbuf* m) noexcept {
  pipeline::scratch(m) = 0;
  if (first_ == nullptr) {
    first_ = m;
  } else {
    pipeline::scratch(last_) = reinterpret_cast<std::uint64_t>(m);
  }
  last_ = m;
}

std::uint32_t ControlRing::retry() noexcept {
  std::uint32_t moved = 0;
  for (; waits(); ++moved) {
    // Once it is in the ring, the receiver may free it.
    rte_mbuf* const behind = next(first_);
    if (!ring_.push(first_)) break;
    first_ = behind;
  }
  return moved;
}

// Those that do not fit into the ring waited before, each of another port or opcode.
void ControlRing::push(rte_mbuf* const* frames, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool taken = push(frames[i]);
    assert(taken);
    static_cast<void>(taken);
  }
}

}  // namespace weft
