// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

namespace weft {
namespace {

// Priorities of syslog(3), as sd-daemon(3) has them: debug, info, warning, error.
const char* priority(config::LogLevel level) {
  if (level <= config::LogLevel::debug) return "<7>";
  if (level == config::LogLevel::info) return "<6>";
  return level == config::LogLevel::warning ? "<4>" : "<3>";
}

class Priority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const bool error = message.level > spdlog::level::warn;
    const char* text = priority(error ? config::LogLevel::error : static_cast<config::LogLevel>(message.level));
    out.append(text, text + 3);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Priority>(); }
};

// Whether stderr is the stream that systemd connected to its journal (systemd.exec(5)), and not redirected since.
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || fstat(STDERR_FILENO, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

}  // namespace

void set_up_log(config::LogLevel level) {
  if (stderr_is_journal()) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Priority>('*').set_pattern("%*%v");
    spdlog::set_default_logger(spdlog::stderr_logger_mt("weft"));
    spdlog::set_formatter(std::move(formatter));
  } else {
    spdlog::set_default_logger(spdlog::stderr_color_mt("weft"));
    spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$: %v");
  }
  set_log_level(level);
}

void set_log_level(config::LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[]{spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                                spdlog::level::warn, spdlog::level::err};
  spdlog::set_level(kLevels[static_cast<std::size_t>(level)]);
}

std::string for_stderr(const std::string& lines, config::LogLevel level) {
  if (!stderr_is_journal()) return lines;
  std::string out;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size() - 1) + 1;
    out.append(priority(level)).append(lines, at, end - at);
    at = end;
  }
  return out;
}

std::string LogLimit::Line::note() const {
  std::string text;
  if (suppressed > 0) text += " (" + std::to_string(suppressed) + " such messages before were not written)";
  if (last) text += " (further ones will not be written for a while)";
  return text;
}

std::optional<LogLimit::Line> LogLimit::admit(TimeNs now, const std::string& subject) {
  Subject& s = subjects_[subject];
  if (s.written == 0 || now - s.since >= interval_) {
    s.since = now;
    s.written = 0;
  }
  if (s.written == burst_) {
    ++s.suppressed;
    return std::nullopt;
  }
  ++s.written;
  return Line{std::exchange(s.suppressed, 0), s.written == burst_};
}

}  // namespace weft
