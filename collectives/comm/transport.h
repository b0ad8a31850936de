// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the host library needs of an RNIC: reliable connections, SEND and receive. Implementations are weft's own RNIC
// in the process (rnic_transport.h) and libibverbs (verbs_transport.h); tests have one in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "nic/rnic/config.h"
#include "switch/wire/addresses.h"

namespace weft::inc::comm {

/// One end of a connection, as the other end has to know it.
struct QpEnd {
  wire::IpAddress address{};
  std::uint32_t qpn = 0;
  std::uint32_t first_psn = 0;    ///< that it sends
  std::uint32_t expects_psn = 0;  ///< that it receives

  friend bool operator==(const QpEnd&, const QpEnd&) = default;
};

struct Completion {
  std::uint64_t wr_id = 0;
  std::uint32_t bytes = 0;  ///< received
  std::optional<std::uint32_t> immediate;
  std::string_view error;  ///< empty: it went well
  bool silent = false;     ///< the error is that the peer does not answer
};

/// Where a connection is on its way.
enum class ConnectState : std::uint8_t {
  connected,
  waiting,      ///< for the neighbour's address: to be called again
  unreachable,  ///< no route, or the next hop does not answer
};

/// A queue pair with completion queues of its own; destroying it ends the connection.
class QueuePair {
 public:
  virtual ~QueuePair() = default;
  [[nodiscard]] virtual QpEnd end() const = 0;
  /// Connects to the other end. The PSNs in `peer` are not looked at: the other end uses those of end().
  /// @param psn_of_peer  first PSN that the peer sends; nullopt: what end() says that is expected
  [[nodiscard]] virtual ConnectState connect(const QpEnd& peer, std::optional<std::uint32_t> psn_of_peer) = 0;
  /// Work requests name registered memory. False when the queue is full.
  [[nodiscard]] virtual bool send(std::uint64_t wr_id, const void* data, std::uint32_t bytes, std::uint32_t key,
                                  std::optional<std::uint32_t> immediate) = 0;
  [[nodiscard]] virtual bool receive(std::uint64_t wr_id, void* data, std::uint32_t bytes, std::uint32_t key) = 0;
  /// The oldest completions of sends, and of receives, as many as fit; what is not asked for stays.
  [[nodiscard]] virtual std::size_t poll_sent(std::span<Completion> out) = 0;
  [[nodiscard]] virtual std::size_t poll_received(std::span<Completion> out) = 0;
};

struct QpSettings {
  std::uint32_t mtu = 1024;
  std::uint32_t send_depth = 16;
  std::uint32_t receive_depth = 32;
};

/// What an RNIC refuses to give, in words.
class TransportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// The largest path MTU that the interface takes.
  [[nodiscard]] virtual std::uint32_t largest_mtu() const = 0;
  /// @throws TransportError
  [[nodiscard]] virtual std::unique_ptr<QueuePair> create_qp(const QpSettings& settings) = 0;
  /// Registers memory; it stays registered until forget(). Work requests anywhere in it take the key.
  /// @throws TransportError
  [[nodiscard]] virtual std::uint32_t register_memory(const void* data, std::size_t bytes) = 0;
  virtual void forget(std::uint32_t key) = 0;
};

/// An address that queue pairs of an RNIC can have.
struct Gid {
  wire::IpAddress address{};
  std::optional<std::uint32_t> index{};  ///< in the table of the device's port; weft's own RNIC has no table
  std::uint32_t port = 0;                ///< of the device, from 1 on
};

/// A transport with somebody who runs it and waits for it.
class RunningTransport : public Transport {
 public:
  /// Of the device or interface, for messages.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// What its queue pairs have.
  [[nodiscard]] virtual Gid gid() const = 0;
  /// All that they could have: of RoCE v2, with addresses that are not link-local.
  [[nodiscard]] virtual std::vector<Gid> gids() const = 0;
  /// Packets that it has dropped because their ICRC was wrong; nullopt: it does not count them.
  [[nodiscard]] virtual std::optional<std::uint64_t> icrc_errors() const = 0;
  /// Takes what has arrived, without waiting. Answers to it may leave with flush() alone.
  virtual void receive() = 0;
  /// Sends what is due, without waiting.
  virtual void flush() = 0;
  /// To be asked before waiting. False: something may have come of which descriptor() tells nothing.
  [[nodiscard]] virtual bool may_wait() = 0;
  /// Readable when something has arrived.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// When flush() has something to do at the latest (CLOCK_MONOTONIC); nic::kNever: it has not.
  [[nodiscard]] virtual nic::Time next_deadline() const = 0;
};

}  // namespace weft::inc::comm
