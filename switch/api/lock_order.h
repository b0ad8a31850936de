// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <absl/synchronization/mutex.h>

namespace weft::api {

/// Debian builds Abseil as for debugging: each lock that gRPC takes is compared with the order of all earlier ones,
/// behind one spin lock of the whole process. That is for those who change gRPC. Any number of times, by any thread.
inline void ignore_lock_order() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace weft::api
