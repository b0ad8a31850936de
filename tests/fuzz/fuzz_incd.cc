// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: what processes send to weft-incd, each packet with its length before it, which also says whose it is, and what
// else happens meanwhile. Every message that is read gives, written again, the same bytes; every handle, too. No group
// of a process that is gone is held, and none is destroyed that was not its.
#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "collectives/comm/handle.h"
#include "collectives/daemon/leases.h"
#include "tests/fuzz/require.h"

namespace weft::inc::daemon {
namespace {

/// A manager that makes every group, at once or later, and loses some.
struct Manager final : Orders {
  void create(ClientId client, const comm::CreateGroup& request) override { wanted.emplace_back(client, request.rank); }
  void renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) override {
    require(!ranks.empty(), "a lease that is renewed has a rank");
    renewals.push_back(name);
  }
  void destroy(const GroupName&) override { ++destroyed; }
  void explain(ClientId client, const GroupName& name) override { questions.emplace_back(client, name); }
  void tell(ClientId client, const comm::DaemonMessage& message) override {
    require(alive.contains(client), "nobody speaks to the dead");
    require(comm::read_message(comm::write_message(message)).has_value(), "a daemon's message can be read");
  }

  std::vector<std::pair<ClientId, std::uint32_t>> wanted;
  std::vector<GroupName> renewals;
  std::vector<std::pair<ClientId, GroupName>> questions;
  std::set<ClientId> alive;
  std::uint64_t destroyed = 0;
};

class Run {
 public:
  void packet(std::uint8_t who, std::span<const std::uint8_t> bytes) {
    const ClientId client = who % 4;
    const auto message = comm::read_message(bytes);
    if (message) {
      const auto again = comm::write_message(*message);
      require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a message has one form");
    }
    manager_.alive.insert(client);
    if (!message || !leases_.on_message(now_, client, *message)) end(client);
  }
  void happens(std::uint8_t what) {
    now_ += Time{what} << 20;
    leases_.on_timer(now_);
    if (what % 4 == 0) end(what / 4 % 4);
    if (what % 4 == 1 && !manager_.wanted.empty()) {
      const auto [client, rank] = manager_.wanted.back();
      manager_.wanted.pop_back();
      const comm::GroupCreated made{what % 8 == 1 ? "none" : "no_tree", "", "", ++last_, last_, 4, 100, {}};
      leases_.on_created(now_, client, rank, made);
    }
    if (what % 4 == 2 && !manager_.renewals.empty()) {
      const GroupName name = manager_.renewals.back();
      manager_.renewals.pop_back();
      leases_.on_renewed(now_, name, what < 64 ? std::nullopt : std::optional(what < 192), what % 8 == 2 ? "so" : "");
    }
    if (what % 4 == 3 && !manager_.questions.empty()) {
      const auto [client, name] = manager_.questions.back();
      manager_.questions.pop_back();
      leases_.on_explained(client, name, what < 128 ? "so" : "");
    }
  }
  /// All processes end.
  void finish() {
    for (ClientId client = 0; client < 4; ++client) end(client);
    require(leases_.groups() == 0, "nobody is left, and holds nothing");
    require(leases_.next_deadline() == kNever, "nothing is renewed for nobody");
  }

 private:
  void end(ClientId client) {
    const std::uint64_t before = manager_.destroyed;
    const std::size_t groups = leases_.groups();
    manager_.alive.erase(client);
    leases_.on_gone(client);
    require(groups - leases_.groups() == manager_.destroyed - before, "a group that is given up is destroyed once");
  }

  Manager manager_;
  Leases leases_{manager_};
  Time now_ = 0;
  std::uint32_t last_ = 0;
};

void handle(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < comm::kHandleBytes) return;
  const auto read = comm::read_handle(bytes.first<comm::kHandleBytes>());
  if (read) require(comm::read_handle(comm::write_handle(*read)) == read, "a handle is read as it was written");
}

}  // namespace
}  // namespace weft::inc::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> in(data, size);
  weft::inc::daemon::handle(in);
  weft::inc::daemon::Run run;
  while (in.size() >= 3) {
    const std::uint8_t who = in[0], what = in[1];
    const std::size_t bytes = std::min<std::size_t>(in[2], in.size() - 3);
    run.packet(who, in.subspan(3, bytes));
    run.happens(what);
    in = in.subspan(3 + bytes);
  }
  run.finish();
  return 0;
}
