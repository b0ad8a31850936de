// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <chrono>
#include <string>

#include "nic/agent/reporter.h"
#include "switch/api/client.h"

namespace weft::agent {

/// Where a switch listens, and who speaks to it.
struct SwitchPlace {
  std::string socket = "/run/weft/weft.sock";
  std::string address{};  ///< HOST:PORT instead
  config::TlsFiles files{};
  std::string switch_name{};  ///< empty: every switch of the process that tracks queue pairs
  std::string host{};         ///< as the switch's configuration names this host
};

/// Sends a Reporter's messages to a switch. Connects as often as it takes.
class SwitchLink {
 public:
  SwitchLink(SwitchPlace place, const QpList& list, Reporter::Times times);

  void add(const std::vector<Change>& changes) { reporter_.add(changes); }
  /// Sends what is to be sent at that time. Waits for the answer, two seconds at most.
  void run(TimeNs now);
  [[nodiscard]] TimeNs deadline() const noexcept { return reporter_.deadline(); }
  [[nodiscard]] const std::string& name() const noexcept {
    return place_.address.empty() ? place_.socket : place_.address;
  }

 private:
  [[nodiscard]] std::string send(TimeNs now, const Message& message, bool& resync);
  [[nodiscard]] std::optional<api::CallError> connect(TimeNs now);
  void tell(const std::string& problem);

  SwitchPlace place_;
  Reporter reporter_;
  api::Client client_;
  std::uint64_t session_;
  TimeNs renew_after_;
  bool connected_ = false;
  TimeNs connected_at_ = 0;
  std::string problem_ = "not yet";  // the last one that people were told of
};

}  // namespace weft::agent
