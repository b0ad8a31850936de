// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/sessions.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "switch/api/client.h"
#include "tools/weftctl/capture_file.h"
#include "tools/weftctl/commands.h"
#include "tools/weftctl/depth_plot.h"
#include "tools/weftctl/format.h"

namespace weft::weftctl {
namespace {

using api::CallError;
using api::SessionPart;
using Json = nlohmann::ordered_json;

// The service ends connections after a while.
constexpr std::chrono::seconds kConnectionAge{15};

volatile std::sig_atomic_t stop_requested = 0;
void on_signal(int) {
  stop_requested = 1;
}

// A connection that is made again before the service ends it.
class Connection {
 public:
  explicit Connection(const Options& options) : options_(options) {}

  [[nodiscard]] std::optional<CallError> refresh() {
    const auto now = std::chrono::steady_clock::now();
    if (since_ && now - *since_ < kConnectionAge) return std::nullopt;
    since_.reset();
    if (auto error = connect(options_, client_)) return error;
    since_ = now;
    return std::nullopt;
  }
  api::Client& calls() { return client_; }

 private:
  const Options& options_;
  api::Client client_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// Reads a session to its end; `on_data` returns false to have it end. Ctrl-C ends it too.
std::optional<CallError> read_all(Connection& connection, std::uint64_t session,
                                  const std::function<bool(const std::string&)>& on_data, SessionPart& last) {
  bool stopped = false;
  bool wanted = true;
  while (true) {
    if (auto error = connection.refresh()) return error;
    if (!stopped && (stop_requested != 0 || !wanted)) {
      stopped = true;
      if (auto error = connection.calls().stop(session)) return error;
    }
    SessionPart part;
    if (auto error = connection.calls().read(session, part)) return error;
    if (wanted && !part.data.empty()) wanted = on_data(part.data);
    last = std::move(part);
    if (last.ended) return std::nullopt;
  }
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int run_capture(const Options& options, const RequestOptions& what) {
  catch_signals();
  Connection connection(options);
  if (const auto error = connection.refresh()) return fail(*error);
  // The capture is refused before a file that may exist is replaced.
  std::uint64_t session = 0;
  if (const auto error = connection.calls().start(what.capture, session)) return fail(*error);
  CaptureFile file(CaptureFile::Unit::pcapng_block);
  const std::string name = what.file == "-" ? "stdout" : what.file;
  std::string problem = file.open(what.file);
  SessionPart last;
  std::optional<CallError> error;
  if (!problem.empty()) {
    error = connection.calls().stop(session);
  } else {
    std::fprintf(stderr, "weftctl: capturing to %s; Ctrl-C ends\n", name.c_str());
    const auto keep = [&](const std::string& data) { return (problem = file.write(data)).empty(); };
    error = read_all(connection, session, keep, last);
    if (const std::string at_end = file.close(); problem.empty()) problem = at_end;
  }
  if (!problem.empty() && !file.reader_gone()) {
    std::fprintf(stderr, "weftctl: cannot write %s: %s; the capture has ended, %llu bytes were kept\n", name.c_str(),
                 problem.c_str(), static_cast<unsigned long long>(file.bytes()));
    return kExitFailed;
  }
  if (error) return fail(*error);
  std::fprintf(stderr, "weftctl: %llu %s captured, %llu bytes, %llu lost because copies had no room (%s)\n",
               static_cast<unsigned long long>(last.packets), last.packets == 1 ? "packet" : "packets",
               static_cast<unsigned long long>(file.bytes()), static_cast<unsigned long long>(last.lost),
               last.reason.c_str());
  return kExitFine;
}

std::string trace_text(const std::string& line, const Options& options) {
  const Json packet = Json::parse(line, nullptr, false);
  if (!packet.is_object()) return line + "\n";
  std::vector<Json> rows;
  bool several = false;
  for (const auto& step : packet.value("steps", Json::array())) {
    rows.push_back(step);
    several = several || step.value("switch", "") != packet.value("switch", "");
  }
  for (auto& row : rows) {
    if (!several) row.erase("switch");
  }
  std::string text = "packet " + packet.value("packet", Json()).dump() + " at " +
                     cell_text(packet.value("switch", Json())) + ": " + cell_text(packet.value("what", Json())) +
                     (packet.value("ended", true) ? "\n" : "; still inside\n");
  return text + format_table(rows, {options.columns.value_or(screen_of_stdout().columns), options.thousands}) + "\n";
}

int run_trace(const Options& options, const RequestOptions& what) {
  catch_signals();
  Connection connection(options);
  if (const auto error = connection.refresh()) return fail(*error);
  std::uint64_t session = 0;
  if (const auto error = connection.calls().start(what.trace, session)) return fail(*error);
  std::fprintf(stderr, "weftctl: tracing; Ctrl-C ends\n");
  SessionPart last;
  const auto print = [&](const std::string& data) {
    std::string text;
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t end = std::min(data.find('\n', at), data.size());
      const std::string line = data.substr(at, end - at);
      text += options.json ? line + "\n" : trace_text(line, options);
      at = end + 1;
    }
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  };
  if (const auto error = read_all(connection, session, print, last)) return fail(*error);
  if (std::ferror(stdout) != 0) {
    std::fprintf(stderr, "weftctl: cannot write the output\n");
    return kExitFailed;
  }
  std::fprintf(stderr, "weftctl: %llu %s traced, %llu not followed because too many were on their way (%s)\n",
               static_cast<unsigned long long>(last.packets), last.packets == 1 ? "packet" : "packets",
               static_cast<unsigned long long>(last.lost), last.reason.c_str());
  return kExitFine;
}

// The picture is written when the recording has ended, whole or not at all.
std::string write_plot(const std::string& path, const DepthReader& depths, const SessionPart& last) {
  if (depths.plot() == nullptr) return "nothing was recorded";
  CaptureFile file(CaptureFile::Unit::line);
  if (std::string problem = file.open(path); !problem.empty()) return problem;
  const std::string title = "Depths of queues, " + std::to_string(last.packets) + " samples";
  if (std::string problem = file.write(depths.plot()->svg(title)); !problem.empty()) return problem;
  return file.close();
}

int cannot_write(const std::string& name, const std::string& problem) {
  std::fprintf(stderr, "weftctl: cannot write %s: %s\n", name.c_str(), problem.c_str());
  return kExitFailed;
}

int run_record(const Options& options, const RequestOptions& what) {
  catch_signals();
  Connection connection(options);
  if (const auto error = connection.refresh()) return fail(*error);
  std::uint64_t session = 0;
  if (const auto error = connection.calls().start(what.record, session)) return fail(*error);
  CaptureFile file(CaptureFile::Unit::line);
  const std::string name = what.file == "-" ? "stdout" : what.file;
  std::string problem = what.file.empty() ? "" : file.open(what.file);
  if (!problem.empty()) {
    static_cast<void>(connection.calls().stop(session));
    return cannot_write(name, problem);
  }
  std::fprintf(stderr, "weftctl: recording; Ctrl-C ends\n");
  DepthReader depths;
  SessionPart last;
  const auto keep = [&](const std::string& data) {
    if (!what.svg.empty()) depths.read(data);
    return what.file.empty() || (problem = file.write(data)).empty();
  };
  const auto error = read_all(connection, session, keep, last);
  if (const std::string at_end = file.close(); problem.empty()) problem = at_end;
  if (!problem.empty() && !file.reader_gone()) return cannot_write(name, problem);
  if (error) return fail(*error);
  if (!what.svg.empty()) {
    if (problem = write_plot(what.svg, depths, last); !problem.empty()) return cannot_write(what.svg, problem);
  }
  std::fprintf(stderr, "weftctl: %llu samples, %llu lost because there was no room, %llu not taken in time (%s)\n",
               static_cast<unsigned long long>(last.packets), static_cast<unsigned long long>(last.lost),
               static_cast<unsigned long long>(last.missed), last.reason.c_str());
  return kExitFine;
}

}  // namespace

int run_session(const Options& options) {
  const RequestOptions& what = options.request;
  switch (what.command) {
    case RequestOptions::Request::capture:
      return run_capture(options, what);
    case RequestOptions::Request::trace:
      return run_trace(options, what);
    default:
      return run_record(options, what);
  }
}

}  // namespace weft::weftctl
