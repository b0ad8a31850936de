// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/observer.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "switch/base/time.h"
#include "switch/pipeline/packet.h"
#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"

namespace weft::sim {
namespace {

using wire::header_at;

// Simulated RoCE packets are untagged IPv4 without options.
constexpr std::size_t kIp = sizeof(wire::EthernetHeader);
constexpr std::size_t kUdp = kIp + sizeof(wire::Ipv4Header);
constexpr std::size_t kBth = kUdp + sizeof(wire::UdpHeader);
constexpr std::size_t kAeth = kBth + sizeof(wire::Bth);
constexpr std::uint64_t kPsnBits = 24;

bool is_roce(const rte_mbuf* m) noexcept {
  const std::uint8_t* frame = pipeline::frame(m);
  return m->data_len > kAeth && header_at<wire::EthernetHeader>(frame).ethertype.value() == wire::EtherType::ipv4 &&
         header_at<wire::Ipv4Header>(frame + kIp).protocol == wire::IpProtocol::udp &&
         header_at<wire::UdpHeader>(frame + kUdp).destination_port.value() == wire::kRoceUdpPort;
}

const wire::Bth& bth_of(const rte_mbuf* m) noexcept {
  return header_at<wire::Bth>(pipeline::frame(m) + kBth);
}

// Of the queue pair that receives it, and the PSN of `m`.
std::uint64_t key(std::uint32_t receiver, const rte_mbuf* m) noexcept {
  return std::uint64_t{receiver} << kPsnBits | bth_of(m).psn.value();
}

bool is_request(const rte_mbuf* m) noexcept {
  return wire::opcode_info(static_cast<wire::Opcode>(bth_of(m).opcode)).is_request();
}

std::uint64_t end_key(std::uint32_t address, std::uint32_t qpn) noexcept {
  return std::uint64_t{address} << 32 | qpn;
}

// The file format of libpcap: nanosecond magic, version 2.4, Ethernet.
struct PcapHeader {
  std::uint32_t magic = 0xa1b23c4d;
  std::uint16_t major = 2, minor = 4;
  std::uint32_t zone = 0, precision = 0, snap_length = 65535, link_type = 1;
};

}  // namespace

void Observer::add_pair(std::uint32_t address_a, std::uint32_t qpn_a, std::uint32_t address_b, std::uint32_t qpn_b) {
  const std::uint32_t a = ++last_id_;
  const std::uint32_t b = ++last_id_;
  ends_[end_key(address_a, qpn_a)] = {a, b};
  ends_[end_key(address_b, qpn_b)] = {b, a};
}

const Observer::Ends* Observer::ends_of(const rte_mbuf* m) const {
  const auto& ip = header_at<wire::Ipv4Header>(pipeline::frame(m) + kIp);
  const auto found = ends_.find(end_key(ip.destination.value(), bth_of(m).dest_qp.value()));
  return found == ends_.end() ? nullptr : &found->second;
}

bool Observer::is_nack(const rte_mbuf* m) noexcept {
  if (bth_of(m).opcode != static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)) return false;
  return wire::Syndrome(header_at<wire::Aeth>(pipeline::frame(m) + kAeth).syndrome).is_sequence_nak();
}

void Observer::on_lost(const rte_mbuf* m) noexcept {
  if (!is_roce(m)) return;
  const bool request = is_request(m);
  counters_.packets_lost += request ? 1 : 0;
  const Ends* ends = ends_of(m);
  if (ends == nullptr) return;
  if (request) {
    lost_[key(ends->id, m)] = {};
  } else if (is_nack(m)) {
    const auto lost = lost_.find(key(ends->peer, m));
    if (lost != lost_.end()) lost->second.told = true;
  }
}

void Observer::on_host_sent(const rte_mbuf* m) noexcept {
  if (lost_.empty() || !is_roce(m)) return;
  const bool nack = is_nack(m);
  if (!nack && !is_request(m)) return;
  const Ends* ends = ends_of(m);
  if (ends == nullptr) return;
  const auto lost = lost_.find(key(nack ? ends->peer : ends->id, m));
  if (lost == lost_.end()) return;
  lost->second.asked = lost->second.asked || (nack && !lost->second.repeated);
  lost->second.repeated = lost->second.repeated || !nack;
}

void Observer::on_host_received(const rte_mbuf* m) noexcept {
  if (!is_roce(m)) return;
  if (is_nack(m)) {
    ++counters_.nacks_at_sender;
    const Ends* ends = ends_of(m);
    const auto lost = ends == nullptr ? lost_.end() : lost_.find(key(ends->peer, m));
    if (lost == lost_.end()) {
      ++counters_.nacks_false;
    } else {
      lost->second.told = true;
    }
    return;
  }
  if (lost_.empty() || bth_of(m).opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)) return;
  const Ends* ends = ends_of(m);
  if (ends == nullptr) return;
  const auto lost = lost_.find(key(ends->id, m));
  if (lost == lost_.end()) return;
  if (lost->second.asked && !lost->second.told) ++counters_.nacks_missed;
  lost_.erase(lost);
}

std::string Observer::start_capture(std::uint32_t link, const std::string& path) {
  path_ = path;
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr) return "cannot write " + path_ + ": " + std::strerror(errno);
  const PcapHeader header;
  // On the disk before the run begins: that it is full is known then.
  if (std::fwrite(&header, sizeof header, 1, file_) != 1 || std::fflush(file_) != 0) capture_error_ = errno;
  captured_ = link;
  return capture_error_ == 0 ? "" : finish_capture();
}

std::string Observer::finish_capture() {
  captured_ = ~0u;
  if (file_ == nullptr) return "";
  if (std::fclose(file_) != 0 && capture_error_ == 0) capture_error_ = errno;
  file_ = nullptr;
  if (capture_error_ == 0) return "";
  return "cannot write " + path_ + ": " + std::strerror(capture_error_) + "; the capture ends at packet " +
         std::to_string(captured_packets_);
}

void Observer::capture(TimeNs now, const rte_mbuf* m) noexcept {
  const std::array<std::uint32_t, 4> record{static_cast<std::uint32_t>(now / kSecond),
                                            static_cast<std::uint32_t>(now % kSecond),
                                            std::min<std::uint32_t>(m->data_len, m->pkt_len), m->pkt_len};
  if (std::fwrite(record.data(), sizeof record, 1, file_) != 1 ||
      std::fwrite(pipeline::frame(m), 1, record[2], file_) != record[2]) {
    capture_error_ = errno;
    captured_ = ~0u;
    return;
  }
  ++captured_packets_;
}

}  // namespace weft::sim
