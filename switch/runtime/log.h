// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the process writes its log, and how messages that repeat stay few.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "switch/base/time.h"
#include "switch/config/config.h"

namespace weft {

/// Sends the log to stderr: with local time, and colours for a terminal; with priorities (sd-daemon(3)) when systemd's
/// journal reads it, which adds the time itself. Call once, before the first message.
void set_up_log(config::LogLevel level);
/// Writes from now on what is at least as important.
void set_log_level(config::LogLevel level);

/// Lines that go to stderr past the log: as they are, or each with a priority where the journal reads them.
[[nodiscard]] std::string for_stderr(const std::string& lines, config::LogLevel level);

/// Decides which of many messages on the same subject are written: a few at once, then silence until an interval has
/// passed since the first of them.
class LogLimit {
 public:
  /// @param burst  messages on a subject in an interval, at least 1
  LogLimit(std::uint32_t burst, TimeNs interval) : burst_(burst), interval_(interval) {}

  struct Line {
    std::uint64_t suppressed = 0;  ///< messages on the subject that were not written before this one
    bool last = false;             ///< no further one will be written until the interval has passed

    /// What to append to the message: "", or what was and will be left out.
    [[nodiscard]] std::string note() const;
  };
  /// A line to write, or nothing when the message is one too many.
  [[nodiscard]] std::optional<Line> admit(TimeNs now, const std::string& subject);

 private:
  struct Subject {
    TimeNs since = 0;
    std::uint32_t written = 0;
    std::uint64_t suppressed = 0;
  };

  std::uint32_t burst_;
  TimeNs interval_;
  std::map<std::string, Subject> subjects_;  ///< as many as there are subjects: names of ours, never a peer's
};

}  // namespace weft
