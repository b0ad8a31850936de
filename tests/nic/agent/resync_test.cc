// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An agent and a switch, with their real messages between them, several of them under way. Connections break with
// messages and answers in them, or deliver some late; both restart, numbers of queue pairs are used again: when all is
// calm, the switch has what the host has, and nothing else.
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <string>

#include "nic/agent/reporter.h"
#include "switch/stages/rdma_track/agent_book.h"
#include "switch/stages/rdma_track/unit.h"
#include "tests/nic/agent/events.h"

namespace weft::testing {
namespace {

using agent::QpList;
using agent::Reporter;
using stages::AgentAction;
using stages::AgentBook;
using stages::AgentMessage;
using tables::PairSource;

const char* const kHere = "10.0.1.1";

std::string remote_of(unsigned host) {
  return "10.0.2." + std::to_string(host);
}

constexpr Reporter::Times kTimes{.gather = 70 * kMs, .settle = 30 * kMs};

class Pair {
 public:
  explicit Pair(std::uint64_t seed) : random_(seed) { restart_switch(); }

  void step() {
    now_ += 50 * kMs;
    const unsigned what = random_() % 100;
    const auto qpn = static_cast<std::uint32_t>(100 + random_() % 40);
    if (what < 45) {
      // The number at the other end is its partner's alone.
      tell(list_.on_event(to_rtr(qpn, remote_of(1 + random_() % 3), qpn + 400 + 100 * (random_() % 2))));
    } else if (what < 60) {
      tell(list_.on_event(to_rts(qpn, 7)));
    } else if (what < 90) {
      tell(list_.on_event(qp_event(WEFT_QP_DESTROY, qpn)));
    } else if (what == 90) {
      restart_switch();
    } else if (what == 91) {
      restart_agent();
    } else if (what == 92) {
      tell(list_.on_exit([](std::uint32_t) { return true; }));
    }
    for (unsigned i = random_() % 8; i > 0; --i) go_on(true);
  }
  /// No more losses.
  void calm_down() {
    for (int i = 0; i < 2000 && !(reporter_->in_step() && knows_session_); ++i) {
      now_ += 50 * kMs;
      for (int k = 0; k < 3; ++k) go_on(false);
    }
  }
  /// What is different at the two ends; "" when nothing is.
  std::string difference() {
    std::optional<QpList::Key> after;
    const auto all = list_.list(after, 1000);
    if (book_->rows()[0].qps != all.size()) return "the book has other numbers";
    std::size_t open = 0;
    const auto& table = tracker_->table();
    for (std::uint32_t i = 0; i < table.slots(); ++i) {
      const auto& e = table.entry(i);
      if (!e.is_free() && e.paired()) ++open;
    }
    if (open != 2 * all.size()) return "pairs: " + std::to_string(open / 2) + " for " + std::to_string(all.size());
    for (const auto& qp : all) {
      const std::uint64_t there = std::uint64_t{qp.local.v4_value()} << 32 | qp.remote.v4_value();
      const std::uint64_t back = std::uint64_t{qp.remote.v4_value()} << 32 | qp.local.v4_value();
      const std::uint32_t a = table.find({there, qp.remote_qpn}), b = table.find({back, qp.qpn});
      if (a == tables::QpTable::kNone || b == tables::QpTable::kNone) return "a direction is missing";
      if (table.entry(a).peer != b || table.entry(a).source() != PairSource::agent || table.entry(a).closed()) {
        return "a pair is not one";
      }
    }
    return "";
  }

 private:
  void tell(std::vector<agent::Change> changes) { reporter_->add(std::move(changes), now_); }
  void restart_switch() {
    book_ = std::make_unique<AgentBook>(std::vector<stages::AgentHost>{{"h1", {*wire::IpPrefix::parse("10.0.1.0/24")}}},
                                        1000);
    tracker_ = std::make_unique<stages::QpTracker>(stages::TrackOptions{.max_qps = 1000});
    knows_session_ = false;
    there_.clear();
    late_.clear();
    back_.clear();
    if (reporter_) reporter_->again();
  }
  // It comes back knowing nothing, and sees what comes after.
  void restart_agent() {
    ++session_;
    list_ = new_list();
    reporter_.emplace(list_, kTimes);
    knows_session_ = false;
    lose_connection();
  }
  // The agent sends, the switch takes, the agent hears, or the connection breaks.
  void go_on(bool lossy) {
    switch (lossy ? random_() % 13 : turn_++ % 3) {
      case 0:
      case 3:
      case 6:
      case 9:
        if (const agent::Message* const m = reporter_->next(now_)) there_.push_back(message_of(*m));
        break;
      case 1:
      case 4:
      case 7:
      case 10:
        if (!there_.empty()) {
          back_.push_back(take(there_.front()));
          there_.pop_front();
        }
        break;
      case 2:
      case 5:
      case 8:
        hear();
        break;
      case 11:
        lose_connection();
        random_() % 2 == 0 ? reporter_->again() : reporter_->failed(now_);
        break;
      default:
        // The switch still had some of an old connection.
        if (!late_.empty()) (void)take(late_.front());
        if (!late_.empty()) late_.pop_front();
    }
  }
  AgentMessage message_of(const agent::Message& message) {
    AgentMessage read{"h1", session_, message.sequence, message.begin, message.end, {}};
    EXPECT_EQ(stages::read_agent_changes(agent::changes_text(message), read.changes), "");
    return read;
  }
  // @return  whether the switch asks for all
  bool take(const AgentMessage& message) {
    std::vector<AgentAction> actions;
    const auto reply = book_->apply(message, actions);
    EXPECT_TRUE(reply.expected);
    EXPECT_EQ(reply.refused, 0u);
    for (const AgentAction& action : actions) {
      if (action.up) {
        EXPECT_TRUE(tracker_->on_agent_up(now_, action.qp, action.snapshot));
      } else {
        tracker_->on_agent_down(action.qp);
      }
    }
    return reply.resync;
  }
  void hear() {
    if (back_.empty()) return;
    knows_session_ = !back_.front();
    reporter_->answered(now_, back_.front());
    back_.pop_front();
  }
  void lose_connection() {
    if (random_() % 2 == 0) late_ = there_;
    there_.clear();
    back_.clear();
  }

  std::mt19937_64 random_;
  static QpList new_list() {
    return QpList([](const std::string&, unsigned, unsigned) { return wire::IpAddress::parse(kHere); });
  }
  QpList list_ = new_list();
  std::optional<Reporter> reporter_{std::in_place, list_, kTimes};
  std::unique_ptr<AgentBook> book_;
  std::unique_ptr<stages::QpTracker> tracker_;
  std::uint64_t session_ = 1;
  bool knows_session_ = false;
  std::deque<AgentMessage> there_, late_;  // on their way to the switch; those of the connection before
  std::deque<bool> back_;                  // answers
  unsigned turn_ = 0;
  TimeNs now_ = kSecond;
};

TEST(Resync, BothEndsAgreeWhateverWasLost) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Pair pair(seed);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 60; ++i) pair.step();
      pair.calm_down();
      ASSERT_EQ(pair.difference(), "") << "seed " << seed << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace weft::testing
