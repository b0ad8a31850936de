// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/datagram_host.h"

#include <algorithm>
#include <cstring>

#include "switch/wire/builder.h"

namespace weft::sim {
namespace {

// Ports of dynamic use (RFC 6335), so that messages spread over equal-cost paths.
std::uint16_t source_port(std::uint32_t message) {
  return static_cast<std::uint16_t>(0xc000u | (message & 0x3fffu));
}

}  // namespace

DatagramHost::DatagramHost(const Parts& parts, DatagramSink& sink)
    : HostWire(parts), address_(parts.plan.address), mac_(parts.plan.mac), sink_(sink) {}

DatagramHost::~DatagramHost() = default;

void DatagramHost::send(TimeNs now, const Message& message) {
  messages_.push_back(message);
  kick(now);
}

void DatagramHost::make_head(const Message& message, std::uint32_t payload) {
  std::array<std::uint8_t, kNumberBytes> number;
  std::memcpy(number.data(), &message.number, sizeof number);
  const auto udp_bytes = static_cast<std::uint16_t>(8 + payload);
  const auto frame = wire::FrameBuilder()
                         .eth(mac_, message.gateway)
                         .ip(address_, message.to)
                         .ip_length(static_cast<std::uint16_t>(20 + udp_bytes))
                         .udp(source_port(message.number), kPort)
                         .udp_length(udp_bytes)
                         .payload(number)
                         .build();
  std::copy_n(frame.begin(), head_.size(), head_.begin());
  head_number_ = message.number;
  head_payload_ = payload;
}

void DatagramHost::send_next() {
  Message& message = messages_.front();
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(message.bytes, message.datagram));
  const std::uint32_t payload = std::max(bytes, kNumberBytes);
  if (head_number_ != message.number || head_payload_ != payload) make_head(message, payload);
  rte_mbuf* m = make_packet(static_cast<std::uint32_t>(frame_bytes(payload)));
  std::memcpy(pipeline::frame(m), head_.data(), head_.size());
  transmit(m);
  message.bytes -= bytes;
  if (message.bytes == 0) messages_.pop_front();
}

void DatagramHost::run(TimeNs now) {
  carry_due(now);
  if (!messages_.empty() && wire_.ready(now)) send_next();
  wake_at(std::min(wire_.line_deadline(), messages_.empty() ? kNever : wire_.wire_deadline()));
}

void DatagramHost::receive(TimeNs now, PortIndex /*port*/, rte_mbuf* m) {
  count_received(m);
  std::uint32_t message = 0;
  std::memcpy(&message, pipeline::frame(m) + kHeaderBytes, sizeof message);
  rte_pktmbuf_free(m);
  sink_.datagram_arrived(now, message);
}

}  // namespace weft::sim
