// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/dpdk/dpdk_port.h"

#include <poll.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "nic/dpdk/eal.h"
#include "nic/host/roce_frames.h"
#include "switch/system/clock.h"
#include "switch/wire/hash.h"

namespace weft::nic {
namespace {

constexpr std::uint16_t kDescriptors = 1024;
/// In both rings, in the hands of the RNICs, waiting to be sent, and in the cache.
constexpr unsigned kBuffers = 2 * kDescriptors + 1024;
constexpr unsigned kCache = 128;
/// What net_af_packet asks for behind the headroom when its ring has frames of 8192 bytes.
constexpr std::uint32_t kLeastRoom = 8160;
/// Looks at the device between two looks at the kernel's tap.
constexpr unsigned kKernelInterval = 32;

constexpr std::int64_t kSpinNs = 50'000;
constexpr std::int64_t kShortNapNs = 50'000;
constexpr std::int64_t kShortNapsNs = 1'000'000;  ///< so long, the next frame may come soon
constexpr std::int64_t kLongNapNs = 500'000;
constexpr std::int64_t kReconnectNs = 1'000'000'000;

std::string dpdk_error(const std::string& what, int error) {
  return what + ": " + rte_strerror(error < 0 ? -error : error);
}

std::uint16_t find_device(const std::string& devargs) {
  std::uint16_t found = RTE_MAX_ETHPORTS, id = 0;
  rte_dev_iterator iterator{};
  // To its end: only then does the iterator free what it holds.
  RTE_ETH_FOREACH_MATCHING_DEV(id, devargs.c_str(), &iterator) {
    if (found == RTE_MAX_ETHPORTS) found = id;
  }
  return found;
}

}  // namespace

std::optional<std::string> memif_device(const std::string& socket, unsigned id) {
  if (socket.empty() || socket.find_first_of(",=") != std::string::npos) return std::nullopt;
  return "net_memif0,role=client,id=" + std::to_string(id) + ",socket=" + socket +
         ",socket-abstract=no,bsize=8192,rsize=10";
}

DpdkPort::DpdkPort() : id_(RTE_MAX_ETHPORTS) {}

DpdkPort::~DpdkPort() {
  free_received();
  for (std::size_t i = 0; i < queued_; ++i) rte_pktmbuf_free(tx_[i]);
  if (started_) rte_eth_dev_stop(id_);
  if (open_) rte_eth_dev_close(id_);
  rte_mempool_free(pool_);
}

std::string DpdkPort::open(const DpdkPortConfig& config) {
  config_ = config;
  name_ = config.devargs.substr(0, config.devargs.find(','));
  memif_client_ = name_.starts_with("net_memif") && (config.devargs.find("role=client") != std::string::npos ||
                                                     config.devargs.find("role=slave") != std::string::npos);
  id_ = find_device(config.devargs);
  if (id_ == RTE_MAX_ETHPORTS) {
    const int result = rte_dev_probe(config.devargs.c_str());
    if (result != 0) return dpdk_error("DPDK cannot open the device '" + config.devargs + "'", result);
    id_ = find_device(config.devargs);
  }
  if (id_ == RTE_MAX_ETHPORTS) return "DPDK has no driver for the device '" + config.devargs + "'";
  open_ = true;
  const std::uint32_t room = std::max<std::uint32_t>(config.mtu + 64, kLeastRoom) + RTE_PKTMBUF_HEADROOM;
  pool_ = rte_pktmbuf_pool_create(("rnic" + std::to_string(id_)).c_str(), kBuffers, kCache, 0,
                                  static_cast<std::uint16_t>(room), SOCKET_ID_ANY);
  if (pool_ == nullptr) return dpdk_error("no memory for packet buffers", rte_errno);
  if (auto problem = configure(); !problem.empty()) return problem;
  return {};
}

std::string DpdkPort::configure() {
  rte_eth_dev_info device{};
  int result = rte_eth_dev_info_get(id_, &device);
  if (result != 0) return dpdk_error("no device information", result);
  rte_eth_conf configuration{};
  // Virtual devices take frames of any size that fits a buffer, and say 1500 all the same.
  if (config_.mtu <= device.max_mtu && is_pci_device(config_.devargs)) configuration.rxmode.mtu = config_.mtu;
  result = rte_eth_dev_configure(id_, 1, 1, &configuration);
  if (result != 0) return dpdk_error("the device refuses its configuration", result);
  std::uint16_t rx = kDescriptors, tx = kDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
  result = rte_eth_rx_queue_setup(id_, 0, rx, 0, &device.default_rxconf, pool_);
  if (result != 0) return dpdk_error("cannot set up the receive queue", result);
  result = rte_eth_tx_queue_setup(id_, 0, tx, 0, &device.default_txconf);
  if (result != 0) return dpdk_error("cannot set up the transmit queue", result);
  result = rte_eth_dev_start(id_);
  started_ = result == 0;
  // A memif whose server is not there yet is tried again.
  if (!started_ && !memif_client_) return dpdk_error(name_ + " does not start", result);
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), info_.mac.bytes.begin());
  if (info_.mac.is_zero()) {
    const auto id = wire::mix64(static_cast<std::uint64_t>(getpid()) << 16 | id_, 0x9e3779b97f4a7c15);
    info_.mac = wire::MacAddress::from_u64((id & 0xfcffffffffff) | 0x020000000000);  // locally administered
  }
  info_.mtu = config_.mtu;
  return {};
}

std::string DpdkPort::add_kernel_tap(const std::string& name, std::span<const wire::IpPrefix> addresses) {
  if (auto problem = tap_.open(name, info_.mac, config_.mtu); !problem.empty()) return problem;
  for (const auto& address : addresses) {
    if (auto problem = tap_.add_address(address); !problem.empty()) return problem;
  }
  name_ = tap_.name();
  refresh_info();
  // The kernel sees none of these datagrams but fragments. Where rdma_rxe has the port, it takes them.
  static_cast<void>(claim_.take());
  kernel_frame_.resize(config_.mtu + 64);
  with_tap_ = true;
  return {};
}

void DpdkPort::free_received() noexcept {
  for (std::size_t i = 0; i < received_count_; ++i) rte_pktmbuf_free(rx_[i]);
  received_count_ = 0;
}

std::span<const std::span<const std::uint8_t>> DpdkPort::receive() noexcept {
  free_received();
  if (with_tap_ && ++polls_ >= kKernelInterval) take_from_kernel();
  bursting_.store(true);
  const std::uint16_t count = started_ ? rte_eth_rx_burst(id_, 0, rx_.data(), kBurst) : std::uint16_t{0};
  bursting_.store(false, std::memory_order_release);
  received_count_ = count;
  if (count > 0) idle_since_ = 0;
  std::size_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    rte_mbuf* m = rx_[i];
    if (m->nb_segs > 1 && rte_pktmbuf_linearize(m) != 0) {
      ++counters_.rx_truncated;
      continue;
    }
    const std::span<const std::uint8_t> frame(rte_pktmbuf_mtod(m, const std::uint8_t*), m->data_len);
    if (is_for_rnics(frame)) {
      ++counters_.rx_frames;
      received_[kept++] = frame;
    } else if (with_tap_) {
      ++to_kernel_;
      tap_.give(frame);
    }
  }
  return {received_.data(), kept};
}

std::uint8_t* DpdkPort::append(std::size_t bytes) noexcept {
  rte_mbuf* m = rte_pktmbuf_alloc(pool_);
  char* data = m == nullptr || bytes > rte_pktmbuf_tailroom(m)
                   ? nullptr
                   : rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes));
  if (data == nullptr) {
    rte_pktmbuf_free(m);
    ++counters_.tx_errors;
    return nullptr;
  }
  tx_[queued_++] = m;
  return reinterpret_cast<std::uint8_t*>(data);
}

void DpdkPort::send(const TxFrame& frame) noexcept {
  const std::size_t bytes = frame.bytes();
  std::uint8_t* at = append(bytes);
  if (at == nullptr) return;
  copy_frame(frame, {at, bytes});
  if (queued_ == kBurst) static_cast<void>(flush());
}

/// What the kernel sends, as far as there is room for it.
void DpdkPort::take_from_kernel() noexcept {
  polls_ = 0;
  while (queued_ < kBurst) {
    const std::size_t bytes = tap_.take(kernel_frame_);
    if (bytes == 0) return;
    ++from_kernel_;
    if (std::uint8_t* at = append(bytes)) std::memcpy(at, kernel_frame_.data(), bytes);
  }
}

bool DpdkPort::flush() noexcept {
  if (queued_ == 0) return true;
  bursting_.store(true);
  const std::size_t sent = started_ ? rte_eth_tx_burst(id_, 0, tx_.data(), static_cast<std::uint16_t>(queued_)) : 0;
  bursting_.store(false, std::memory_order_release);
  counters_.tx_frames += sent;
  if (sent < queued_) ++counters_.tx_busy;
  std::copy(tx_.begin() + static_cast<std::ptrdiff_t>(sent), tx_.begin() + static_cast<std::ptrdiff_t>(queued_),
            tx_.begin());
  queued_ -= sent;
  return queued_ == 0;
}

/// A memif that has lost its server does not look for it again by itself. It is given time to shake hands: the driver
/// does so on another thread, and does not bear being stopped meanwhile.
void DpdkPort::reconnect(std::int64_t now) noexcept {
  if (link_up()) {
    down_since_ = 0;
    return;
  }
  if (down_since_ == 0) down_since_ = now;
  if (now - down_since_ < kReconnectNs) return;
  down_since_ = now;
  if (started_) rte_eth_dev_stop(id_);
  started_ = rte_eth_dev_start(id_) == 0;
}

void DpdkPort::wait(std::int64_t ns) noexcept {
  const auto now = static_cast<std::int64_t>(monotonic_now());
  if (memif_client_) reconnect(now);
  if (idle_since_ == 0) idle_since_ = now;
  const std::int64_t idle = now - idle_since_;
  if (idle < kSpinNs && queued_ == 0) return rte_pause();
  std::int64_t nap = idle < kShortNapsNs ? kShortNapNs : kLongNapNs;
  if (ns >= 0) nap = std::min(nap, ns);
  const timespec limit{0, nap};
  if (with_tap_) {
    pollfd p{tap_.descriptor(), POLLIN, 0};
    if (ppoll(&p, 1, &limit, nullptr) > 0) {
      take_from_kernel();
      static_cast<void>(flush());
    }
  } else {
    nanosleep(&limit, nullptr);
  }
}

bool DpdkPort::link_up() noexcept {
  rte_eth_link link{};
  return started_ && rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

void DpdkPort::await_burst() const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (bursting_.load(std::memory_order_acquire)) rte_pause();
}

PortCounters DpdkPort::counters() noexcept {
  rte_eth_stats stats{};
  PortCounters all = counters_;
  if (rte_eth_stats_get(id_, &stats) == 0) {
    all.rx_missed = stats.imissed + stats.rx_nombuf;
    all.tx_errors += stats.oerrors;
  }
  return all;
}

}  // namespace weft::nic
