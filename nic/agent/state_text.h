// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an agent leaves to its successor, when it is upgraded or told to start again: connections that are up tell
// nothing of themselves any more.
#pragma once

#include <string>
#include <vector>

#include "nic/agent/qp_list.h"

namespace weft::agent {

struct SavedQp {
  HostQp qp{};
  bool kernel = false;    ///< its end is seen in the kernel
  std::string started{};  ///< when its process started, as the agent found it; "" when it did not look

  friend bool operator==(const SavedQp&, const SavedQp&) = default;
};

/// A JSON text.
[[nodiscard]] std::string state_text(const std::vector<SavedQp>& qps);
/// What state_text() was given; nothing when a text is another's, or torn. First PSNs are not kept: they have passed.
[[nodiscard]] std::vector<SavedQp> read_state(const std::string& text);

}  // namespace weft::agent
