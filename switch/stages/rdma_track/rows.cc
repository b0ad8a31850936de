// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "switch/stages/rdma_track/order.h"
#include "switch/stages/rdma_track/stage.h"

namespace weft::stages {

using nlohmann::ordered_json;
using tables::QpDetail;
using tables::QpEntry;
using tables::QpTransport;
using tables::RequestFlag;
using wire::CmaServiceId;

namespace {

std::string_view name(QpTransport t) {
  constexpr std::array<std::string_view, 4> kNames{"RC", "UC", "UD", "unknown"};
  return kNames[static_cast<std::size_t>(t)];
}

std::string_view name(tables::PairSource s) {
  constexpr std::array<std::string_view, 5> kNames{"none", "traffic", "agent", "cm", "config"};
  return kNames[static_cast<std::size_t>(s)];
}

// "tcp:4420" for services of rdma_cm's port spaces, hexadecimal digits for others.
std::string service_text(std::uint64_t id) {
  const CmaServiceId service = CmaServiceId::decode(id);
  if (service.encode() == id) {
    const std::string port = std::to_string(service.port);
    if (service.port_space == CmaServiceId::kTcp) return "tcp:" + port;
    if (service.port_space == CmaServiceId::kUdp) return "udp:" + port;
    if (service.port_space == CmaServiceId::kIb) return "ib:" + port;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[id >> shift & 15];
  return text;
}

std::uint64_t naks(const QpDetail& d) {
  return std::uint64_t{d.nak_psn_sequence} + d.nak_invalid_request + d.nak_remote_access + d.nak_remote_operational +
         d.nak_invalid_rd;
}

}  // namespace

ordered_json qp_row(const QpTracker& tracker, std::uint32_t position, TimeNs now, const QpOwners& owners) {
  const tables::QpTable& table = tracker.table();
  const QpEntry& e = table.entry(position);
  const QpDetail& d = table.detail(position);
  const tables::QpKey key = table.key(position);
  const QpEntry* peer = e.paired() ? &table.entry(e.peer) : nullptr;
  const QpDetail* theirs = e.paired() ? &table.detail(e.peer) : nullptr;
  const bool has_psn = !e.request.has(RequestFlag::unsynced) || e.transport() == QpTransport::ud;
  const std::uint64_t service = tracker.service_id(d.service);
  constexpr std::uint64_t kTicksPerUnit = 1'000'000'000;
  const std::uint64_t idle_ns = std::uint64_t{tables::tick_of(now) - e.last_seen} << 20;
  const std::uint64_t age_ns = std::uint64_t{d.age_ticks(now)} << 30;
  const auto if_known = [](bool known, auto value) { return known ? ordered_json(value) : ordered_json(); };
  const QpOwners::Owner* here = peer != nullptr ? owners.find(table.source(key), peer->dest_qp()) : nullptr;
  const QpOwners::Owner* over_there = owners.find(table.destination(key), e.dest_qp());
  const auto told = [](const QpOwners::Owner* owner, const std::string QpOwners::Owner::*what) {
    return owner != nullptr && !(owner->*what).empty() ? ordered_json(owner->*what) : ordered_json();
  };
  return {{"source", table.source(key).to_string()},
          {"destination", table.destination(key).to_string()},
          {"dest_qp", e.dest_qp().value()},
          {"transport", name(e.transport())},
          {"packets", e.packets},
          {"bytes", e.bytes},
          {"messages", e.messages()},
          {"last_psn", if_known(has_psn, (wire::Psn(e.request.value()) - 1).value())},
          {"out_of_order", d.out_of_order.value()},
          {"retransmitted", tables::retransmitted(e, d)},
          {"duplicates", tables::duplicates(e, d)},
          {"nak_psn_sequence", std::uint32_t{d.nak_psn_sequence}},
          {"nak_invalid_request", std::uint32_t{d.nak_invalid_request}},
          {"nak_remote_access", std::uint32_t{d.nak_remote_access}},
          {"nak_remote_operational", std::uint32_t{d.nak_remote_operational}},
          {"nak_invalid_rd", std::uint32_t{d.nak_invalid_rd}},
          {"rnr_naks", std::uint32_t{d.rnr_naks}},
          {"ce", d.ce.value()},
          {"cnps", d.cnps.value()},
          {"pmtu_bytes", if_known(e.pmtu_code() != 0, pmtu_bytes(e.pmtu_code()))},
          {"age_s", age_ns / kTicksPerUnit},
          {"idle_s", idle_ns / kTicksPerUnit},
          {"state", e.fixed()    ? "static"
                    : e.closed() ? "closed"
                                 : "open"},
          {"peer_qp", if_known(peer != nullptr, peer != nullptr ? peer->dest_qp().value() : 0)},
          {"pairing", name(e.source())},
          {"confidence", e.confidence()},
          {"peer_naks", if_known(theirs != nullptr, theirs != nullptr ? naks(*theirs) : 0)},
          {"peer_rnr_naks", if_known(theirs != nullptr, theirs != nullptr ? std::uint32_t{theirs->rnr_naks} : 0)},
          {"peer_cnps", if_known(theirs != nullptr, theirs != nullptr ? theirs->cnps.value() : 0)},
          {"service", if_known(service != 0, service_text(service))},
          {"process", told(here, &QpOwners::Owner::process)},
          {"pid", if_known(here != nullptr && here->pid != 0, here != nullptr ? here->pid : 0)},
          {"device", told(here, &QpOwners::Owner::device)},
          {"dest_process", told(over_there, &QpOwners::Owner::process)},
          {"dest_device", told(over_there, &QpOwners::Owner::device)}};
}

}  // namespace weft::stages
