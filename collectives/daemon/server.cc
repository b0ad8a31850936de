// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/daemon/server.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <type_traits>

#include "nic/host/host.h"
#include "switch/base/unix_address.h"

namespace weft::inc::daemon {
namespace {

/// Seconds that the thread sleeps without anything to do.
constexpr Time kIdle = 1'000'000'000;

std::string in_words(const std::string& what) {
  return what + ": " + std::generic_category().message(errno);
}

nic::Descriptor open_socket() {
  return nic::Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Server::Server(ManagerPlace manager) : ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  calls_.emplace(std::move(manager), [this] {
    const std::uint64_t one = 1;
    static_cast<void>(write(ready_.get(), &one, sizeof one) < 0);
  });
  calls_->greet();
}

Server::~Server() {
  calls_.reset();
  if (!path_.empty()) unlink(path_.c_str());
}

std::string Server::listen(const std::string& path, unsigned mode) {
  sockaddr_un at;
  if (!write_unix_address(path, at)) return "the path of a socket has 1 to 107 bytes";
  const auto* address = reinterpret_cast<const sockaddr*>(&at);
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) return path + " is there, and no socket";
    if (connect(open_socket().get(), address, sizeof at) == 0) return "a daemon answers at " + path + " already";
    unlink(path.c_str());
  }
  listener_ = open_socket();
  // Nobody but the owner gets in before the mode is right.
  const mode_t before = umask(0177);
  const bool bound = bind(listener_.get(), address, sizeof at) == 0;
  umask(before);
  if (!bound) return in_words("cannot listen at " + path);
  path_ = path;
  if (chmod(path.c_str(), mode) != 0 || ::listen(listener_.get(), 64) != 0) return in_words("cannot listen at " + path);
  return "";
}

void Server::create(ClientId client, const comm::CreateGroup& request) {
  calls_->create(client, request);
}

void Server::renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) {
  calls_->renew(name, ranks);
}

void Server::destroy(const GroupName& name) {
  calls_->destroy(name);
}

void Server::explain(ClientId client, const GroupName& name) {
  calls_->explain(client, name);
}

void Server::tell(ClientId client, const comm::DaemonMessage& message) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  const auto bytes = comm::write_message(message);
  // A process that does not read is as good as dead.
  if (send(found->second.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) dead_.push_back(client);
}

void Server::accept() {
  nic::Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) return;
  if (clients_.size() == kMaxClients) {
    spdlog::warn("a process is refused: {} are connected", kMaxClients);
    return;
  }
  clients_.emplace(++last_, std::move(fd));
}

bool Server::hear(ClientId client, int fd) {
  std::vector<std::uint8_t> bytes(comm::kMaxDaemonMessage);
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_TRUNC);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  std::optional<comm::DaemonMessage> message;
  if (static_cast<std::size_t>(n) <= bytes.size()) {
    message = comm::read_message(std::span(bytes).first(static_cast<std::size_t>(n)));
  }
  if (message && leases_.on_message(nic::monotonic_now(), client, *message)) return true;
  spdlog::warn("a process says what is no message, or asks for too much, and is cut off");
  return false;
}

void Server::take_results() {
  const Time now = nic::monotonic_now();
  for (const CallResult& result : calls_->results()) {
    if (const auto* created = std::get_if<Created>(&result)) {
      leases_.on_created(now, created->client, created->rank, created->answer);
    } else if (const auto* renewed = std::get_if<Renewed>(&result)) {
      leases_.on_renewed(now, renewed->name, renewed->running, renewed->why);
    } else if (const auto* explained = std::get_if<Explained>(&result)) {
      leases_.on_explained(explained->client, explained->name, explained->why);
    }
  }
}

void Server::cut_off() {
  // Telling others that a group is gone may find more of them dead.
  while (!dead_.empty()) {
    const ClientId client = dead_.back();
    dead_.pop_back();
    if (clients_.erase(client) > 0) leases_.on_gone(client);
  }
}

void Server::run(int stop) {
  std::vector<pollfd> wait;
  for (;;) {
    wait = {{stop, POLLIN, 0}, {ready_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<ClientId> who;
    for (const auto& [client, fd] : clients_) {
      wait.push_back({fd.get(), POLLIN, 0});
      who.push_back(client);
    }
    const Time left = leases_.next_deadline() - nic::monotonic_now();
    const Time ns = leases_.next_deadline() == kNever ? kIdle : std::clamp<Time>(left, 0, kIdle);
    const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
    static_cast<void>(ppoll(wait.data(), wait.size(), &limit, nullptr));
    if (wait[0].revents != 0) return;
    std::uint64_t ignored = 0;
    static_cast<void>(read(ready_.get(), &ignored, sizeof ignored) < 0);
    take_results();
    for (std::size_t i = 0; i < who.size(); ++i) {
      if (wait[i + 3].revents != 0 && !hear(who[i], wait[i + 3].fd)) dead_.push_back(who[i]);
    }
    if (wait[2].revents != 0) accept();
    leases_.on_timer(nic::monotonic_now());
    cut_off();
  }
}

}  // namespace weft::inc::daemon
