// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/netdev_port.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>

#include "switch/wire/headers.h"

namespace weft::nic {
namespace {

constexpr int kSocketBufferBytes = 8 << 20;

/// Accepts whole UDP datagrams to port 4791 over IPv4 without fragments, or IPv6 without extension headers; and MAC
/// control frames, which hold PAUSE and PFC.
constexpr sock_filter kRoceFilter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::EtherType::mac_control, 14, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::EtherType::ipv4, 0, 7),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::IpProtocol::udp, 0, 10),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 8, 0),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
    BPF_JUMP(BPF_JMP | BPF_JA, 4, 0, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::EtherType::ipv6, 0, 4),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::IpProtocol::udp, 0, 2),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::kRoceUdpPort, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, 0),
    BPF_STMT(BPF_RET | BPF_K, 0x40000),
};

}  // namespace

NetdevPort::NetdevPort() = default;
NetdevPort::~NetdevPort() = default;

std::string NetdevPort::open(const std::string& interface) {
  name_ = interface;
  const auto info = find_interface(interface);
  if (!info) return "there is no Ethernet interface " + interface;
  info_ = *info;
  if (auto problem = configure_socket(); !problem.empty()) return problem;
  if (auto problem = claim_.take(); !problem.empty()) return problem;
  room_ = (std::size_t{info_.mtu} + sizeof(wire::EthernetHeader) + 64 + 63) / 64 * 64;
  for (auto* side : {&rx_memory_, &tx_memory_}) side->resize(kBurst * room_);
  for (auto* side : {&rx_headers_, &tx_headers_}) side->resize(kBurst);
  for (auto* side : {&rx_pieces_, &tx_pieces_}) side->resize(kBurst);
  for (std::size_t i = 0; i < kBurst; ++i) {
    rx_pieces_[i] = {rx_memory_.data() + i * room_, room_};
    tx_pieces_[i] = {tx_memory_.data() + i * room_, 0};
    rx_headers_[i].msg_hdr.msg_iov = &rx_pieces_[i];
    tx_headers_[i].msg_hdr.msg_iov = &tx_pieces_[i];
    rx_headers_[i].msg_hdr.msg_iovlen = tx_headers_[i].msg_hdr.msg_iovlen = 1;
  }
  return {};
}

std::string NetdevPort::configure_socket() {
  // Protocol 0: nothing arrives before the filter is there and the socket is bound.
  socket_ = Descriptor(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return error_text("packet socket (it needs root or CAP_NET_RAW)");
  const int fd = socket_.get();
  const sock_fprog program{std::size(kRoceFilter), const_cast<sock_filter*>(kRoceFilter)};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
    return error_text("filter of the packet socket");
  const int one = 1;
  // Not essential: without them there is more work, or fewer frames fit. (Frames go through the queueing discipline:
  // those that bypass it, tcpdump does not see.)
  static_cast<void>(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one));
  for (const int option : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    static_cast<void>(setsockopt(fd, SOL_SOCKET, option, &kSocketBufferBytes, sizeof kSocketBufferBytes));
  }
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETH_P_ALL);
  to.sll_ifindex = static_cast<int>(info_.index);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return error_text("bind to the interface");
  return {};
}

std::span<const std::span<const std::uint8_t>> NetdevPort::receive() noexcept {
  const int count = recvmmsg(socket_.get(), rx_headers_.data(), kBurst, MSG_DONTWAIT, nullptr);
  std::size_t kept = 0;
  for (int i = 0; i < count; ++i) {
    const auto& h = rx_headers_[static_cast<std::size_t>(i)];
    ++counters_.rx_frames;
    if ((h.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
      ++counters_.rx_truncated;
      continue;
    }
    received_[kept++] = {rx_memory_.data() + static_cast<std::size_t>(i) * room_, h.msg_len};
  }
  return {received_.data(), kept};
}

void NetdevPort::send(const TxFrame& frame) noexcept {
  const std::size_t bytes = copy_frame(frame, {tx_memory_.data() + queued_ * room_, room_});
  if (bytes == 0) {
    ++counters_.tx_errors;  // longer than the interface takes
    return;
  }
  tx_pieces_[queued_++].iov_len = bytes;
  if (queued_ == kBurst) static_cast<void>(flush());
}

bool NetdevPort::flush() noexcept {
  std::size_t done = 0;
  while (done < queued_) {
    const int sent = sendmmsg(socket_.get(), &tx_headers_[done], static_cast<unsigned>(queued_ - done), MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
      counters_.tx_frames += static_cast<std::uint64_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      ++counters_.tx_busy;
      break;
    } else {
      // The first of them was refused: a full queue of the interface, or one that is down. It is lost, as on a wire.
      ++counters_.tx_errors;
      ++done;
    }
  }
  if (done > 0 && done < queued_) {
    for (std::size_t i = done; i < queued_; ++i) {
      std::memcpy(tx_memory_.data() + (i - done) * room_, tx_memory_.data() + i * room_, tx_pieces_[i].iov_len);
      tx_pieces_[i - done].iov_len = tx_pieces_[i].iov_len;
    }
  }
  queued_ -= done;
  return queued_ == 0;
}

void NetdevPort::wait(std::int64_t ns) noexcept {
  pollfd p{socket_.get(), static_cast<short>(POLLIN | (queued_ > 0 ? POLLOUT : 0)), 0};
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  static_cast<void>(ppoll(&p, 1, ns < 0 ? nullptr : &limit, nullptr));
}

bool NetdevPort::link_up() noexcept {
  ifreq request{};
  name_.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ioctl(socket_.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

PortCounters NetdevPort::counters() noexcept {
  tpacket_stats stats{};
  socklen_t length = sizeof stats;
  // The kernel forgets what it has told.
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) {
    counters_.rx_missed += stats.tp_drops;
  }
  return counters_;
}

}  // namespace weft::nic
