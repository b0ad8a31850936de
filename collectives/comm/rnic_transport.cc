// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/rnic_transport.h"

#include <algorithm>
#include <array>

#include "nic/host/neighbours.h"
#include "switch/system/entropy.h"

namespace weft::inc::comm {
namespace {

/// Answers are late when other ranks are: a tail that was lost is repaired soon, a peer counts as dead after some
/// seconds only.
constexpr nic::Time kFirstRto = 4 * nic::kMs, kLastRto = 268 * nic::kMs;
/// The kernel is asked for a neighbour anew after so long, and given up on after so long.
constexpr nic::Time kQuestion = 500 * nic::kMs, kGiveUp = 5000 * nic::kMs;
/// Other ranks are behind the same next hop, mostly: the kernel's table is not read for each of them.
constexpr nic::Time kSameHop = 20 * nic::kMs;

Completion completion(const nic::Wc& wc) {
  Completion out;
  out.wr_id = wc.wr_id;
  out.bytes = wc.byte_length;
  if (wc.with_immediate) out.immediate = wc.immediate;
  if (wc.status != nic::WcStatus::success) out.error = nic::name(wc.status);
  out.silent = wc.status == nic::WcStatus::retry_exceeded;
  return out;
}

std::size_t poll(nic::Cq& cq, std::span<Completion> out) {
  std::array<nic::Wc, 16> wc;
  const std::size_t n = cq.poll(std::span(wc).first(std::min(wc.size(), out.size())));
  std::transform(wc.begin(), wc.begin() + n, out.begin(), completion);
  return n;
}

}  // namespace

class RnicTransport::Pair final : public QueuePair {
 public:
  Pair(RnicTransport& owner, const QpSettings& settings)
      : owner_(owner),
        device_(*owner.device_),
        interface_(owner.port_->info().index),
        sent_(device_.create_cq(settings.send_depth)),
        received_(device_.create_cq(settings.receive_depth)),
        qp_(device_.create_qp(owner.pd_, sent_, received_, config(settings))),
        first_psn_(device_.pick_psn()),
        expects_psn_(device_.pick_psn()) {}
  ~Pair() override {
    device_.destroy_qp(qp_);
    device_.destroy_cq(sent_);
    device_.destroy_cq(received_);
  }

  QpEnd end() const override {
    return {device_.config().address, qp_.qpn().value(), first_psn_.value(), expects_psn_.value()};
  }

  ConnectState connect(const QpEnd& peer, std::optional<std::uint32_t> psn_of_peer) override {
    const nic::Time now = nic::monotonic_now();
    if (started_ == 0) started_ = now;
    const auto route = nic::find_route(peer.address);
    if (!route || route->interface != interface_) return ConnectState::unreachable;
    const auto mac = owner_.mac_of(route->gateway);
    if (!mac) {
      if (now >= next_question_) nic::ask_for_neighbour(interface_, route->gateway);
      if (now >= next_question_) next_question_ = now + kQuestion;
      return now - started_ > kGiveUp ? ConnectState::unreachable : ConnectState::waiting;
    }
    nic::Peer to;
    to.qpn = wire::Qpn(peer.qpn);
    to.send_psn = first_psn_;
    to.receive_psn = psn_of_peer ? wire::Psn(*psn_of_peer) : expects_psn_;
    to.path.source_mac = device_.config().mac;
    to.path.destination_mac = *mac;
    to.path.source = device_.config().address;
    to.path.destination = peer.address;
    to.path.source_port = 0;
    qp_.connect(to);
    return ConnectState::connected;
  }

  bool send(std::uint64_t wr_id, const void* data, std::uint32_t bytes, std::uint32_t key,
            std::optional<std::uint32_t> immediate) override {
    nic::SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = immediate ? nic::WrOpcode::send_imm : nic::WrOpcode::send;
    wr.immediate = immediate.value_or(0);
    wr.with({reinterpret_cast<std::uintptr_t>(data), bytes, key});
    return qp_.post_send(wr) == nic::PostResult::ok;
  }

  bool receive(std::uint64_t wr_id, void* data, std::uint32_t bytes, std::uint32_t key) override {
    nic::RecvWr wr;
    wr.wr_id = wr_id;
    wr.with({reinterpret_cast<std::uintptr_t>(data), bytes, key});
    return qp_.post_recv(wr) == nic::PostResult::ok;
  }

  std::size_t poll_sent(std::span<Completion> out) override { return poll(sent_, out); }
  std::size_t poll_received(std::span<Completion> out) override { return poll(received_, out); }

 private:
  static nic::QpConfig config(const QpSettings& settings) {
    nic::QpConfig c;
    c.path_mtu = settings.mtu;
    c.rto_mode = nic::RtoMode::adaptive;
    c.rto_low_ns = kFirstRto;
    c.rto_ns = kLastRto;
    c.send_queue_depth = settings.send_depth;
    c.receive_queue_depth = settings.receive_depth;
    return c;
  }

  RnicTransport& owner_;
  nic::Device& device_;
  unsigned interface_;
  nic::Cq& sent_;
  nic::Cq& received_;
  nic::Qp& qp_;
  wire::Psn first_psn_, expects_psn_;
  nic::Time started_ = 0, next_question_ = 0;
};

std::string RnicTransport::open(const std::optional<wire::IpAddress>& address, const std::string& interface) {
  std::vector<std::string> fitting;
  for (const std::string& name : nic::usable_interfaces()) {
    const auto info = nic::find_interface(name);
    if (!info || (!interface.empty() && name != interface)) continue;
    if (!address || std::find(info->addresses.begin(), info->addresses.end(), *address) != info->addresses.end()) {
      fitting.push_back(name);
    }
  }
  if (fitting.size() != 1) {
    const std::string with = address ? " with the address " + address->to_string() : "";
    if (!interface.empty()) return interface + " is no Ethernet interface that is up" + with;
    return fitting.empty() ? "no Ethernet interface" + with + " is up" : "there are several interfaces" + with;
  }
  auto port = std::make_unique<nic::NetdevPort>();
  if (auto problem = port->open(fitting[0]); !problem.empty()) return problem;
  const wire::IpAddress ours = address ? *address : port->info().addresses.front();
  const int descriptor = port->descriptor();
  use(std::move(port), descriptor, ours);
  return "";
}

std::string RnicTransport::open_memif(const nic::MemifPortConfig& config) {
  auto port = std::make_unique<nic::MemifPort>();
  if (auto problem = port->open(config); !problem.empty()) return problem;
  const int descriptor = port->descriptor();
  use(std::move(port), descriptor, config.address.address);
  return "";
}

void RnicTransport::use(std::unique_ptr<nic::Port> port, int descriptor, const wire::IpAddress& address) {
  port_ = port.get();
  descriptor_ = descriptor;
  host_.open(std::move(port));
  device_ = &host_.add_device(address, fresh_seed());
  pd_ = device_->alloc_pd();
}

std::optional<wire::MacAddress> RnicTransport::mac_of(const wire::IpAddress& gateway) {
  const nic::Time now = nic::monotonic_now();
  if (now < last_.until && gateway == last_.gateway) return last_.mac;
  const auto mac = nic::find_neighbour(port_->info().index, gateway);
  if (mac) last_ = {gateway, *mac, now + kSameHop};
  return mac;
}

std::uint32_t RnicTransport::largest_mtu() const {
  return nic::path_mtu_for(port_->info().mtu, device_->config().address.is_v6());
}

std::vector<Gid> RnicTransport::gids() const {
  std::vector<Gid> out;
  for (const wire::IpAddress& address : port_->info().addresses) {
    if (!address.is_link_local()) out.push_back({address});
  }
  return out;
}

std::unique_ptr<QueuePair> RnicTransport::create_qp(const QpSettings& settings) {
  return std::make_unique<Pair>(*this, settings);
}

std::uint32_t RnicTransport::register_memory(const void* data, std::size_t bytes) {
  // The RNIC writes to what receives name alone, which is never a caller's constant memory.
  return device_->reg_mr(pd_, const_cast<void*>(data), bytes, nic::Access::local_write).key;
}

void RnicTransport::forget(std::uint32_t key) {
  // The RNIC knows a region by its key alone.
  device_->dereg_mr({0, 0, key});
}

}  // namespace weft::inc::comm
