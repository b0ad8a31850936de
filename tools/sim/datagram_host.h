// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A host without an RNIC: it sends plain UDP datagrams, one behind the other, as fast as its link takes them. Nothing
// is acknowledged or sent again.
#pragma once

#include <algorithm>
#include <array>
#include <deque>

#include "tools/sim/host_wire.h"

namespace weft::sim {

/// Hears of datagrams that have arrived.
class DatagramSink {
 public:
  virtual ~DatagramSink() = default;
  /// @param message  what DatagramHost::send() was told
  virtual void datagram_arrived(TimeNs now, std::uint32_t message) = 0;
};

class DatagramHost final : public HostWire {
 public:
  /// Ethernet, IPv4 and UDP.
  static constexpr std::uint32_t kHeaderBytes = 14 + 20 + 8;
  /// Of a datagram with so many bytes of payload, without FCS. Ethernet's frames have a least length.
  static constexpr std::uint64_t frame_bytes(std::uint64_t payload) noexcept {
    return std::max<std::uint64_t>(payload + kHeaderBytes, 60);
  }
  /// The discard service (RFC 863).
  static constexpr std::uint16_t kPort = 9;

  DatagramHost(const Parts& parts, DatagramSink& sink);
  ~DatagramHost() override;

  /// A message to another host, cut into datagrams.
  struct Message {
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;     ///< of payload; at least 1
    std::uint32_t datagram = 0;  ///< bytes of payload of all datagrams but the last
    wire::IpAddress to{};
    wire::MacAddress gateway{};
  };
  /// Sends it behind those before. A datagram opens with the number of its message: it has at least four bytes.
  void send(TimeNs now, const Message& message);

  void receive(TimeNs now, PortIndex port, rte_mbuf* m) override;

 private:
  static constexpr std::uint32_t kNumberBytes = sizeof(std::uint32_t);

  void run(TimeNs now) override;
  void send_next();
  void make_head(const Message& message, std::uint32_t payload);

  wire::IpAddress address_;
  wire::MacAddress mac_;
  DatagramSink& sink_;
  std::deque<Message> messages_;  ///< bytes: those that have not been sent
  std::array<std::uint8_t, kHeaderBytes + kNumberBytes> head_{};
  std::uint32_t head_number_ = ~0u;  ///< of which message head_ is
  std::uint32_t head_payload_ = 0;   ///< and of how long a datagram
};

}  // namespace weft::sim
