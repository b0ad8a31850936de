// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The library's end of the socket to weft-incd. It never waits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/daemon_messages.h"
#include "nic/host/interface.h"

namespace weft::inc::comm {

class DaemonLink {
 public:
  /// @param path  of the socket; empty: there is no daemon
  explicit DaemonLink(std::string path) : path_(std::move(path)) {}

  /// Connects unless it is connected. True when that is new.
  bool connect();
  [[nodiscard]] bool wanted() const noexcept { return !path_.empty(); }
  [[nodiscard]] bool connected() const noexcept { return socket_.valid(); }
  /// False when nobody takes it; then the link is gone.
  [[nodiscard]] bool send(const DaemonMessage& message);
  /// The next message, if there is one. The link is gone when the daemon has closed it, or says what is no message.
  [[nodiscard]] std::optional<DaemonMessage> receive();
  /// Readable when there is a message; -1: not connected.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

 private:
  std::string path_;
  nic::Descriptor socket_;
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(kMaxDaemonMessage);
};

}  // namespace weft::inc::comm
