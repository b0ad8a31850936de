// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-qp-agent/switch_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "switch/system/entropy.h"

namespace weft::agent {
namespace {

constexpr std::chrono::milliseconds kCallTime{2000};
// The service takes no further calls on a connection that is some thirty seconds old. Making another one takes a
// handshake, in which a program may send its first packet: so that is done before, when there is nothing to tell.
constexpr TimeNs kLongestAge = 20 * kSecond;
constexpr int kHeartbeatsPerConnection = 10;
// An answer takes a tenth of a millisecond. Looking for it costs as much as sending a message, so some are read at
// once.
constexpr TimeNs kLook = 20 * kMs;

bool is_heartbeat(const Message& message) {
  return !message.begin && !message.end && message.changes.empty();
}

// Positive as a signed number, too: the switch's arguments are such.
std::uint64_t draw_session() {
  return (fresh_seed() >> 1) | 1;
}

}  // namespace

SwitchLink::SwitchLink(SwitchPlace place, const QpList& list, Reporter::Times times)
    : place_(std::move(place)),
      reporter_(list, times),
      session_(draw_session()),
      renew_after_(std::min(kLongestAge, kHeartbeatsPerConnection * times.heartbeat)) {}

std::optional<api::CallError> SwitchLink::connect(TimeNs now) {
  disconnect();
  connected_at_ = now;
  auto error = place_.address.empty() ? client_.connect(place_.socket, kCallTime)
                                      : client_.connect_tls(place_.address, place_.files, kCallTime);
  if (!error) stream_ = client_.open_stream();
  return error;
}

void SwitchLink::disconnect() noexcept {
  stream_.reset();
  answered_ = false;
}

void SwitchLink::failed(TimeNs now, const std::string& problem) {
  tell(problem);
  disconnect();
  reporter_.failed(now);
}

void SwitchLink::run(TimeNs now) {
  while (true) {
    if (reporter_.under_way() != 0 && (!answered_ || now >= look_at_ || reporter_.is_blocked(now))) {
      if (const std::string problem = take_answers(now); !problem.empty()) return failed(now, problem);
    }
    const Message* const message = reporter_.next(now);
    if (message == nullptr) return;
    if (const std::string problem = send(now, *message); !problem.empty()) return failed(now, problem);
  }
}

TimeNs SwitchLink::deadline() const noexcept {
  return std::min(reporter_.deadline(), reporter_.under_way() != 0 ? look_at_ : kNever);
}

std::string SwitchLink::send(TimeNs now, const Message& message) {
  const bool idle = is_heartbeat(message) && reporter_.under_way() == 1;
  if (idle && now - connected_at_ >= renew_after_) disconnect();
  if (stream_ == nullptr) {
    if (const auto error = connect(now)) return error->message;
  }
  api::CommandRequest request;
  request.stage = "rdma_track";
  request.verb = "agent";
  request.switch_name = place_.switch_name;
  request.words = {"host=" + place_.host,
                   "session=" + std::to_string(session_),
                   "sequence=" + std::to_string(message.sequence),
                   std::string("begin=") + (message.begin ? "true" : "false"),
                   std::string("end=") + (message.end ? "true" : "false"),
                   "changes=" + changes_text(message)};
  stream_->send(request);
  if (reporter_.under_way() == 1) {
    asked_at_ = now;
    look_at_ = now + kLook;
  }
  return "";
}

// Takes those that are there, and waits for one when nothing else can be done.
std::string SwitchLink::take_answers(TimeNs now) {
  const TimeNs until = asked_at_ + std::chrono::nanoseconds(kCallTime).count();
  // While a connection is being made, its handshakes go on only here.
  const bool waits = !answered_ || reporter_.is_blocked(now);
  auto patience = std::chrono::nanoseconds(waits && until > now ? until - now : 0);
  api::CommandResult result;
  std::optional<api::CallError> error;
  bool taken = false;
  for (; reporter_.under_way() != 0; patience = {}, taken = true) {
    if (!stream_->take(std::chrono::ceil<std::chrono::milliseconds>(patience), result, error)) break;
    if (error) {
      // The service ends each connection some day. What was under way is sent again, over a new one: only when that one
      // fails, too, there is something to say.
      const bool at_once = answered_ && error->kind == api::CallError::Kind::unreachable;
      disconnect();
      if (at_once) reporter_.again();
      return at_once ? "" : error->message;
    }
    if (std::string problem = understand(now, result); !problem.empty()) return problem;
  }
  if (taken) asked_at_ = now;
  look_at_ = now + kLook;
  return taken || (!waits && now < until) ? "" : name() + " does not answer";
}

std::string SwitchLink::understand(TimeNs now, const api::CommandResult& result) {
  answered_ = true;
  bool expected = false, resync = false;
  for (const auto& row : result.rows) {
    expected = expected || row.value("expected", false);
    resync = resync || row.value("resync", false);
    if (const auto refused = row.value("refused", std::uint64_t{0}); refused != 0) {
      spdlog::warn("{} did not accept {} of {} changes: addresses that are not this host's there, or no room", name(),
                   refused, reporter_.oldest().changes.size());
    }
  }
  if (!expected) {
    return name() + " expects no agent on '" + place_.host +
           "': the option `agents` of rdma_track names those that it does";
  }
  tell("");
  if (resync) spdlog::info("{} asks for everything", name());
  reporter_.answered(now, resync);
  return "";
}

// Says each problem once, and when it is over.
void SwitchLink::tell(const std::string& problem) {
  if (problem == problem_) return;
  if (problem.empty()) {
    spdlog::info("reporting to {}", name());
  } else {
    spdlog::warn("{}", problem);
  }
  problem_ = problem;
}

}  // namespace weft::agent
