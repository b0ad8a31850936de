// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: messages of agents on two hosts, each with what stands around its JSON text: a byte that says who, and whether
// a snapshot begins or ends, one for session and sequence, and two for the length. The book and the table of queue
// pairs behind it take them over. What is brought up is taken down once, by its own host; nobody speaks for another's
// address.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "switch/stages/rdma_track/agent_book.h"
#include "switch/stages/rdma_track/unit.h"
#include "tests/fuzz/require.h"

namespace weft::stages {
namespace {

class Run {
 public:
  void message(std::uint8_t flags, std::uint8_t numbers, std::string_view text) {
    AgentMessage m{flags % 2 == 0 ? "h1" : "h2", numbers / 64u, numbers % 64u, (flags & 2) != 0, (flags & 4) != 0, {}};
    const std::string error = read_agent_changes(text, m.changes);
    if (!error.empty()) return;
    std::vector<AgentAction> actions;
    const AgentReply reply = book_.apply(m, actions);
    require(reply.expected, "both hosts are known");
    require(!reply.resync || actions.empty(), "a message that is not in turn changes nothing");
    require(reply.refused <= m.changes.size(), "no more is refused than was told");
    for (const AgentAction& action : actions) take(m.host, action);
    std::size_t qps = 0;
    for (const auto& row : book_.rows()) qps += row.qps;
    require(qps == up_.size(), "the book counts what is up");
    now_ += kSecond;
    if ((flags & 8) != 0 && tracker_.next_deadline() <= now_) tracker_.on_timer(now_);
  }
  void finish() {
    for (const AgentAction& gone : book_.set_hosts({})) {
      require(!gone.up, "nobody is left to bring something up");
      take("", gone);
    }
    require(up_.empty(), "nothing is left");
    const auto& table = tracker_.table();
    for (std::uint32_t i = 0; i < table.slots(); ++i) {
      const auto& e = table.entry(i);
      require(e.is_free() || !e.paired() || table.entry(e.peer).paired(), "a pair has two ends");
    }
  }

 private:
  void take(const std::string& host, const AgentAction& action) {
    const std::pair key{action.qp.local, action.qp.qpn.value()};
    if (action.up) {
      const std::string owner = action.qp.local.is_v6() ? "h2" : "h1";
      require(owner == host, "a host has told of its own address");
      up_[key] = action.qp.remote_qpn.value();
      (void)tracker_.on_agent_up(now_, action.qp, action.snapshot);
      return;
    }
    const auto at = up_.find(key);
    require(at != up_.end() && at->second == action.qp.remote_qpn.value(), "what goes was up, as it was told");
    up_.erase(at);
    tracker_.on_agent_down(action.qp);
  }

  AgentBook book_{{{"h1", {*wire::IpPrefix::parse("0.0.0.0/0")}}, {"h2", {*wire::IpPrefix::parse("::/0")}}}, 16};
  QpTracker tracker_{{.max_qps = 24}};
  std::map<std::pair<wire::IpAddress, std::uint32_t>, std::uint32_t> up_;
  TimeNs now_ = kSecond;
};

}  // namespace
}  // namespace weft::stages

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> in(data, size);
  weft::stages::Run run;
  while (in.size() >= 4) {
    const std::size_t bytes = std::min<std::size_t>(std::size_t{in[2]} | std::size_t{in[3]} << 8, in.size() - 4);
    run.message(in[0], in[1], {reinterpret_cast<const char*>(in.data()) + 4, bytes});
    in = in.subspan(4 + bytes);
  }
  run.finish();
  return 0;
}
