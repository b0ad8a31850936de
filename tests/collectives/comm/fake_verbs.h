// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A libibverbs with one device, mlx5_0, whose queue pairs find each other by their numbers and pass messages at once.
// What it is asked for is kept for tests to look at.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/verbs_library.h"
#include "switch/wire/addresses.h"

namespace weft::inc::comm::testing {

class FakeVerbs {
 public:
  static constexpr const char* kDevice = "mlx5_0";
  struct Change {
    ibv_qp_attr attr;
    int mask;
  };

  FakeVerbs() {
    current_ = this;
    std::strcpy(device_.name, kDevice);
  }
  ~FakeVerbs() {
    EXPECT_EQ(living, 0) << "something was not given back";
    current_ = nullptr;
  }
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;

  void add_gid(std::string_view address, std::uint32_t port, std::uint32_t type = IBV_GID_TYPE_ROCE_V2) {
    ibv_gid_entry one{};
    const auto bytes = wire::IpAddress::parse(address)->bytes();
    std::copy(bytes.begin(), bytes.end(), one.gid.raw);
    one.gid_index = static_cast<std::uint32_t>(gids.size());
    one.port_num = port;
    one.gid_type = type;
    gids.push_back(one);
  }

  [[nodiscard]] Verbs functions() const {
    Verbs v;
    devices(v);
    queues(v);
    return v;
  }

  std::vector<ibv_gid_entry> gids;
  ibv_port_state state = IBV_PORT_ACTIVE;
  ibv_mtu mtu = IBV_MTU_4096;
  std::deque<int> rtr_errors;     ///< of the next changes to RTR
  std::optional<int> no_memory;   ///< an error: none is registered
  std::optional<int> no_writing;  ///< an error: none that is to be written is registered
  std::optional<int> no_queue_pair;
  std::map<std::uint32_t, std::vector<Change>> changes;  ///< by queue pair, in order
  std::vector<int> access;                               ///< of what was registered
  int living = 0;                                        ///< objects of all kinds

 private:
  struct Channel : ibv_comp_channel {
    std::deque<ibv_cq*> events;
  };
  struct Cq : ibv_cq {
    std::deque<ibv_wc> entries;
    bool armed = false;
  };
  struct Message {
    std::vector<std::uint8_t> data;
    ibv_send_wr wr;
  };
  struct Qp : ibv_qp {
    std::uint32_t peer = 0;
    std::uint32_t send_depth = 0, receive_depth = 0;
    std::deque<std::pair<std::uint64_t, ibv_sge>> receives;
    std::deque<Message> coming;
  };

  template <class T>
  static T* make() {
    ++current_->living;
    return new T{};
  }
  template <class T, class Base>
  static int destroy(Base* one) {
    --current_->living;
    delete static_cast<T*>(one);
    return 0;
  }

  void devices(Verbs& v) const {
    v.get_device_list = [](int* count) {
      *count = 1;
      ++current_->living;
      return new ibv_device* [2] { &current_->device_, nullptr };
    };
    v.free_device_list = [](ibv_device** all) {
      --current_->living;
      delete[] all;
    };
    v.get_device_name = [](ibv_device* d) -> const char* { return d->name; };
    v.open_device = [](ibv_device* d) {
      auto* c = make<ibv_context>();
      c->device = d;
      c->ops.poll_cq = poll;
      c->ops.req_notify_cq = [](ibv_cq* cq, int) {
        static_cast<Cq*>(cq)->armed = true;
        return 0;
      };
      c->ops.post_send = post_send;
      c->ops.post_recv = post_receive;
      return c;
    };
    v.close_device = destroy<ibv_context, ibv_context>;
    v.query_port = [](ibv_context*, std::uint8_t, _compat_ibv_port_attr* to) {
      reinterpret_cast<ibv_port_attr*>(to)->state = current_->state;
      reinterpret_cast<ibv_port_attr*>(to)->active_mtu = current_->mtu;
      return 0;
    };
    v.query_gid_table = [](ibv_context*, ibv_gid_entry* to, std::size_t most, std::uint32_t,
                           std::size_t entry_bytes) -> ssize_t {
      // The kernel counts the bytes of an answer in 16 bits.
      if (most * entry_bytes > UINT16_MAX) return -EINVAL;
      const auto n = std::min(most, current_->gids.size());
      std::copy_n(current_->gids.begin(), n, to);
      return static_cast<ssize_t>(n);
    };
    v.alloc_pd = [](ibv_context* context) {
      auto* pd = make<ibv_pd>();
      pd->context = context;
      return pd;
    };
    v.dealloc_pd = destroy<ibv_pd, ibv_pd>;
    v.reg_mr = register_memory;
    v.dereg_mr = [](ibv_mr* mr) {
      current_->regions_.erase(mr->lkey);
      return destroy<ibv_mr>(mr);
    };
  }

  void queues(Verbs& v) const {
    v.create_comp_channel = [](ibv_context*) -> ibv_comp_channel* {
      auto* channel = make<Channel>();
      channel->fd = eventfd(0, EFD_SEMAPHORE);
      return channel;
    };
    v.destroy_comp_channel = [](ibv_comp_channel* channel) {
      close(channel->fd);
      return destroy<Channel>(channel);
    };
    v.create_cq = [](ibv_context* context, int, void* of, ibv_comp_channel* channel, int) -> ibv_cq* {
      auto* cq = make<Cq>();
      cq->context = context;
      cq->cq_context = of;
      cq->channel = channel;
      return cq;
    };
    v.destroy_cq = [](ibv_cq* cq) {
      // The kernel takes back what nobody has read.
      auto& events = static_cast<Channel*>(cq->channel)->events;
      for (std::uint64_t one; std::count(events.begin(), events.end(), cq) > 0;) {
        events.erase(std::find(events.begin(), events.end(), cq));
        EXPECT_EQ(read(cq->channel->fd, &one, sizeof one), 8);
      }
      return destroy<Cq>(cq);
    };
    v.get_cq_event = [](ibv_comp_channel* channel, ibv_cq** cq, void** of) {
      std::uint64_t one = 0;
      if (read(channel->fd, &one, sizeof one) != 8) return -1;
      auto& events = static_cast<Channel*>(channel)->events;
      *cq = events.front();
      *of = events.front()->cq_context;
      events.pop_front();
      return 0;
    };
    v.ack_cq_events = [](ibv_cq* cq, unsigned n) { cq->comp_events_completed += n; };
    v.create_qp = create_qp;
    v.modify_qp = modify_qp;
    v.destroy_qp = [](ibv_qp* qp) {
      current_->pairs_.erase(qp->qp_num);
      return destroy<Qp>(qp);
    };
    v.wc_status_str = [](ibv_wc_status) { return "transport retry counter exceeded"; };
  }

  static ibv_mr* register_memory(ibv_pd*, void* data, std::size_t bytes, int access) {
    const auto refused = (access & IBV_ACCESS_LOCAL_WRITE) != 0 ? current_->no_writing : std::nullopt;
    if (current_->no_memory || refused) {
      errno = current_->no_memory.value_or(refused.value_or(0));
      return nullptr;
    }
    auto* mr = make<ibv_mr>();
    mr->addr = data;
    mr->length = bytes;
    mr->lkey = ++current_->last_key_;
    current_->regions_[mr->lkey] = mr;
    current_->access.push_back(access);
    return mr;
  }

  static ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
    if (current_->no_queue_pair) {
      errno = *current_->no_queue_pair;
      return nullptr;
    }
    auto* qp = make<Qp>();
    qp->context = pd->context;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->send_depth = init->cap.max_send_wr;
    qp->receive_depth = init->cap.max_recv_wr;
    qp->qp_num = ++current_->last_qpn_;
    current_->pairs_[qp->qp_num] = qp;
    EXPECT_EQ(init->qp_type, IBV_QPT_RC);
    return qp;
  }

  static int modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
    auto* qp = static_cast<Qp*>(base);
    if (attr->qp_state == IBV_QPS_RTR && !current_->rtr_errors.empty()) {
      const int error = current_->rtr_errors.front();
      current_->rtr_errors.pop_front();
      return error;
    }
    // RESET is 0, and each state follows the one before.
    if (attr->qp_state != qp->state + 1) return EINVAL;
    qp->state = attr->qp_state;
    if (attr->qp_state == IBV_QPS_RTR) qp->peer = attr->dest_qp_num;
    current_->changes[qp->qp_num].push_back({*attr, mask});
    if (attr->qp_state == IBV_QPS_RTR) deliver(*qp);
    return 0;
  }

  static void complete(ibv_cq* base, const ibv_wc& wc) {
    auto* cq = static_cast<Cq*>(base);
    cq->entries.push_back(wc);
    if (!cq->armed) return;
    cq->armed = false;
    static_cast<Channel*>(cq->channel)->events.push_back(cq);
    const std::uint64_t one = 1;
    EXPECT_EQ(write(cq->channel->fd, &one, sizeof one), 8);
  }

  static int poll(ibv_cq* base, int most, ibv_wc* to) {
    auto& entries = static_cast<Cq*>(base)->entries;
    const int n = std::min<int>(most, static_cast<int>(entries.size()));
    std::copy_n(entries.begin(), n, to);
    entries.erase(entries.begin(), entries.begin() + n);
    return n;
  }

  static void expect_registered(const ibv_sge& sge) {
    const auto found = current_->regions_.find(sge.lkey);
    ASSERT_NE(found, current_->regions_.end());
    const auto begin = reinterpret_cast<std::uintptr_t>(found->second->addr);
    EXPECT_TRUE(sge.addr >= begin && sge.addr + sge.length <= begin + found->second->length);
  }

  static int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad) {
    auto* qp = static_cast<Qp*>(base);
    *bad = wr;
    if (qp->state != IBV_QPS_RTS || static_cast<Cq*>(qp->send_cq)->entries.size() >= qp->send_depth) return ENOMEM;
    Message m{{}, *wr};
    if (wr->num_sge == 1) {
      expect_registered(*wr->sg_list);
      EXPECT_GT(wr->sg_list->length, 0u) << "which means 2 GiB to some devices";
      const auto* data = reinterpret_cast<const std::uint8_t*>(wr->sg_list->addr);
      m.data.assign(data, data + wr->sg_list->length);
    }
    ibv_wc wc{};
    wc.wr_id = wr->wr_id;
    wc.opcode = IBV_WC_SEND;
    const auto peer = current_->pairs_.find(qp->peer);
    if (peer == current_->pairs_.end()) {
      wc.status = IBV_WC_RETRY_EXC_ERR;
    } else {
      peer->second->coming.push_back(std::move(m));
      deliver(*peer->second);
    }
    complete(qp->send_cq, wc);
    return 0;
  }

  static int post_receive(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    auto* qp = static_cast<Qp*>(base);
    *bad = wr;
    if (qp->state < IBV_QPS_INIT || qp->receives.size() >= qp->receive_depth) return ENOMEM;
    expect_registered(*wr->sg_list);
    qp->receives.emplace_back(wr->wr_id, *wr->sg_list);
    deliver(*qp);
    return 0;
  }

  static void deliver(Qp& to) {
    while (to.state >= IBV_QPS_RTR && !to.coming.empty() && !to.receives.empty()) {
      const auto [id, sge] = to.receives.front();
      const Message m = std::move(to.coming.front());
      to.receives.pop_front();
      to.coming.pop_front();
      ASSERT_LE(m.data.size(), sge.length);
      if (!m.data.empty()) std::memcpy(reinterpret_cast<void*>(sge.addr), m.data.data(), m.data.size());
      ibv_wc wc{};
      wc.wr_id = id;
      wc.opcode = IBV_WC_RECV;
      wc.byte_len = static_cast<std::uint32_t>(m.data.size());
      if (m.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = m.wr.imm_data;
      }
      complete(to.recv_cq, wc);
    }
  }

  inline static FakeVerbs* current_ = nullptr;
  ibv_device device_{};
  std::map<std::uint32_t, Qp*> pairs_;
  std::map<std::uint32_t, ibv_mr*> regions_;
  std::uint32_t last_qpn_ = 40, last_key_ = 700;
};

}  // namespace weft::inc::comm::testing
