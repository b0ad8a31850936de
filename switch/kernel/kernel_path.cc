// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/kernel_path.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "switch/base/time.h"

namespace weft::kernel {

using pipeline::PortIndex;
using pipeline::SwitchState;
using stages::L3Kernel;
using stages::L3Shared;

namespace {

constexpr std::uint16_t kBurst = 64;
constexpr TimeNs kIdleNap = 2 * kMs;
constexpr TimeNs kBusyNap = kMs / 5;
constexpr TimeNs kBusyTime = 20 * kMs;
constexpr TimeNs kLinkPeriod = 50 * kMs;

// To 01:80:c2:00:00:00 to :0f (IEEE 802.1Q 8.6.3), which no bridge forwards.
bool is_link_control(std::span<const std::uint8_t> frame) {
  constexpr std::uint8_t kGroup[] = {0x01, 0x80, 0xc2, 0x00, 0x00};
  return std::equal(std::begin(kGroup), std::end(kGroup), frame.begin()) && frame[5] <= 0x0f;
}

}  // namespace

rte_mbuf* to_packet(std::span<const std::uint8_t> frame, rte_mempool* pool) {
  rte_mbuf* head = rte_pktmbuf_alloc(pool);
  if (head == nullptr) return nullptr;
  rte_mbuf* last = head;
  while (!frame.empty()) {
    const auto bytes = static_cast<std::uint16_t>(std::min<std::size_t>(frame.size(), rte_pktmbuf_tailroom(last)));
    std::memcpy(rte_pktmbuf_mtod_offset(last, char*, last->data_len), frame.data(), bytes);
    last->data_len = bytes;
    head->pkt_len += bytes;
    frame = frame.subspan(bytes);
    if (frame.empty()) break;
    last->next = rte_pktmbuf_alloc(pool);
    if (last->next == nullptr) {
      rte_pktmbuf_free(head);
      return nullptr;
    }
    last = last->next;
    ++head->nb_segs;
  }
  return head;
}

std::size_t to_frame(const rte_mbuf* m, std::span<std::uint8_t> frame) {
  if (m->pkt_len > frame.size()) return 0;
  std::size_t bytes = 0;
  for (; m != nullptr; m = m->next) {
    std::memcpy(frame.data() + bytes, rte_pktmbuf_mtod(m, const char*), m->data_len);
    bytes += m->data_len;
  }
  return bytes;
}

KernelPath::KernelPath(std::vector<std::shared_ptr<const Tap>> taps, PortByIndex ports, rte_mempool* pool, Clock clock)
    : clock_(std::move(clock)),
      taps_(std::move(taps)),
      ports_(std::move(ports)),
      pool_(pool),
      carrier_(taps_.size()),
      frame_(Tap::kMaxFrame) {}

void KernelPath::start(SwitchState& state, L3Kernel& rings, L3Shared* l3) {
  stop_ = false;
  thread_ = std::thread([this, &state, &rings, l3] { run(state, rings, l3); });
}

void KernelPath::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();
}

void KernelPath::run(SwitchState& state, L3Kernel& rings, L3Shared* l3) {
  pthread_setname_np(pthread_self(), "weft-kernel");
  std::vector<pollfd> ready{{questions_.descriptor(), POLLIN, 0}};
  for (const auto& tap : taps_) ready.push_back({tap->descriptor(), POLLIN, 0});
  mirror_links(state, true);
  TimeNs busy_until = 0;
  TimeNs next_links = 0;
  while (!stop_) {
    const TimeNs now = clock_();
    if (now >= next_links) {
      mirror_links(state, false);
      next_links = now + kLinkPeriod;
    }
    std::uint32_t work = 0;
    for (std::uint16_t worker = 0; worker < rings.workers(); ++worker) {
      work += to_kernel(rings, worker) + pass_questions(rings, worker);
    }
    if (ready[0].revents != 0 && l3 != nullptr) take_answers(*l3);
    for (PortIndex port = 0; port < taps_.size(); ++port) {
      if (ready[port + 1u].revents != 0) work += from_kernel(state, rings, port, l3 == nullptr);
    }
    if (work != 0) busy_until = now + kBusyTime;
    const timespec nap{0, static_cast<long>(now < busy_until ? kBusyNap : kIdleNap)};
    ppoll(ready.data(), ready.size(), &nap, nullptr);
  }
}

std::uint32_t KernelPath::to_kernel(L3Kernel& rings, std::uint16_t worker) {
  rte_mbuf* packets[kBurst];
  const std::uint16_t count = rings.take(worker, packets, kBurst);
  for (std::uint16_t i = 0; i < count; ++i) {
    const PortIndex port = pipeline::meta(packets[i]).in_port;
    const std::size_t bytes = to_frame(packets[i], frame_);
    const bool taken = bytes != 0 && taps_[port]->write({frame_.data(), bytes});
    auto& counters = rings.counters(port);
    (taken ? counters.to_kernel : counters.refused).fetch_add(1, std::memory_order_relaxed);
    rte_pktmbuf_free(packets[i]);
  }
  return count;
}

std::uint32_t KernelPath::from_kernel(const SwitchState& state, L3Kernel& rings, PortIndex port, bool control_only) {
  std::uint32_t count = 0;
  for (; count < kBurst; ++count) {
    const std::size_t bytes = taps_[port]->read(frame_);
    if (bytes == 0) break;
    const bool wanted = !control_only || is_link_control(frame_);
    if (rte_mbuf* m = wanted ? to_packet({frame_.data(), bytes}, pool_) : nullptr) {
      pipeline::meta(m).out_port = port;
      if (rings.give(state.owner_of_port(port), m)) continue;
      rte_pktmbuf_free(m);
    }
    rings.counters(port).refused.fetch_add(1, std::memory_order_relaxed);
  }
  return count;
}

std::uint32_t KernelPath::pass_questions(L3Kernel& rings, std::uint16_t worker) {
  L3Kernel::Question question;
  std::uint32_t count = 0;
  for (; count < kBurst && rings.next_question(worker, question); ++count) ask(question);
  return count;
}

void KernelPath::ask(const L3Kernel::Question& question) {
  const wire::IpAddress& address = question.address;
  ndmsg header{};
  header.ndm_family = address.is_v6() ? AF_INET6 : AF_INET;
  header.ndm_ifindex = taps_[question.port]->index();
  // An IPv4 address is the last four bytes of its IPv4-mapped form.
  const std::size_t bytes = address.is_v6() ? 16 : 4;
  const NetlinkSocket::Attribute target{NDA_DST, address.bytes().data() + 16 - bytes, bytes};
  if (question.known) {
    // Has no effect, as is right, when the kernel does not know the neighbour.
    header.ndm_state = NUD_PROBE;
    questions_.send(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_REPLACE, &header, sizeof header, {target});
  }
  // As if a packet had been sent: resolves a neighbour that is not known.
  header.ndm_state = NUD_NONE;
  header.ndm_flags = NTF_USE;
  questions_.send(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_CREATE, &header, sizeof header, {target});
  // The kernel announces no neighbour that it knows already, so its state is asked for.
  header.ndm_flags = 0;
  if (!question.known) questions_.send(RTM_GETNEIGH, NLM_F_REQUEST, &header, sizeof header, {target});
}

void KernelPath::take_answers(L3Shared& l3) {
  const auto take = [&](const nlmsghdr* message) {
    if (const auto neighbour = parse_neighbour(message)) apply_neighbour(*neighbour, ports_, l3, clock_());
  };
  for (int i = 0; i < kBurst && questions_.receive(take) != NetlinkSocket::Received::nothing; ++i) {
  }
}

void KernelPath::mirror_links(const SwitchState& state, bool all) {
  for (PortIndex port = 0; port < taps_.size(); ++port) {
    const bool up = state.link_up(port);
    if (!all && carrier_[port] == up) continue;
    carrier_[port] = up;
    taps_[port]->set_carrier(up);
  }
}

}  // namespace weft::kernel
