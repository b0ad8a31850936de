// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/memif_port.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "nic/host/roce_frames.h"
#include "switch/base/unix_address.h"
#include "switch/system/clock.h"
#include "switch/wire/hash.h"

namespace weft::nic {
namespace {

constexpr std::uint32_t kCookie = 0x3E31F20;
constexpr std::uint16_t kVersion = 0x200, kRingOfClient = 1, kNoInterrupt = 1, kMore = 1;
constexpr unsigned kLog2Slots = 9;
constexpr std::uint16_t kSlots = 1u << kLog2Slots, kMask = kSlots - 1;
/// Directions: from this client to the server, and back.
constexpr std::size_t kToServer = 0, kToClient = 1;

constexpr std::int64_t kShakeNs = 2'000'000'000, kLookNs = 1'000'000'000;
/// A server that comes back has so long: others of the caller wait meanwhile.
constexpr std::int64_t kShakeAgainNs = 50'000'000;
/// Calls of receive() between two looks at the kernel's tap and the server's socket.
constexpr unsigned kSeldom = 32;

/// Types of messages, which have 128 bytes: the type, and behind it numbers without gaps in the machine's byte order.
enum Message : std::uint16_t {
  kAck = 1,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};
constexpr std::size_t kMessageBytes = 128, kNameBytes = 32, kSecretBytes = 24;

class Text {
 public:
  explicit Text(Message type) noexcept { number(static_cast<std::uint16_t>(type)); }
  template <class T>
  Text& number(T value) noexcept {
    std::memcpy(bytes_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
    return *this;
  }
  Text& name(const std::string& text, std::size_t room) noexcept {
    text.copy(reinterpret_cast<char*>(bytes_.data() + at_), room - 1);
    at_ += room;
    return *this;
  }
  [[nodiscard]] std::array<std::uint8_t, kMessageBytes>& bytes() noexcept { return bytes_; }

 private:
  std::array<std::uint8_t, kMessageBytes> bytes_{};
  std::size_t at_ = 0;
};

}  // namespace

/// As both sides have it in shared memory.
struct MemifPort::Ring {
  struct Slot {
    std::uint16_t flags;
    std::uint16_t region;
    std::uint32_t length;
    std::uint32_t offset;
    std::uint32_t metadata;
  };
  std::uint32_t cookie;
  std::uint16_t flags;
  std::atomic<std::uint16_t> head;
  std::uint8_t gap[56];
  std::atomic<std::uint16_t> tail;
  std::uint8_t gap2[62];
  Slot slots[kSlots];
};

/// What is said on the socket until the rings are in use.
class MemifPort::Handshake {
 public:
  Handshake(int socket, std::int64_t limit_ns) noexcept
      : socket_(socket), end_(static_cast<std::int64_t>(monotonic_now()) + limit_ns) {}

  /// Sends a message, with a descriptor if there is one, and expects an answer of this type.
  [[nodiscard]] std::string ask(Text text, int descriptor, Message answer) {
    if (auto problem = say(text, descriptor); !problem.empty()) return problem;
    return hear(answer);
  }
  [[nodiscard]] std::string hear(Message expected) {
    std::array<std::uint8_t, kMessageBytes> message{};
    for (;;) {
      const ssize_t n = recv(socket_, message.data(), message.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        const std::int64_t left = end_ - static_cast<std::int64_t>(monotonic_now());
        if (left <= 0) return "the server does not answer";
        pollfd wait{socket_, POLLIN, 0};
        static_cast<void>(poll(&wait, 1, static_cast<int>(left / 1'000'000) + 1));
        continue;
      }
      if (n < static_cast<ssize_t>(sizeof(std::uint16_t))) return "the server closed the connection";
      std::uint16_t type = 0;
      std::memcpy(&type, message.data(), sizeof type);
      if (type == expected) return "";
      if (type != kDisconnect) return "the server speaks another protocol";
      constexpr std::size_t kReason = 6;  // behind the type and a number
      const auto* reason = reinterpret_cast<const char*>(message.data() + kReason);
      return "the server refuses: " + std::string(reason, strnlen(reason, kMessageBytes - kReason));
    }
  }

 private:
  [[nodiscard]] std::string say(Text& text, int descriptor) {
    iovec data{text.bytes().data(), kMessageBytes};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    return sendmsg(socket_, &message, MSG_NOSIGNAL) == kMessageBytes ? "" : error_text("cannot speak with the server");
  }

  int socket_;
  std::int64_t end_;
};

MemifPort::MemifPort() = default;
MemifPort::~MemifPort() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

MemifPort::Ring& MemifPort::ring(std::size_t which) const noexcept {
  return *reinterpret_cast<Ring*>(memory_ + which * sizeof(Ring));
}

std::uint8_t* MemifPort::buffer(std::size_t which, std::uint16_t slot) const noexcept {
  return memory_ + 2 * sizeof(Ring) + (which * kSlots + (slot & kMask)) * buffer_bytes_;
}

std::string MemifPort::open(const MemifPortConfig& config) {
  config_ = config;
  const auto id = wire::mix64(static_cast<std::uint64_t>(getpid()) << 32 | config.id, monotonic_now());
  info_.mac = wire::MacAddress::from_u64((id & 0xfcffffffffff) | 0x020000000000);  // locally administered
  if (auto problem = make_memory(); !problem.empty()) return problem;
  if (auto problem = connect(kShakeNs); !problem.empty()) return config.socket + ": " + problem;
  if (auto problem = tap_.open(config.interface, info_.mac, config.mtu); !problem.empty()) return problem;
  if (auto problem = tap_.add_address(config.address); !problem.empty()) return problem;
  name_ = tap_.name();
  refresh_info();
  // The kernel sees none of these datagrams but fragments. Where rdma_rxe has the port, it takes them.
  static_cast<void>(claim_.take());
  kernel_frame_.resize(config.mtu + 64);
  copies_.resize(kBurst * buffer_bytes_);
  return make_descriptors();
}

std::string MemifPort::make_memory() {
  constexpr std::size_t kLine = 64;
  buffer_bytes_ = (std::size_t{config_.mtu} + 18 + kLine - 1) / kLine * kLine;
  bytes_ = 2 * sizeof(Ring) + 2 * kSlots * buffer_bytes_;
  memory_fd_ = Descriptor(memfd_create("weft-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory_fd_.valid() || ftruncate(memory_fd_.get(), static_cast<off_t>(bytes_)) != 0 ||
      fcntl(memory_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return error_text("memory for the rings");
  }
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_.get(), 0);
  if (at == MAP_FAILED) return error_text("memory for the rings");
  memory_ = static_cast<std::uint8_t*>(at);
  for (Descriptor& event : events_) {
    event = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid()) return error_text("eventfd");
  }
  return "";
}

/// All slots to the server are free, and all from it are the server's to fill.
void MemifPort::reset_rings() noexcept {
  for (const std::size_t which : {kToServer, kToClient}) {
    Ring& r = ring(which);
    r.cookie = kCookie;
    // Nobody reads what the server would say of a ring that it takes from.
    r.flags = 0;
    r.tail.store(0);
    for (std::uint16_t s = 0; s < kSlots; ++s) {
      const auto offset = static_cast<std::uint32_t>(buffer(which, s) - memory_);
      r.slots[s] = {0, 0, static_cast<std::uint32_t>(buffer_bytes_), offset, 0};
    }
    r.head.store(which == kToClient ? kSlots : 0);
  }
  tx_head_ = rx_tail_ = 0;
  in_parts_ = false;
}

std::string MemifPort::connect(std::int64_t limit_ns) {
  sockaddr_un to;
  if (!write_unix_address(config_.socket, to)) return "the path is too long";
  socket_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid() || ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    return error_text("no server of memif");
  }
  reset_rings();
  Handshake shake(socket_.get(), limit_ns);
  if (auto problem = shake.hear(kHello); !problem.empty()) return problem;
  Text init(kInit);
  init.number(kVersion).number(config_.id).number(std::uint8_t{0}).name("", kSecretBytes).name("weft", kNameBytes);
  if (auto problem = shake.ask(init, -1, kAck); !problem.empty()) return problem;
  Text region(kAddRegion);
  region.number(std::uint16_t{0}).number(std::uint64_t{bytes_});
  if (auto problem = shake.ask(region, memory_fd_.get(), kAck); !problem.empty()) return problem;
  for (const std::size_t which : {kToServer, kToClient}) {
    Text one(kAddRing);
    one.number(which == kToServer ? kRingOfClient : std::uint16_t{0}).number(std::uint16_t{0}).number(std::uint16_t{0});
    one.number(static_cast<std::uint32_t>(which * sizeof(Ring))).number(std::uint8_t{kLog2Slots});
    one.number(std::uint16_t{0});
    if (auto problem = shake.ask(one, events_[which].get(), kAck); !problem.empty()) return problem;
  }
  Text last(kConnect);
  last.name("weft", kNameBytes);
  if (auto problem = shake.ask(last, -1, kConnected); !problem.empty()) return problem;
  // A server may have begun with empty rings, too: all slots are its own to fill, whatever it has written.
  ring(kToClient).head.store(kSlots, std::memory_order_release);
  connected_ = true;
  return "";
}

std::string MemifPort::make_descriptors() {
  poll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_.valid()) return error_text("epoll");
  for (const int fd : {events_[kToClient].get(), tap_.descriptor()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return error_text("epoll");
  }
  return "";
}

void MemifPort::lose_server() noexcept {
  connected_ = false;
  socket_ = Descriptor();
  next_look_ = static_cast<std::int64_t>(monotonic_now()) + kLookNs;
}

/// A server that has closed its socket is gone, and another one may come.
void MemifPort::look_at_server() noexcept {
  const auto now = static_cast<std::int64_t>(monotonic_now());
  if (connected_) {
    char byte = 0;
    const ssize_t n = recv(socket_.get(), &byte, sizeof byte, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    lose_server();  // the end, or a message, which can only be goodbye
  }
  if (now < next_look_) return;
  next_look_ = now + kLookNs;
  try {
    static_cast<void>(connect(kShakeAgainNs));
  } catch (const std::bad_alloc&) {
    // The next look has more luck.
  }
}

/// Slots up to here are the server's again.
void MemifPort::give_back(std::uint16_t count) noexcept {
  rx_tail_ = static_cast<std::uint16_t>(rx_tail_ + count);
  Ring& r = ring(kToClient);
  const auto head = static_cast<std::uint16_t>(rx_tail_ + kSlots);
  for (auto s = static_cast<std::uint16_t>(head - count); s != head; ++s) {
    r.slots[s & kMask].length = static_cast<std::uint32_t>(buffer_bytes_);
    r.slots[s & kMask].flags = 0;
  }
  r.head.store(head, std::memory_order_release);
}

/// A frame of the server, as it is now: the server might change it while it is read. Empty: it is none.
std::span<const std::uint8_t> MemifPort::copy_of(std::uint16_t at, std::size_t number) noexcept {
  const Ring::Slot& slot = ring(kToClient).slots[at & kMask];
  // Read once: what is compared is what is used, whatever the server writes meanwhile. Where the frame lies, we know.
  const std::uint16_t flags = __atomic_load_n(&slot.flags, __ATOMIC_RELAXED);
  const std::uint32_t length = __atomic_load_n(&slot.length, __ATOMIC_RELAXED);
  // One that does not fit one buffer comes in parts, which nobody here puts together.
  const bool part = std::exchange(in_parts_, (flags & kMore) != 0) || in_parts_;
  if (part || length > buffer_bytes_) {
    ++counters_.rx_truncated;
    return {};
  }
  std::uint8_t* const copy = copies_.data() + number * buffer_bytes_;
  std::memcpy(copy, buffer(kToClient, at), length);
  return {copy, length};
}

std::span<const std::span<const std::uint8_t>> MemifPort::receive() noexcept {
  if (++polls_ >= kSeldom) {
    polls_ = 0;
    look_at_server();
  }
  if (!connected_) return {};
  std::uint64_t ignored = 0;
  static_cast<void>(read(events_[kToClient].get(), &ignored, sizeof ignored) < 0);
  const auto there = static_cast<std::uint16_t>(ring(kToClient).tail.load(std::memory_order_acquire) - rx_tail_);
  if (there > kSlots) {
    lose_server();  // it says more than there can be: nothing that it says is believed
    return {};
  }
  const auto taken = std::min<std::uint16_t>(there, kBurst);
  std::size_t kept = 0;
  for (std::uint16_t i = 0; i < taken; ++i) {
    const auto frame = copy_of(static_cast<std::uint16_t>(rx_tail_ + i), kept);
    if (frame.empty()) continue;
    if (is_for_rnics(frame)) {
      ++counters_.rx_frames;
      received_[kept++] = frame;
    } else {
      tap_.give(frame);
    }
  }
  give_back(taken);
  const std::uint64_t one = 1;
  // What stays is not forgotten when nobody sends any more.
  if (taken < there) static_cast<void>(write(events_[kToClient].get(), &one, sizeof one) < 0);
  if (taken == 0) take_from_kernel();
  return {received_.data(), kept};
}

bool MemifPort::ready() noexcept {
  return !connected_ || room() != nullptr;
}

std::uint8_t* MemifPort::room() noexcept {
  const auto used = static_cast<std::uint16_t>(tx_head_ - ring(kToServer).tail.load(std::memory_order_acquire));
  return connected_ && used < kSlots ? buffer(kToServer, tx_head_) : nullptr;
}

void MemifPort::append(std::size_t bytes) noexcept {
  Ring::Slot& slot = ring(kToServer).slots[tx_head_ & kMask];
  slot.length = static_cast<std::uint32_t>(bytes);
  slot.flags = 0;
  ++tx_head_;
}

void MemifPort::send(const TxFrame& frame) noexcept {
  std::uint8_t* at = room();
  const std::size_t bytes = at == nullptr ? 0 : copy_frame(frame, {at, buffer_bytes_});
  if (bytes == 0) {
    ++counters_.tx_errors;  // too long, or nobody is there to take it
    return;
  }
  append(bytes);
  ++counters_.tx_frames;
}

/// What the kernel sends, as far as there is room for it.
void MemifPort::take_from_kernel() noexcept {
  while (room() != nullptr) {
    const std::size_t bytes = tap_.take(kernel_frame_);
    if (bytes == 0) return;
    std::uint8_t* at = room();
    if (bytes > buffer_bytes_) continue;
    std::memcpy(at, kernel_frame_.data(), bytes);
    append(bytes);
  }
}

bool MemifPort::flush() noexcept {
  if (!connected_) return true;
  Ring& r = ring(kToServer);
  if (r.head.load(std::memory_order_relaxed) == tx_head_) return true;
  r.head.store(tx_head_, std::memory_order_release);
  const std::uint64_t one = 1;
  if ((r.flags & kNoInterrupt) == 0) static_cast<void>(write(events_[kToServer].get(), &one, sizeof one) < 0);
  return true;
}

void MemifPort::wait(std::int64_t ns) noexcept {
  pollfd p{poll_.get(), POLLIN, 0};
  // A server that comes or goes makes nothing readable.
  const std::int64_t most = ns < 0 ? kLookNs : std::min(ns, kLookNs);
  const timespec limit{most / 1'000'000'000, most % 1'000'000'000};
  if (ppoll(&p, 1, &limit, nullptr) == 0) polls_ = kSeldom;
  take_from_kernel();
  static_cast<void>(flush());
}

}  // namespace weft::nic
