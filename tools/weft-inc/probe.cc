// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/probe.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "collectives/engine/control_message.h"
#include "collectives/manager/inc.pb.h"
#include "nic/host/host.h"

namespace weft::inc_tool {
namespace {

using inc::comm::Completion;
using inc::comm::ConnectState;

/// Small groups, so that nearly every switch has the memory: half of the window is sent, which a switch acknowledges
/// whether or not the other host takes part.
constexpr std::uint32_t kLargestMtu = 1024, kMessagePackets = 2, kWindow = 8;
constexpr nic::Time kConnect = 5000 * nic::kMs, kAnswer = 3000 * nic::kMs, kRenew = 400 * nic::kMs;
constexpr nic::Time kGlance = 5 * nic::kMs;
/// Modes in which a switch answers for itself.
constexpr std::array kModes{"iii", "i"};

class Probe {
 public:
  Probe(inc::comm::RunningTransport& transport, inc::manager::Client& client, const ProbePlan& plan)
      : transport_(transport),
        client_(client),
        plan_(plan),
        mtu_(std::min(kLargestMtu, transport.largest_mtu())),
        qp_(transport.create_qp({mtu_, kWindow, kWindow})),
        memory_(kMessagePackets * mtu_) {
    std::iota(memory_.begin(), memory_.end(), std::uint8_t{0});
    key_ = transport_.register_memory(memory_.data(), memory_.size());
  }
  ~Probe() {
    qp_.reset();
    transport_.forget(key_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  std::variant<IcrcFacts, std::string> run() {
    if (plan_.others.empty()) return "the manager knows no other host: a group has two";
    if (std::string why = make_group(); !why.empty()) return why;
    const std::uint64_t drops = transport_.icrc_errors().value_or(0);
    std::variant<IcrcFacts, std::string> out;
    if (std::string why = connect(); !why.empty()) {
      out = why;
    } else {
      IcrcFacts facts;
      facts.switch_name = plan_.switch_name;
      facts.mtu = mtu_;
      send(facts);
      ask_switch(facts);
      if (const auto now = transport_.icrc_errors()) facts.rnic_drops = *now - drops;
      out = facts;
    }
    inc::v1::DestroyGroupRequest end;
    end.set_group(group_.group());
    end.set_generation(group_.generation());
    inc::v1::DestroyGroupReply ended;
    static_cast<void>(client_.destroy(end, ended));
    return out;
  }

 private:
  inc::v1::CreateGroupRequest request(const std::string& other, const char* mode) const {
    inc::v1::CreateGroupRequest out;
    const inc::comm::QpEnd end = qp_->end();
    auto* ours = out.add_members();
    ours->set_address(end.address.to_string());
    ours->set_qp(end.qpn);
    ours->set_first_psn(end.first_psn);
    ours->set_expects_psn(end.expects_psn);
    auto* theirs = out.add_members();
    theirs->set_address(other);
    theirs->set_qp(2);  // nobody's: nothing is sent to it before it has sent something
    auto* options = out.mutable_options();
    options->set_mode(mode);
    options->set_mtu(mtu_);
    options->set_message_packets(kMessagePackets);
    options->set_window(kWindow);
    options->set_least_window(2);
    options->set_duty_per_mille(1000);  // it takes no turns
    return out;
  }

  /// Why there is none, or an empty string.
  std::string make_group() {
    std::string why;
    for (const char* mode : kModes) {
      for (const std::string& other : plan_.others) {
        if (const auto error = client_.create(request(other, mode), group_)) return *error;
        if (group_.refusal() == "none") return "";
        why.clear();
        for (const auto& sentence : group_.sentences()) why += (why.empty() ? "" : " ") + sentence;
      }
    }
    return "there is no group to try it with: " + why;
  }

  std::string connect() {
    const auto address = wire::IpAddress::parse(group_.endpoints_size() > 0 ? group_.endpoints(0).address() : "");
    if (!address) return "the manager names no end of the group";
    const inc::comm::QpEnd peer{*address, group_.endpoints(0).qp(), 0, 0};
    ConnectState state = ConnectState::waiting;
    run_until(kConnect, [&] {
      state = qp_->connect(peer, std::nullopt);
      return state != ConnectState::waiting;
    });
    return state == ConnectState::connected ? "" : address->to_string() + " cannot be reached";
  }

  /// A control message, and data: half of the window.
  void send(IcrcFacts& facts) {
    const std::uint32_t messages = std::max(1u, std::min<std::uint32_t>(group_.window(), kWindow) / 2 - 1);
    inc::ControlMessage control{inc::Primitive::allreduce,
                                inc::Op::sum,
                                inc::DataType::uint8,
                                0,
                                0,
                                group_.group(),
                                std::uint64_t{messages} * memory_.size()};
    const auto payload = inc::control_payload(control);
    std::array<std::uint8_t, inc::kControlPayloadBytes> first = payload;
    const std::uint32_t key = transport_.register_memory(first.data(), first.size());
    bool posted = qp_->send(0, first.data(), first.size(), key, inc::control_immediate(control));
    for (std::uint32_t m = 0; m < messages; ++m) {
      posted &= qp_->send(1 + m, memory_.data(), static_cast<std::uint32_t>(memory_.size()), key_, std::nullopt);
    }
    facts.packets = 1 + std::uint64_t{messages} * kMessagePackets;
    std::uint32_t acknowledged = 0;
    run_until(kAnswer, [&] {
      std::array<Completion, kWindow> wc;
      const std::size_t n = qp_->poll_sent(wc);
      for (std::size_t i = 0; i < n && facts.error.empty(); ++i) {
        facts.error = wc[i].error;
        if (facts.error.empty()) ++acknowledged;
      }
      return !posted || !facts.error.empty() || acknowledged == messages + 1;
    });
    facts.acknowledged = posted && acknowledged == messages + 1;
    // What has not been acknowledged is sent again until the queue pair is gone.
    qp_.reset();
    transport_.forget(key);
  }

  void ask_switch(IcrcFacts& facts) {
    inc::v1::ShowActivityReply activity;
    if (client_.activity(activity)) return;
    for (const auto& group : activity.groups()) {
      if (group.group() != group_.group() || group.generation() != group_.generation()) continue;
      for (const auto& s : group.switches()) {
        if (s.name() == plan_.switch_name && s.answers()) {
          facts.says = IcrcFacts::AtSwitch{s.from_ranks(), s.bad_icrc(), s.to_ranks()};
        }
      }
    }
  }

  /// Runs the RNIC, and renews the lease, until something holds or the time is over.
  template <class Condition>
  void run_until(nic::Time limit, Condition&& holds) {
    const nic::Time begin = nic::monotonic_now();
    for (nic::Time now = begin; now - begin < limit; now = nic::monotonic_now()) {
      transport_.receive();
      transport_.flush();
      if (holds()) return;
      if (now >= next_renewal_) renew(now);
      if (!transport_.may_wait()) continue;
      pollfd wait{transport_.descriptor(), POLLIN, 0};
      const nic::Time due = transport_.next_deadline();
      const nic::Time ns = due == nic::kNever ? kGlance : std::clamp<nic::Time>(due - now, 0, kGlance);
      const timespec pause{0, ns};
      static_cast<void>(ppoll(&wait, 1, &pause, nullptr));
    }
  }

  void renew(nic::Time now) {
    next_renewal_ = now + kRenew;
    inc::v1::RenewLeaseRequest request;
    request.set_group(group_.group());
    request.set_generation(group_.generation());
    inc::v1::RenewLeaseReply reply;
    static_cast<void>(client_.renew(request, reply));
  }

  inc::comm::RunningTransport& transport_;
  inc::manager::Client& client_;
  const ProbePlan& plan_;
  std::uint32_t mtu_;
  std::unique_ptr<inc::comm::QueuePair> qp_;
  std::vector<std::uint8_t> memory_;
  std::uint32_t key_ = 0;
  inc::v1::CreateGroupReply group_;
  nic::Time next_renewal_ = 0;
};

}  // namespace

std::variant<IcrcFacts, std::string> probe_icrc(inc::comm::RunningTransport& transport, inc::manager::Client& client,
                                                const ProbePlan& plan) {
  try {
    return Probe(transport, client, plan).run();
  } catch (const inc::comm::TransportError& error) {
    return std::string(error.what());
  }
}

}  // namespace weft::inc_tool
