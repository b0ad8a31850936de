// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A traffic source inside the process: RoCEv2 packets of many queue pairs with advancing PSNs, which a replayed
// capture cannot give. What is sent to the port is discarded; PFC frames may be heeded before.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "switch/ports/port.h"
#include "switch/qos/pfc_receiver.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/types.h"

namespace weft::ports {

/// Sends one packet of each queue pair in turn. The n-th request of the i-th queue pair has the PSN i * 0x9e3779 + n;
/// everything else has the PSN of the request kAcknowledgeLag before the next one, so that two generators that face
/// each other seem to acknowledge each other's requests. The i-th queue pair is with the (i mod n)-th of n
/// destinations. With `rss` they come through as many receive queues as a card has for the workers, each queue pair
/// through the one that its addresses choose (RssQueues). Device keys: qps, first_qpn, payload_bytes, opcodes, control,
/// source_mac, destination_mac, source, destination, more_destinations, dscp, heed_pfc, rss, limit_packets, rate_pps.
class GeneratorPort : public Port {
 public:
  static constexpr std::uint32_t kAcknowledgeLag = 64;
  /// PSN of the first request of the QP with this index.
  [[nodiscard]] static constexpr std::uint32_t first_psn(std::uint32_t qp) noexcept {
    return qp * 0x9e3779 & wire::Psn::kMask;
  }

  /// `error` is empty on success; packets that do not fit into one buffer are a mistake.
  static std::unique_ptr<GeneratorPort> open(const pipeline::PortInfo& info, const PortEnvironment& environment,
                                             std::string& error);

  [[nodiscard]] std::uint16_t rx_queues() const noexcept override { return static_cast<std::uint16_t>(queues_.size()); }
  [[nodiscard]] bool brings_to_owners() const noexcept override { return queues_.size() > 1; }
  std::uint16_t receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets, std::uint16_t max) noexcept override;
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override;
  /// Any number where transmit() only discards.
  [[nodiscard]] std::uint16_t tx_queues() const noexcept override { return pauses_ ? 1 : 0xffff; }
  [[nodiscard]] bool finite() const noexcept override { return limit_ != 0; }
  [[nodiscard]] bool exhausted() const noexcept override {
    return limit_ != 0 && sent_.load(std::memory_order_relaxed) >= limit_;
  }
  [[nodiscard]] std::string description() const override;

 private:
  GeneratorPort() = default;
  // A frame of one opcode with QPN, PSN, UDP source port and immediate zero, and the ICRC of exactly that.
  struct Template {
    std::vector<std::uint8_t> bytes;
    std::uint32_t bth = 0;         ///< offset of the BTH
    std::uint32_t behind_bth = 0;  ///< covered bytes behind the BTH's 12
    std::uint32_t icrc = 0;
    bool request = false;
  };
  struct Host {
    wire::MacAddress mac;
    wire::IpAddress address;
  };
  struct Turn {
    std::uint32_t qp, destination;
    std::uint64_t requests = 0;  // sent
  };
  // A receive queue, with the queue pairs that send through it. Its worker writes to it for every packet: it has its
  // lines to itself.
  struct alignas(64) Queue {
    static constexpr std::size_t kTurns = 4;
    struct alignas(64) Turns {
      std::array<Turn, kTurns> turn;
    };
    [[nodiscard]] Turn& turn(std::size_t i) noexcept { return turns[i / kTurns].turn[i % kTurns]; }
    void add(const Turn& turn) {
      if (size % kTurns == 0) turns.emplace_back();
      this->turn(size++) = turn;
    }

    std::vector<Turns> turns;
    std::uint32_t size = 0;
    std::uint32_t next = 0;   // whose turn it is
    std::uint32_t kind = 0;   // in the list of opcodes
    std::uint32_t round = 0;  // that the current round began with
    rte_mempool* pool = nullptr;
  };
  // These three: false, and `error`, when buffers have no room for a packet.
  [[nodiscard]] bool add_destination(const config::Value& device, const config::Value& mac,
                                     const config::Value& address, std::string& error);
  [[nodiscard]] bool make_template(const config::Value& device, const Host& to, wire::Opcode opcode,
                                   std::span<const std::uint8_t> payload, Template& out, std::string& error) const;
  [[nodiscard]] bool make_control(const config::Value& device, const Host& to, std::string& error);
  void fill(const Template& from, std::uint32_t qp, std::uint32_t psn, std::uint32_t immediate,
            std::uint8_t* frame) const noexcept;
  void spread(const pipeline::PortInfo& info, const PortEnvironment& environment);
  void make_next(Queue& queue, rte_mbuf* m) const noexcept;
  [[nodiscard]] static std::uint32_t next_psn(Turn& turn, bool request) noexcept;
  void next_kind(Queue& queue) const noexcept;
  [[nodiscard]] bool limited() const noexcept { return limit_ != 0 || rate_pps_ != 0; }
  [[nodiscard]] std::uint64_t allowed(TimeNs now, std::uint64_t sent) noexcept;
  [[nodiscard]] std::uint16_t claim(TimeNs now, std::uint16_t wanted) noexcept;

  rte_mempool* pool_ = nullptr;      ///< all have buffers of one size
  std::vector<Template> templates_;  ///< by destination, then by place in the list of opcodes
  std::uint32_t kinds_ = 1;          ///< length of that list
  std::vector<Template> controls_;   ///< by destination
  std::uint64_t control_every_ = 0;  ///< requests from one to the next, 0: there are none
  std::uint32_t control_immediate_ = 0;
  std::uint32_t qps_ = 1;
  std::uint32_t first_qpn_ = 0;
  std::optional<qos::PfcReceiver> pauses_;  ///< where PFC frames are heeded
  TimeNs asked_ = 0;                        ///< time of the last receive()
  std::uint64_t limit_ = 0;
  std::uint64_t rate_pps_ = 0;
  std::vector<Queue> queues_;
  std::atomic<TimeNs> started_{0};
  std::atomic<std::uint64_t> sent_{0};  ///< where they are limited
};

}  // namespace weft::ports
