// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <spdlog/spdlog.h>

#include <functional>
#include <string>
#include <utility>

#include "switch/runtime/alarm.h"
#include "switch/system/clock.h"

namespace weft {

/// For what may take for ever without saying why: an error in the log when the object lives longer than it should.
class Overdue {
 public:
  /// @param after  nanoseconds
  Overdue(TimeNs after, std::string text)
      : alarm_(monotonic_now, [end = monotonic_now() + after, text = std::move(text)](TimeNs now) {
          if (now < end) return end;
          spdlog::error(text);
          return kNever;
        }) {}

 private:
  Alarm alarm_;
};

}  // namespace weft
