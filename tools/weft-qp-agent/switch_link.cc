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
  connected_ = false;
  connected_at_ = now;
  const auto error = place_.address.empty() ? client_.connect(place_.socket, kCallTime)
                                            : client_.connect_tls(place_.address, place_.files, kCallTime);
  connected_ = !error;
  return error;
}

void SwitchLink::run(TimeNs now) {
  const Message* const message = reporter_.next(now);
  if (message == nullptr) return;
  bool resync = false;
  const std::string problem = send(now, *message, resync);
  tell(problem);
  if (!problem.empty()) return reporter_.failed(now);
  if (resync) spdlog::info("{} asks for everything", name());
  reporter_.answered(now, resync);
}

std::string SwitchLink::send(TimeNs now, const Message& message, bool& resync) {
  api::CommandRequest request;
  request.stage = "rdma_track";
  request.verb = "agent";
  request.switch_name = place_.switch_name;
  request.words = {"host=" + place_.host,
                   "session=" + std::to_string(session_),
                   "sequence=" + std::to_string(message.sequence),
                   std::string("begin=") + (message.begin ? "true" : "false"),
                   std::string("end=") + (message.end ? "true" : "false"),
                   "changes=" + changes_text(message, !reporter_.in_snapshot())};
  api::CommandResult result;
  std::optional<api::CallError> error;
  if (is_heartbeat(message) && now - connected_at_ >= renew_after_) connected_ = false;
  // The service may have ended the connection all the same: only the second failure says something.
  for (int attempt = 0; attempt < 2; ++attempt) {
    error = attempt > 0 || !connected_ ? connect(now) : std::nullopt;
    if (!error) error = client_.run_command(request, result);
    if (!error) break;
    if (error->kind == api::CallError::Kind::refused) break;
    connected_ = false;
  }
  if (error) return error->message;
  bool expected = false;
  for (const auto& row : result.rows) {
    expected = expected || row.value("expected", false);
    resync = resync || row.value("resync", false);
    if (const auto refused = row.value("refused", std::uint64_t{0}); refused != 0) {
      spdlog::warn("{} did not accept {} of {} changes: addresses that are not this host's there, or no room", name(),
                   refused, message.changes.size());
    }
  }
  if (expected) return "";
  return name() + " expects no agent on '" + place_.host +
         "': the option `agents` of rdma_track names those that it does";
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
