// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a pipeline does when links go down or come back.
#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {

void Pipeline::set_gates() noexcept {
  gates_generation_ = state_.link_generation();
  for (PortIndex port = 0; port < egress_.size(); ++port) {
    max_frame_[port] = max_frame_bytes(state_.mtu_bytes(port));
    queue_bytes_[port] = gauge_of(port);
    const bool open = egress_[port] != nullptr && state_.link_up(port);
    if (!open) {
      gates_[port] = {};
      continue;
    }
    gates_[port] = {egress_[port].get(), max_frame_[port] + 1, egress_[port]->direct() && egress_stages_.empty()};
  }
}

void Pipeline::tell_links(TimeNs now) noexcept {
  stages_generation_ = state_.link_generation();
  for (std::size_t i = 0; i < slot_count_; ++i) {
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slots_[i].stage->on_links(context);
    ask_deadlines(i);
    run_resumed(now, i);
  }
}

}  // namespace weft::pipeline
