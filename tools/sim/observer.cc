// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/observer.h"

#include <algorithm>
#include <tuple>

#include "switch/pipeline/packet.h"
#include "switch/stages/lb/tag.h"
#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"

namespace weft::sim {
namespace {

using wire::header_at;

// Simulated RoCE packets are untagged IPv4.
constexpr std::size_t kIp = sizeof(wire::EthernetHeader);
constexpr std::uint64_t kPsnBits = 24;

// The BTH, behind the tag that a ToR may have put on; nullptr for what is no RoCE packet.
const wire::Bth* bth_of(const rte_mbuf* m) noexcept {
  const std::uint8_t* frame = pipeline::frame(m);
  if (m->data_len <= kIp + sizeof(wire::Ipv4Header) ||
      header_at<wire::EthernetHeader>(frame).ethertype.value() != wire::EtherType::ipv4) {
    return nullptr;
  }
  const auto& ip = header_at<wire::Ipv4Header>(frame + kIp);
  const std::size_t udp = kIp + std::size_t{ip.ihl()} * 4;
  std::size_t at = udp + sizeof(wire::UdpHeader);
  if (ip.protocol != wire::IpProtocol::udp || m->data_len <= at + sizeof(wire::Bth)) return nullptr;
  std::uint16_t port = header_at<wire::UdpHeader>(frame + udp).destination_port.value();
  if (port == stages::kTagUdpPort && m->data_len > at + stages::kTagBytes + sizeof(wire::Bth)) {
    port = header_at<stages::LbTagHeader>(frame + at).destination_port.value();
    at += stages::kTagBytes;
  }
  return port == wire::kRoceUdpPort ? &header_at<wire::Bth>(frame + at) : nullptr;
}

bool is_request(const wire::Bth& bth) noexcept {
  return wire::opcode_info(static_cast<wire::Opcode>(bth.opcode)).is_request();
}

bool is_nack(const wire::Bth& bth) noexcept {
  if (bth.opcode != static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)) return false;
  const auto* behind = reinterpret_cast<const std::uint8_t*>(&bth + 1);
  return wire::Syndrome(header_at<wire::Aeth>(behind).syndrome).is_sequence_nak();
}

std::uint64_t end_key(std::uint32_t address, std::uint32_t qpn) noexcept {
  return std::uint64_t{address} << 32 | qpn;
}

}  // namespace

void Witness::note(TimeNs now, std::uint32_t device, Kind kind, const rte_mbuf* m, const wire::Bth& bth) {
  const auto& ip = header_at<wire::Ipv4Header>(pipeline::frame(m) + kIp);
  notes_.push_back({.at = now,
                    .device = device,
                    .address = ip.destination.value(),
                    .qpn = bth.dest_qp.value(),
                    .psn = bth.psn.value(),
                    .kind = kind});
}

void Witness::lost(TimeNs now, std::uint32_t device, const rte_mbuf* m) {
  const wire::Bth* bth = bth_of(m);
  if (bth == nullptr) return;
  const bool request = is_request(*bth);
  if (!request && !is_nack(*bth)) return;
  any_lost_ = true;
  note(now, device, request ? Kind::lost_request : Kind::lost_nack, m, *bth);
}

void Witness::host_sent(TimeNs now, std::uint32_t device, const rte_mbuf* m) {
  const wire::Bth* bth = bth_of(m);
  if (bth == nullptr) return;
  if (is_request(*bth)) return note(now, device, Kind::sent_request, m, *bth);
  if (is_nack(*bth)) note(now, device, Kind::sent_nack, m, *bth);
}

void Witness::host_received(TimeNs now, std::uint32_t device, const rte_mbuf* m) {
  const wire::Bth* bth = bth_of(m);
  if (bth == nullptr) return;
  if (is_request(*bth)) return note(now, device, Kind::got_request, m, *bth);
  if (!is_nack(*bth)) return;
  ++nacks_;
  note(now, device, Kind::got_nack, m, *bth);
}

void Observer::add_pair(std::uint32_t address_a, std::uint32_t qpn_a, std::uint32_t address_b, std::uint32_t qpn_b) {
  const std::uint32_t a = ++last_id_;
  const std::uint32_t b = ++last_id_;
  ends_[end_key(address_a, qpn_a)] = {a, b};
  ends_[end_key(address_b, qpn_b)] = {b, a};
}

void Observer::hear(const std::vector<Witness*>& witnesses) {
  const bool any_lost =
      !lost_.empty() || std::any_of(witnesses.begin(), witnesses.end(), [](const Witness* w) { return w->any_lost(); });
  heard_.clear();
  for (Witness* w : witnesses) {
    counters_.nacks_at_sender += w->nacks();
    if (any_lost) {
      heard_.insert(heard_.end(), w->notes().begin(), w->notes().end());
    } else {
      counters_.nacks_false += w->nacks();
    }
    w->forget();
  }
  // Stable: each device's own order is that of its witness.
  std::stable_sort(heard_.begin(), heard_.end(), [](const Witness::Note& a, const Witness::Note& b) {
    return std::tie(a.at, a.device) < std::tie(b.at, b.device);
  });
  for (const Witness::Note& note : heard_) apply(note);
}

void Observer::apply_nack(Witness::Kind kind, Lost* lost) noexcept {
  if (lost == nullptr) {
    counters_.nacks_false += kind == Witness::Kind::got_nack ? 1 : 0;
  } else if (kind == Witness::Kind::sent_nack) {
    lost->asked = lost->asked || !lost->repeated;
  } else {
    lost->told = true;
  }
}

void Observer::apply(const Witness::Note& note) {
  using Kind = Witness::Kind;
  counters_.packets_lost += note.kind == Kind::lost_request ? 1 : 0;
  const auto ends = ends_.find(end_key(note.address, note.qpn));
  const bool nack = note.kind == Kind::lost_nack || note.kind == Kind::sent_nack || note.kind == Kind::got_nack;
  if (ends == ends_.end()) return nack ? apply_nack(note.kind, nullptr) : void();
  const std::uint64_t key = std::uint64_t{nack ? ends->second.peer : ends->second.id} << kPsnBits | note.psn;
  if (note.kind == Kind::lost_request) {
    lost_[key] = {};
    return;
  }
  const auto lost = lost_.find(key);
  if (nack) return apply_nack(note.kind, lost == lost_.end() ? nullptr : &lost->second);
  if (lost == lost_.end()) return;
  if (note.kind == Kind::sent_request) {
    lost->second.repeated = true;
    return;
  }
  if (lost->second.asked && !lost->second.told) ++counters_.nacks_missed;
  lost_.erase(lost);
}

}  // namespace weft::sim
