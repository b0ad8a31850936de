// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/eth_port.h"

#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "switch/pipeline/dpdk_compat.h"
#include "switch/ports/rss.h"

namespace weft::ports {
namespace {

std::string dpdk_error(const std::string& what, int error) {
  return what + ": " + rte_strerror(error < 0 ? -error : error);
}

// The first device that the arguments name and that no other port has opened; RTE_MAX_ETHPORTS if none.
std::uint16_t find_device(const std::string& devargs) {
  std::uint16_t found = RTE_MAX_ETHPORTS;
  std::uint16_t id = 0;
  rte_dev_iterator iterator{};
  // The loop runs to its end even when the device is found: only then does the iterator free what it holds.
  RTE_ETH_FOREACH_MATCHING_DEV(id, devargs.c_str(), &iterator) {
    rte_eth_dev_owner owner{};
    if (found == RTE_MAX_ETHPORTS && rte_eth_dev_owner_get(id, &owner) == 0 && owner.id == RTE_ETH_DEV_NO_OWNER) {
      found = id;
    }
  }
  return found;
}

// Marks a device as opened by a port of this process.
void claim_device(std::uint16_t id, const std::string& port_name) {
  rte_eth_dev_owner owner{};
  rte_eth_dev_owner_new(&owner.id);
  port_name.copy(owner.name, sizeof owner.name - 1);
  rte_eth_dev_owner_set(id, &owner);
}

std::string why_one_queue(unsigned wanted, unsigned queues) {
  return queues < wanted ? "the device has " + std::to_string(queues)
                         : "the device cannot spread packets by their addresses";
}

// What has one receive queue by its kind (a packet socket, memif) is no surprise; of a card it is one.
void say_that_one_queue_receives(const std::string& port, bool card, unsigned workers, const std::string& why) {
  spdlog::log(
      card ? spdlog::level::warn : spdlog::level::info,
      "{}: {} receive queues are wanted, one for each worker, and 1 is used, because {}; the worker of the port "
      "receives everything and hands over what others own",
      port, workers, why);
}

// Packets that no device takes.
pipeline::TxResult refuse(rte_mbuf** packets, std::uint16_t count) noexcept {
  pipeline::TxResult result{.taken = count, .rejected = count};
  for (std::uint16_t i = 0; i < count; ++i) {
    result.rejected_bytes += packets[i]->pkt_len;
    rte_pktmbuf_free(packets[i]);
  }
  return result;
}

}  // namespace

std::unique_ptr<EthPort> EthPort::open(const pipeline::PortInfo& info, std::uint32_t mtu_bytes, EthDevice device,
                                       const PortEnvironment& environment, std::string& error) {
  std::unique_ptr<EthPort> port(new EthPort(info.name, std::move(device), environment));
  port->mtu_bytes_ = mtu_bytes;
  port->wanted_mtu_ = info.mtu_bytes;
  port->mac_ = info.mac;
  error = port->open_device();
  // The switch that owns these settings may be destroyed before the port; the port does not use them after it was
  // opened.
  port->environment_.qos = nullptr;
  if (!error.empty()) return nullptr;
  if (port->mac_.is_zero()) port->mac_ = derived_mac(info, environment.seed);
  return port;
}

std::string EthPort::open_device() {
  std::uint16_t id = find_device(device_.devargs);
  if (id == kClosed) {
    const int result = rte_dev_probe(device_.devargs.c_str());
    if (result != 0) return dpdk_error("DPDK cannot open the device '" + device_.devargs + "'", result);
    id = find_device(device_.devargs);
  }
  if (id == kClosed) return "DPDK has no driver for the device '" + device_.devargs + "'";
  claim_device(id, name_);
  std::string error = configure(id);
  if (error.empty()) {
    id_.store(id, std::memory_order_release);
  } else {
    give_up(id);
  }
  return error;
}

void EthPort::close_device() {
  const std::uint16_t id = id_.load(std::memory_order_relaxed);
  if (id == kClosed) return;
  counted_before_ = counted_by_device();
  id_.store(kClosed, std::memory_order_relaxed);
  if (environment_.await_bursts) environment_.await_bursts();
  give_up(id);
}

void EthPort::give_up(std::uint16_t id) {
  rte_eth_dev_info device_info{};
  const bool known = rte_eth_dev_info_get(id, &device_info) == 0;
  rte_eth_dev_stop(id);
  rte_eth_dev_close(id);
  rings_.reset();
  // A virtual device is made anew when it is opened again. A card stays on its bus: other ports may have functions of
  // it.
  if (device_.interface && known) rte_dev_remove(device_info.device);
}

std::string EthPort::configure(std::uint16_t id) {
  rte_eth_dev_info device_info{};
  int result = rte_eth_dev_info_get(id, &device_info);
  if (result != 0) return dpdk_error("no device information", result);
  // Others may read it when a device is opened again.
  if (driver_.empty()) driver_ = device_.name.empty() ? device_info.driver_name : device_.name;
  multi_segment_ = (device_info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;

  rte_eth_conf configuration{};
  if (multi_segment_) configuration.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if ((device_info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0) {
    configuration.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  }
  if (device_.set_device_mtu) {
    if (mtu_bytes_ > device_info.max_mtu) {
      return "an MTU of " + std::to_string(mtu_bytes_) + " is more than the device's " +
             std::to_string(device_info.max_mtu);
    }
    configuration.rxmode.mtu = mtu_bytes_;
  }
  // RSS is only the fast path of owner(packet): a packet that it puts on the wrong worker is handed over. The workers
  // know of addresses alone (OwnerTable::spread_as_cards()).
  const std::uint64_t rss = device_info.flow_type_rss_offloads & (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6);
  const std::uint16_t wanted = environment_.per_port.value_or(environment_.workers);
  if (wanted > 1 && !device_.replay && device_info.max_rx_queues >= wanted && rss != 0) {
    queues_ = wanted;
    configuration.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    configuration.rx_adv_conf.rss_conf.rss_hf = rss;
    if (device_info.hash_key_size != 0) {
      configuration.rx_adv_conf.rss_conf.rss_key = rss_key();
      configuration.rx_adv_conf.rss_conf.rss_key_len = device_info.hash_key_size;
    }
  } else if (wanted > 1 && !device_.replay && !device_.finite_packets) {
    const std::string why = why_one_queue(wanted, device_info.max_rx_queues);
    if (environment_.per_port && device_.tx_per_worker) {
      return "workers.per_port asks for " + std::to_string(wanted) + " receive queues, but " + why;
    }
    say_that_one_queue_receives(name_, device_.tx_per_worker, wanted, why);
  }
  if (auto error = plan_pfc(id, device_info); !error.empty()) return error;
  if (!by_class_ && device_.tx_per_worker && device_info.max_tx_queues >= environment_.workers) {
    tx_queues_ = environment_.workers;
    for (std::uint16_t w = 0; tx_queues_ > 1 && w < tx_queues_; ++w) senders_.emplace_back(*this, w);
  }
  result = rte_eth_dev_configure(id, queues_, tx_queues_, &configuration);
  if (result != 0) return dpdk_error("the device refuses its configuration", result);

  if (mac_.is_zero() && device_.own_mac) {
    rte_ether_addr address{};
    rte_eth_macaddr_get(id, &address);
    std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), mac_.bytes.begin());
  }
  return start(id, device_info);
}

std::string EthPort::start(std::uint16_t id, const rte_eth_dev_info& device_info) {
  const int socket = rte_eth_dev_socket_id(id);
  const unsigned on = socket < 0 ? 0 : static_cast<unsigned>(socket);
  std::uint16_t rx = device_.rx_descriptors;
  std::uint16_t tx = device_.tx_descriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx, &tx);
  rte_eth_rxconf rx_configuration = device_info.default_rxconf;
  for (std::uint16_t queue = 0; queue < queues_; ++queue) {
    rte_mempool* pool = queue < environment_.queue_pools.size() ? environment_.queue_pools[queue] : environment_.pool;
    const int result = rte_eth_rx_queue_setup(id, queue, rx, on, &rx_configuration, pool);
    if (result != 0) return dpdk_error("cannot set up receive queue " + std::to_string(queue), result);
  }
  rte_eth_txconf tx_configuration = device_info.default_txconf;
  for (std::uint16_t queue = 0; queue < tx_queues_; ++queue) {
    const int result = rte_eth_tx_queue_setup(id, queue, tx, on, &tx_configuration);
    if (result != 0) return dpdk_error("cannot set up transmit queue " + std::to_string(queue), result);
  }
  if (by_class()) {
    if (auto error = hand_over(*device_.pfc, pfc_classes_); !error.empty()) return error;
  }
  const int result = rte_eth_dev_start(id);
  if (result != 0) return dpdk_error("cannot start the device", result);
  if (queues_ > 1) {
    const std::string why =
        spread_by_table(id, device_info.reta_size, {environment_.owner, environment_.workers, queues_});
    brings_to_owners_ = why.empty();
    // A device that is no card spreads as it likes.
    if (!why.empty() && device_.tx_per_worker) {
      spdlog::warn("{}: workers hand over much of what the device brings, because {}", name_, why);
    }
  }
  if (device_.interface) {
    forget_other_interfaces(id);
    rings_ = std::make_unique<PacketSockets>(device_.interface->name());
    index_ = device_.interface->index();
    // Through the socket and not the interface's flags: then it ends with the socket, however that ends.
    return rings_->receive_everything(index_);
  }
  // A switch receives frames for every address. Devices without filters say that they cannot.
  rte_eth_promiscuous_enable(id);
  return "";
}

// A packet socket hears every interface until it is bound, and the af_packet driver makes the ring before it binds.
// What the ring holds by now came first; of this interface's own packets some go with it, as if the port had opened
// later.
void EthPort::forget_other_interfaces(std::uint16_t id) noexcept {
  std::array<rte_mbuf*, 32> packets{};
  unsigned left = pipeline::kAfPacketRingFrames;
  while (left > 0) {
    const std::uint16_t most = static_cast<std::uint16_t>(std::min<unsigned>(left, packets.size()));
    const std::uint16_t count = rte_eth_rx_burst(id, 0, packets.data(), most);
    if (count == 0) break;
    rte_pktmbuf_free_bulk(packets.data(), count);
    left -= count;
  }
  rte_eth_stats_reset(id);
}

std::string EthPort::plan_pfc(std::uint16_t id, const rte_eth_dev_info& device_info) {
  if (device_.pfc_hardware == PfcHardware::off || environment_.qos == nullptr || environment_.qos->pfc_enable == 0) {
    return "";
  }
  if (!device_.pfc) device_.pfc = make_pfc_device(id);
  pfc_classes_ = {environment_.qos->pfc_enable, environment_.qos->map.tc_to_queue};
  const std::string error = cannot_stop(*device_.pfc, pfc_classes_, device_info.max_tx_queues);
  if (error.empty()) {
    tx_queues_ = kClassTxQueues;
    by_class_ = true;
    return "";
  }
  return device_.pfc_hardware == PfcHardware::on ? "pfc_hardware: the device cannot do PFC: " + error : "";
}

EthPort::~EthPort() {
  environment_.await_bursts = nullptr;  // no worker has the port any more
  close_device();
  if (device_.restore) device_.restore();
}

std::uint16_t EthPort::receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets, std::uint16_t max) noexcept {
  const std::uint16_t id = id_.load(std::memory_order_acquire);
  if (is_shut() || id == kClosed) [[unlikely]]
    return 0;
  if (device_.replay) return device_.replay->receive(now, packets, max);
  const std::uint16_t count = rte_eth_rx_burst(id, queue, packets, max);
  if (device_.finite_packets) seen_.store(seen_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  return count;
}

rte_mbuf* EthPort::linearised(rte_mbuf* m) noexcept {
  rte_mbuf* flat = rte_pktmbuf_alloc(environment_.pool);
  if (flat == nullptr) return nullptr;
  char* data = m->pkt_len > rte_pktmbuf_tailroom(flat)
                   ? nullptr
                   : rte_pktmbuf_append(flat, static_cast<std::uint16_t>(m->pkt_len));
  if (data == nullptr) {
    rte_pktmbuf_free(flat);
    return nullptr;
  }
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) {
    std::copy_n(rte_pktmbuf_mtod(segment, const char*), segment->data_len, data);
    data += segment->data_len;
  }
  rte_pktmbuf_free(m);
  return flat;
}

pipeline::TxResult EthPort::transmit(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (device_.writer) return device_.writer->write(packets, count);
  return by_class() ? transmit_by_class(packets, count) : transmit_on(0, packets, count);
}

// Each queue is offered its packets, and what it leaves goes to the end.
pipeline::TxResult EthPort::transmit_by_class(rte_mbuf** packets, std::uint16_t count) noexcept {
  rte_mbuf* left[pipeline::Batch::kCapacity];
  bool keep[pipeline::Batch::kCapacity]{};
  pipeline::TxResult result;
  for (std::uint16_t queue = 0; queue < tx_queues_; ++queue) {
    rte_mbuf* offered[pipeline::Batch::kCapacity];
    std::uint16_t place[pipeline::Batch::kCapacity];
    std::uint16_t size = 0;
    for (std::uint16_t i = 0; i < count; ++i) {
      if ((pipeline::meta(packets[i]).queue_class & 7) != queue) continue;
      place[size] = i;
      offered[size++] = packets[i];
    }
    if (size == 0) continue;
    const pipeline::TxResult one = transmit_on(queue, offered, size);
    result.taken = static_cast<std::uint16_t>(result.taken + one.taken);
    result.rejected = static_cast<std::uint16_t>(result.rejected + one.rejected);
    result.rejected_bytes += one.rejected_bytes;
    for (std::uint16_t i = one.taken; i < size; ++i) {
      keep[place[i]] = true;
      left[place[i]] = offered[i];
    }
  }
  std::uint16_t at = result.taken;
  for (std::uint16_t i = 0; i < count; ++i) {
    if (keep[i]) packets[at++] = left[i];
  }
  return result;
}

pipeline::TxResult EthPort::transmit_on(std::uint16_t queue, rte_mbuf** packets, std::uint16_t count) noexcept {
  const std::uint16_t id = id_.load(std::memory_order_acquire);
  if (id == kClosed) [[unlikely]]
    return refuse(packets, count);
  if (multi_segment_ || device_.takes_chains) return {.taken = rte_eth_tx_burst(id, queue, packets, count)};
  pipeline::TxResult result;
  while (result.taken < count) {
    // As many packets as lie in one buffer, or could be moved into one.
    std::uint16_t ready = result.taken;
    while (ready < count && make_flat(packets[ready])) ++ready;
    const auto offered = static_cast<std::uint16_t>(ready - result.taken);
    const std::uint16_t sent =
        offered == 0 ? std::uint16_t{0} : rte_eth_tx_burst(id, queue, packets + result.taken, offered);
    result.taken = static_cast<std::uint16_t>(result.taken + sent);
    if (sent < offered || ready == count) break;
    result.rejected_bytes += packets[ready]->pkt_len;
    rte_pktmbuf_free(packets[ready]);
    ++result.rejected;
    ++result.taken;
  }
  return result;
}

bool EthPort::make_flat(rte_mbuf*& m) noexcept {
  if (m->nb_segs == 1) [[likely]]
    return true;
  rte_mbuf* flat = linearised(m);
  if (flat == nullptr) return false;
  m = flat;
  return true;
}

bool EthPort::exhausted() const noexcept {
  if (device_.replay) return device_.replay->ended();
  if (!device_.finite_packets) return false;
  const DeviceStats stats = device_stats();
  const std::uint64_t lost = stats.rx_missed + stats.rx_errors + stats.rx_no_mbuf;
  return seen_.load(std::memory_order_acquire) + lost >= *device_.finite_packets;
}

bool EthPort::link_up() const noexcept {
  if (device_.interface) return attached_.load(std::memory_order_relaxed) && device_.interface->running();
  const std::uint16_t id = id_.load(std::memory_order_relaxed);
  rte_eth_link link{};
  return id != kClosed && (rte_eth_link_get_nowait(id, &link) != 0 || link.link_status == RTE_ETH_LINK_UP);
}

std::uint64_t EthPort::speed_mbps() const noexcept {
  if (!device_.real_speed || id_ == kClosed) return 0;
  rte_eth_link link{};
  const bool known = rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP &&
                     link.link_speed != RTE_ETH_SPEED_NUM_NONE && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  if (known) return link.link_speed;
  rte_eth_dev_info device_info{};
  return rte_eth_dev_info_get(id_, &device_info) == 0 ? fastest_mbps(device_info.speed_capa) : 0;
}

std::string EthPort::set_link(bool up) {
  if (device_.interface) return device_.interface->set_up(up);
  if (id_ == kClosed) return "its device was taken out";
  const int result = up ? rte_eth_dev_set_link_up(id_) : rte_eth_dev_set_link_down(id_);
  if (result == -ENOTSUP) return "its driver (" + driver_ + ") cannot take the link down";
  return result == 0 ? "" : dpdk_error("the device refuses", result);
}

std::vector<PortNews> EthPort::supervise() {
  std::vector<PortNews> news;
  if (device_.writer && !said_that_writing_failed_ && !device_.writer->failure().empty()) {
    said_that_writing_failed_ = true;
    news.push_back({true, device_.writer->failure() + "; packets to this port are dropped from now on (tx_failed)"});
  }
  if (device_.replay && !said_that_replay_ended_ && device_.replay->ended()) {
    said_that_replay_ended_ = true;
    news.push_back({false, "the capture has been received"});
  }
  const std::lock_guard lock(control_mutex_);
  if (!device_.interface) {
    note_removed(news);
    return news;
  }
  const unsigned now = device_.interface->index();
  if (attached_ && now == index_ && rings_->bound_to(index_)) {
    rings_->recover();
    follow_mtu(news);
    return news;
  }
  if (attached_) note_detached(news);
  if (now == 0) return news;
  if (const std::string error = attach(); !error.empty()) {
    if (error != not_attached_because_) {
      news.push_back({true, "there is an interface " + device_.interface->name() + " again, but: " + error});
    }
    not_attached_because_ = error;
    return news;
  }
  not_attached_because_.clear();
  news.push_back({false, "the interface " + device_.interface->name() + " is back, and the port's again"});
  return news;
}

std::string EthPort::finish() {
  if (!device_.writer) return "";
  device_.writer->flush();
  const std::string error = device_.writer->failure();
  if (error.empty()) return "";
  return error + "; " + std::to_string(device_.writer->lost()) +
         " packets that were sent are not in it (tx_errors), and none after them";
}

// Workers that went on to use a function that is on no bus any more would read registers that nobody answers for.
void EthPort::note_removed(std::vector<PortNews>& news) {
  const std::uint16_t id = id_.load(std::memory_order_relaxed);
  if (id == kClosed || rte_eth_dev_is_removed(id) != 1) return;
  close_device();
  news.push_back({true, "the device " + device_.devargs +
                            " was taken out; the port has no link from now on, until "
                            "weft-switch is started again"});
}

void EthPort::note_detached(std::vector<PortNews>& news) {
  attached_ = false;
  const std::string& name = device_.interface->name();
  char other[IF_NAMESIZE];
  const bool renamed = rings_ && rings_->bound_to(index_) && if_indextoname(index_, other) != nullptr && name != other;
  news.push_back({true, "the interface " + name + (renamed ? " is called " + std::string(other) + " now" : " is gone") +
                            "; the port has no link now" + (renamed ? ", until that is its name again" : "")});
}

// The kernel binds the sockets of a fan-out group, which the driver's are, to no second interface: one that was made
// again, or comes back from another namespace, needs a new device. One that only had another name for a while is still
// theirs.
std::string EthPort::attach() {
  std::uint32_t mtu = wanted_mtu_;
  if (auto error = device_.prepare(mtu); !error.empty()) return error;
  mtu_bytes_ = mtu;
  if (!rings_ || !rings_->bound_to(device_.interface->index())) {
    close_device();
    if (auto error = open_device(); !error.empty()) return error;
  }
  if (is_shut()) static_cast<void>(device_.interface->set_up(false));
  rings_->recover();
  attached_ = true;
  return "";
}

void EthPort::follow_mtu(std::vector<PortNews>& news) {
  const std::uint32_t before = mtu_bytes();
  const std::uint32_t now = std::min(device_.interface->mtu().value_or(before), pipeline::kAfPacketMaxFrame - 18);
  if (now == before) return;
  mtu_bytes_ = now;
  news.push_back({now < before, "the MTU of the interface " + device_.interface->name() + " went from " +
                                    std::to_string(before) + " to " + std::to_string(now) + ", and the port's with it" +
                                    (now < before ? ": larger packets to it are dropped (egress_mtu)" : "")});
}

std::string EthPort::set_mtu(const pipeline::PortInfo& info, std::uint32_t mtu_bytes) {
  if (device_.set_device_mtu) {
    if (id_ == kClosed) return "the device was taken out";
    const int result = rte_eth_dev_set_mtu(id_, static_cast<std::uint16_t>(mtu_bytes));
    if (result != 0) return dpdk_error("the device refuses an MTU of " + std::to_string(mtu_bytes), result);
  } else if (info.type == "veth" || info.type == "tap") {
    // The port's own record first: supervise() compares with it to find changes that others made.
    const std::uint32_t before = mtu_bytes_.exchange(mtu_bytes);
    if (auto error = Netdev(info.device["interface"].string()).set_mtu(mtu_bytes); !error.empty()) {
      mtu_bytes_ = before;
      return error;
    }
  }
  mtu_bytes_ = mtu_bytes;
  wanted_mtu_ = mtu_bytes;
  return "";
}

DeviceStats EthPort::device_stats() const noexcept {
  const std::lock_guard lock(control_mutex_);
  DeviceStats all = counted_by_device();
  if (device_.writer) all.tx_errors += device_.writer->lost();
  if (device_.interface) {
    const Netdev::Drops kernel = device_.interface->drops();
    all.kernel_rx_dropped = kernel.rx;
    all.kernel_tx_dropped = kernel.tx;
  }
  return all;
}

DeviceStats EthPort::counted_by_device() const noexcept {
  DeviceStats all = counted_before_;
  const std::uint16_t id = id_.load(std::memory_order_relaxed);
  rte_eth_stats stats{};
  if (id == kClosed || rte_eth_stats_get(id, &stats) != 0) return all;
  all.rx_missed += stats.imissed + (rings_ ? rings_->drops() : 0);
  all.rx_errors += stats.ierrors;
  all.rx_no_mbuf += stats.rx_nombuf;
  all.tx_errors += stats.oerrors;
  return all;
}

}  // namespace weft::ports
