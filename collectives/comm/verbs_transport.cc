// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/verbs_transport.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "nic/host/host.h"
#include "switch/system/entropy.h"
#include "switch/wire/cm.h"
#include "switch/wire/types.h"

namespace weft::inc::comm {
namespace {

/// Code of the time until a message without an answer is sent again, 4.096 us * 2^N: 0.54 s. A peer counts as dead
/// after seven of them. Not 7 retries: Soft-RoCE takes 7 for "without limit", so that a rank whose peer has gone would
/// wait for ever.
constexpr std::uint8_t kAckTimeout = 17, kRetries = 6;
/// A rank that is late makes the others wait without limit; its leases end it when it is dead.
constexpr std::uint8_t kRnrRetriesWithoutLimit = 7, kRnrTimer640us = 12;
constexpr std::uint8_t kHopLimit = 64;
/// The kernel looks for a neighbour's address for a second or so; it is asked again for so long.
constexpr nic::Time kNeighbourTime = 5000 * nic::kMs;
/// More than the tables of all ports have; a question to the kernel has room for 64 KiB, so for fewer than 2048.
constexpr std::size_t kMaxGids = 1024;

std::string problem(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

std::uint32_t random_psn() {
  return static_cast<std::uint32_t>(fresh_seed()) & wire::Psn::kMask;
}

/// Whether the next hop may still answer.
bool may_come(int error) noexcept {
  return error == ETIMEDOUT || error == ENODATA || error == EHOSTUNREACH || error == EAGAIN;
}

}  // namespace

/// A completion queue that says in its channel that something has come, once it is armed.
class VerbsTransport::Queue {
 public:
  Queue(VerbsTransport& owner, std::uint32_t depth) : owner_(owner) {
    cq_ = owner.verbs_.create_cq(owner.context_, static_cast<int>(depth), this, owner.channel_, 0);
    if (cq_ == nullptr) throw TransportError(problem(owner.name_ + " gives no completion queue", errno));
    owner.unarmed_.push_back(this);
  }
  ~Queue() {
    std::erase(owner_.unarmed_, this);
    owner_.verbs_.destroy_cq(cq_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] ibv_cq* get() const noexcept { return cq_; }
  void arm() { static_cast<void>(ibv_req_notify_cq(cq_, 0)); }
  std::size_t poll(std::span<Completion> out) {
    std::array<ibv_wc, 16> wc;
    const int n = ibv_poll_cq(cq_, static_cast<int>(std::min(wc.size(), out.size())), wc.data());
    if (n <= 0) return 0;
    std::transform(wc.begin(), wc.begin() + n, out.begin(), [this](const ibv_wc& one) { return completion(one); });
    return static_cast<std::size_t>(n);
  }

 private:
  [[nodiscard]] Completion completion(const ibv_wc& wc) const {
    Completion out;
    out.wr_id = wc.wr_id;
    if (wc.status != IBV_WC_SUCCESS) {
      out.error = owner_.verbs_.wc_status_str(wc.status);
      out.silent = wc.status == IBV_WC_RETRY_EXC_ERR;
      return out;
    }
    out.bytes = wc.byte_len;
    if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) out.immediate = ntohl(wc.imm_data);
    return out;
  }

  VerbsTransport& owner_;
  ibv_cq* cq_ = nullptr;
};

class VerbsTransport::Pair final : public QueuePair {
 public:
  Pair(VerbsTransport& owner, const QpSettings& settings)
      : owner_(owner),
        settings_(settings),
        sent_(owner, settings.send_depth),
        received_(owner, settings.receive_depth),
        first_psn_(random_psn()),
        expects_psn_(random_psn()) {
    ibv_qp_init_attr init{};
    init.send_cq = sent_.get();
    init.recv_cq = received_.get();
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    init.cap.max_send_wr = settings.send_depth;
    init.cap.max_recv_wr = settings.receive_depth;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = owner.verbs_.create_qp(owner.pd_, &init);
    if (qp_ == nullptr) throw TransportError(problem(owner.name_ + " gives no queue pair", errno));
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = static_cast<std::uint8_t>(owner.port_);
    const int error = modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error == 0) return;
    owner.verbs_.destroy_qp(qp_);
    throw TransportError(problem(owner.name_ + " refuses a queue pair", error));
  }
  ~Pair() override { owner_.verbs_.destroy_qp(qp_); }

  QpEnd end() const override { return {owner_.address_, qp_->qp_num, first_psn_, expects_psn_}; }

  ConnectState connect(const QpEnd& peer, std::optional<std::uint32_t> psn_of_peer) override {
    const nic::Time now = nic::monotonic_now();
    if (started_ == 0) started_ = now;
    if (const int error = ready_to_receive(peer, psn_of_peer.value_or(expects_psn_)); error != 0) {
      const bool again = may_come(error) && now - started_ < kNeighbourTime;
      return again ? ConnectState::waiting : ConnectState::unreachable;
    }
    return ready_to_send() == 0 ? ConnectState::connected : ConnectState::unreachable;
  }

  bool send(std::uint64_t wr_id, const void* data, std::uint32_t bytes, std::uint32_t key,
            std::optional<std::uint32_t> immediate) override {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(data), bytes, key};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.opcode = immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    wr.imm_data = htonl(immediate.value_or(0));
    wr.sg_list = &sge;
    // Some devices take a length of 0 for 2 GiB.
    wr.num_sge = bytes == 0 ? 0 : 1;
    return ibv_post_send(qp_, &wr, &bad) == 0;
  }

  bool receive(std::uint64_t wr_id, void* data, std::uint32_t bytes, std::uint32_t key) override {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(data), bytes, key};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(qp_, &wr, &bad) == 0;
  }

  std::size_t poll_sent(std::span<Completion> out) override { return sent_.poll(out); }
  std::size_t poll_received(std::span<Completion> out) override { return received_.poll(out); }

 private:
  int modify(ibv_qp_attr& attr, int mask) { return owner_.verbs_.modify_qp(qp_, &attr, mask); }

  /// An error of errno.h, or 0. The kernel finds the next hop's Ethernet address meanwhile.
  int ready_to_receive(const QpEnd& peer, std::uint32_t psn_of_peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    // IBV_MTU_256 is 1.
    attr.path_mtu = static_cast<ibv_mtu>(std::countr_zero(settings_.mtu) - 7);
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = psn_of_peer;
    attr.min_rnr_timer = kRnrTimer640us;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = static_cast<std::uint8_t>(owner_.port_);
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(owner_.gid_index_);
    attr.ah_attr.grh.hop_limit = kHopLimit;
    std::copy(peer.address.bytes().begin(), peer.address.bytes().end(), attr.ah_attr.grh.dgid.raw);
    return modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }

  int ready_to_send() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = first_psn_;
    attr.timeout = kAckTimeout;
    attr.retry_cnt = kRetries;
    attr.rnr_retry = kRnrRetriesWithoutLimit;
    return modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_MAX_QP_RD_ATOMIC);
  }

  VerbsTransport& owner_;
  QpSettings settings_;
  Queue sent_, received_;
  ibv_qp* qp_ = nullptr;
  std::uint32_t first_psn_, expects_psn_;
  nic::Time started_ = 0;
};

VerbsTransport::~VerbsTransport() {
  for (const auto& [key, region] : regions_) verbs_.dereg_mr(region);
  if (channel_ != nullptr) verbs_.destroy_comp_channel(channel_);
  if (pd_ != nullptr) verbs_.dealloc_pd(pd_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

std::string VerbsTransport::open(const std::string& device, const std::optional<wire::IpAddress>& address) {
  const auto colon = device.find(':');
  std::uint32_t port = 0;
  if (colon != std::string::npos) {
    const char* end = device.data() + device.size();
    const auto [rest, error] = std::from_chars(device.data() + colon + 1, end, port);
    if (error != std::errc{} || rest != end || port == 0 || port > 255) {
      return "'" + device + "' names no port: ports are numbered from 1 on";
    }
  }
  name_ = device;
  if (auto why = open_device(device.substr(0, colon)); !why.empty()) return why;
  if (auto why = choose_gid(port, address); !why.empty()) return why;
  if (auto why = look_at_port(); !why.empty()) return why;
  return make_domain();
}

std::string VerbsTransport::open_device(const std::string& name) {
  int count = 0;
  ibv_device** all = verbs_.get_device_list(&count);
  if (all == nullptr) return problem("the kernel has no RDMA devices for programs", errno);
  std::string names;
  ibv_device* found = nullptr;
  for (int i = 0; i < count; ++i) {
    const std::string one = verbs_.get_device_name(all[i]);
    names += (i == 0 ? "" : ", ") + one;
    if (one == name) found = all[i];
  }
  std::string why;
  if (found == nullptr) {
    why = "there is no RDMA device '" + name + "'; there " + (names.empty() ? "is none" : "are: " + names);
  } else if (context_ = verbs_.open_device(found); context_ == nullptr) {
    why = problem(name + " cannot be opened", errno);
  }
  verbs_.free_device_list(all);
  return why;
}

ssize_t VerbsTransport::read_gids(std::vector<ibv_gid_entry>& out) const {
  out.resize(kMaxGids);
  const ssize_t count = verbs_.query_gid_table(context_, out.data(), out.size(), 0, sizeof out.front());
  out.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return count;
}

std::vector<Gid> VerbsTransport::gids() const {
  std::vector<ibv_gid_entry> all;
  if (read_gids(all) < 0) return {};
  std::vector<Gid> out;
  for (const ibv_gid_entry& one : all) {
    const wire::IpAddress its = wire::gid_address(std::to_array(one.gid.raw));
    if (one.gid_type == IBV_GID_TYPE_ROCE_V2 && !its.is_link_local()) out.push_back({its, one.gid_index, one.port_num});
  }
  return out;
}

std::optional<std::uint64_t> VerbsTransport::icrc_errors() const {
  const std::string device = name_.substr(0, name_.find(':'));
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/" + std::to_string(port_) +
                     "/hw_counters/rx_icrc_encapsulated");
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::string VerbsTransport::choose_gid(std::uint32_t port, const std::optional<wire::IpAddress>& address) {
  std::vector<ibv_gid_entry> all;
  if (const ssize_t count = read_gids(all); count < 0) {
    return problem(name_ + " does not tell its GIDs", static_cast<int>(-count));
  }
  const ibv_gid_entry* best = nullptr;
  const ibv_gid_entry* of_other_type = nullptr;
  for (const ibv_gid_entry& one : all) {
    if (port != 0 && one.port_num != port) continue;
    const wire::IpAddress its = wire::gid_address(std::to_array(one.gid.raw));
    if (address ? its != *address : its.is_link_local()) continue;
    if (one.gid_type != IBV_GID_TYPE_ROCE_V2) {
      of_other_type = &one;
      continue;
    }
    // IPv4 before IPv6; of several the first.
    if (best == nullptr || (address_.is_v6() && !its.is_v6())) {
      best = &one;
      address_ = its;
    }
  }
  if (best == nullptr) {
    const std::string of = address ? "for " + address->to_string() : "with an IP address";
    const std::string hint =
        of_other_type == nullptr ? "" : ": its GID " + std::to_string(of_other_type->gid_index) + " is of another type";
    return name_ + " has no GID of RoCE v2 " + of + hint;
  }
  port_ = best->port_num;
  gid_index_ = best->gid_index;
  return "";
}

std::string VerbsTransport::look_at_port() {
  ibv_port_attr port{};
  // The library's own function knows the part of the structure that is older.
  const int error =
      verbs_.query_port(context_, static_cast<std::uint8_t>(port_), reinterpret_cast<::_compat_ibv_port_attr*>(&port));
  if (error != 0) return problem(name_ + " does not tell the state of its port", error);
  if (port.state != IBV_PORT_ACTIVE) return "port " + std::to_string(port_) + " of " + name_ + " is not up";
  largest_mtu_ = 128u << port.active_mtu;
  return "";
}

std::string VerbsTransport::make_domain() {
  pd_ = verbs_.alloc_pd(context_);
  if (pd_ == nullptr) return problem(name_ + " gives no protection domain", errno);
  channel_ = verbs_.create_comp_channel(context_);
  if (channel_ == nullptr) return problem(name_ + " gives no completion channel", errno);
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return problem("the completion channel of " + name_, errno);
  }
  return "";
}

std::unique_ptr<QueuePair> VerbsTransport::create_qp(const QpSettings& settings) {
  return std::make_unique<Pair>(*this, settings);
}

std::uint32_t VerbsTransport::register_memory(const void* data, std::size_t bytes) {
  // The device writes to what receives name alone, which is never a caller's constant memory.
  void* memory = const_cast<void*>(data);
  ibv_mr* region = verbs_.reg_mr(pd_, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  // Memory that the program itself may not write, of which it sends.
  if (region == nullptr && errno == EFAULT) region = verbs_.reg_mr(pd_, memory, bytes, 0);
  if (region == nullptr) {
    const int error = errno;
    const std::string hint = error == ENOMEM ? " (see ulimit -l)" : "";
    throw TransportError(problem(name_ + " does not register " + std::to_string(bytes) + " bytes of memory", error) +
                         hint);
  }
  regions_.emplace(region->lkey, region);
  return region->lkey;
}

void VerbsTransport::forget(std::uint32_t key) {
  const auto region = regions_.find(key);
  verbs_.dereg_mr(region->second);
  regions_.erase(region);
}

/// What comes between the last look at a queue and its being armed makes no event, so that there is one more look.
bool VerbsTransport::may_wait() {
  ibv_cq* cq = nullptr;
  void* queue = nullptr;
  while (verbs_.get_cq_event(channel_, &cq, &queue) == 0) {
    verbs_.ack_cq_events(cq, 1);
    unarmed_.push_back(static_cast<Queue*>(queue));
  }
  if (unarmed_.empty()) return true;
  for (Queue* one : unarmed_) one->arm();
  unarmed_.clear();
  return false;
}

}  // namespace weft::inc::comm
