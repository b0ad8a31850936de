// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "nic/agent/reporter.h"
#include "switch/api/client.h"
#include "switch/api/command_stream.h"

namespace weft::agent {

/// Where a switch listens, and who speaks to it.
struct SwitchPlace {
  std::string socket = "/run/weft/weft.sock";
  std::string address{};  ///< HOST:PORT instead
  config::TlsFiles files{};
  std::string switch_name{};  ///< empty: every switch of the process that tracks queue pairs
  std::string host{};         ///< as the switch's configuration names this host
};

/// Sends a Reporter's messages to a switch, over one stream. Connects as often as it takes. It does not wake up for
/// each answer: some are taken together, a few milliseconds later.
class SwitchLink {
 public:
  SwitchLink(SwitchPlace place, const QpList& list, Reporter::Times times);

  void add(const std::vector<Change>& changes, TimeNs now) { reporter_.add(changes, now); }
  /// Takes what was answered, and sends what is to be sent at that time. Takes two seconds at most.
  void run(TimeNs now);
  [[nodiscard]] TimeNs deadline() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept {
    return place_.address.empty() ? place_.socket : place_.address;
  }

 private:
  // Those that return a text return a problem, or "".
  [[nodiscard]] std::string send(TimeNs now, const Message& message);
  [[nodiscard]] std::string take_answers(TimeNs now);
  [[nodiscard]] std::string understand(TimeNs now, const api::CommandResult& result);
  [[nodiscard]] std::optional<api::CallError> connect(TimeNs now);
  void disconnect() noexcept;
  void failed(TimeNs now, const std::string& problem);
  void tell(const std::string& problem);

  SwitchPlace place_;
  Reporter reporter_;
  api::Client client_;
  std::uint64_t session_;
  TimeNs renew_after_;
  std::unique_ptr<api::CommandStream> stream_{};  // there is one while there is a connection
  bool answered_ = false;                         // by this stream, once at least
  TimeNs connected_at_ = 0;
  TimeNs asked_at_ = 0;              // the oldest message that is under way, or later
  TimeNs look_at_ = 0;               // for its answer
  std::string problem_ = "not yet";  // the last one that people were told of
};

}  // namespace weft::agent
