// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// By which numbers the agent knows processes: those of its own PID namespace, which its /proc has.
#pragma once

#include <string>

#include "nic/agent/qp_event.h"

namespace weft::agent {

/// The PID namespace of this process. Zeros for the machine's first one: all processes have numbers there.
[[nodiscard]] weft_pid_namespace own_pid_namespace();

/// "" or why /proc cannot tell which processes there are.
[[nodiscard]] std::string problem_of_proc();

}  // namespace weft::agent
