// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/daemon_link.h"

#include <sys/socket.h>

#include <cerrno>

#include "switch/base/unix_address.h"

namespace weft::inc::comm {

bool DaemonLink::connect() {
  sockaddr_un to;
  if (connected() || !write_unix_address(path_, to)) return false;
  nic::Descriptor fresh(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fresh.valid() || ::connect(fresh.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return false;
  socket_ = std::move(fresh);
  return true;
}

bool DaemonLink::send(const DaemonMessage& message) {
  if (!connected()) return false;
  const auto bytes = write_message(message);
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  socket_ = {};
  return false;
}

std::optional<DaemonMessage> DaemonLink::receive() {
  if (!connected()) return std::nullopt;
  const ssize_t n = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  std::optional<DaemonMessage> message;
  if (n > 0) message = read_message(std::span(buffer_).first(static_cast<std::size_t>(n)));
  if (!message) socket_ = {};
  return message;
}

}  // namespace weft::inc::comm
