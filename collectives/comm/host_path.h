// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank's connections with other ranks, and the collectives that hosts run over them without a switch.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/comm/host_schedule.h"
#include "collectives/comm/transport.h"
#include "collectives/engine/arithmetic.h"

namespace weft::inc::comm {

/// How messages are cut; the same at all ranks of a group.
struct MessageShape {
  std::uint32_t mtu = 1024;
  std::uint32_t message_packets = 4;
  std::uint32_t window = 8;  ///< messages under way on a connection

  [[nodiscard]] std::uint32_t message_bytes() const noexcept { return mtu * message_packets; }
  friend bool operator==(const MessageShape&, const MessageShape&) = default;
};

class HostPath {
 public:
  /// @param transport  outlives it
  HostPath(Transport& transport, std::uint32_t rank, std::uint32_t ranks, const MessageShape& shape);
  ~HostPath();
  HostPath(const HostPath&) = delete;
  HostPath& operator=(const HostPath&) = delete;

  /// This rank's ends, by partner.
  [[nodiscard]] const std::vector<QpEnd>& ends() const noexcept { return ends_; }
  /// Connects to the partners' ends. To be called again while it gives `waiting`.
  [[nodiscard]] ConnectState connect(std::span<const QpEnd> peers);

  /// A collective, of which there is one at a time. What is sent is in registered memory, and stays there until idle().
  ///
  /// Steps overlap: what a message of the next one takes from the vector leaves as soon as it is there, and what the
  /// next one brings is taken unless it would overwrite what may still have to be sent again.
  struct Work {
    Schedule schedule;
    std::uint8_t* vector = nullptr;
    std::uint32_t key = 0;
    DataType type{};
    Op op{};
    bool of_round = false;  ///< only ranks of the same round take part in it
    /// What this rank gives, where the vector does not hold it: as if it were copied to the vector's byte `own_at`.
    /// Each message of it is, when its turn comes: nobody would answer the network while a large vector is copied.
    const std::uint8_t* own = nullptr;
    std::uint32_t own_key = 0;
    std::uint64_t own_at = 0;
    /// Where the bytes of the vector from `result_at` to `result_end` are. No step sends them.
    std::uint8_t* result = nullptr;
    std::uint64_t result_at = 0, result_end = 0;
  };
  void begin(Work work);
  [[nodiscard]] bool idle() const noexcept {
    return acked_.step == work_.schedule.size() && arrived_.step == work_.schedule.size();
  }
  /// Sends and receives what can be. True when something went on.
  bool progress();
  /// Ranks may disagree for a while on whether the next work is a collective or an agreement of the ranks. Those that
  /// know that it is a collective are a round ahead, and the others hear of it: from what an agreement of theirs meets,
  /// from what partners announce, or from anything of a collective that listen() finds.
  void next_round() noexcept;
  /// Tells all partners in which round this rank is.
  void announce();
  /// Looks at all connections, also those that the work under way does not use. Only while that is `of_round`.
  void listen();
  /// Whether another rank is a round ahead.
  [[nodiscard]] bool behind() const noexcept { return behind_; }
  /// Gives the work under way up. Ranks that are a round ahead drop what they got of it.
  void abandon() noexcept;
  /// In words, once something has gone wrong; nothing goes on then.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Ends all connections: nothing looks at the memory of the work any more, and nothing goes on.
  void close(const std::string& why) {
    fail(0, why);
    connections_.clear();
  }

 private:
  struct Connection {
    std::unique_ptr<QueuePair> qp;
    bool connected = false;
    std::deque<Completion> held;  ///< messages that have been looked at and are for a later work
  };
  /// How far the sends, or the receives, of all steps have come: so many messages of this step, and all before it.
  struct Place {
    std::size_t step = 0;
    std::uint64_t messages = 0;
  };
  /// Where a byte of the vector is.
  [[nodiscard]] std::uint8_t* at(std::uint64_t offset) const noexcept;
  [[nodiscard]] const std::uint8_t* own(std::uint64_t offset) const noexcept {
    return work_.own + (offset - work_.own_at);
  }
  void settle(Place& place, Step::Part Step::*part) const noexcept;
  [[nodiscard]] bool may_send() const noexcept;
  [[nodiscard]] bool may_receive() const noexcept;
  [[nodiscard]] std::uint8_t* buffer(Partner partner, std::uint64_t slot) noexcept;
  [[nodiscard]] std::uint64_t messages(const Step::Part& part) const noexcept;
  [[nodiscard]] std::uint32_t bytes_of(const Step::Part& part, std::uint64_t message) const noexcept;
  void post_receive(Partner partner, std::uint64_t slot);
  [[nodiscard]] std::size_t take(Partner partner, std::span<Completion> out);
  [[nodiscard]] bool drop(Partner partner, const Completion& wc);
  [[nodiscard]] bool is_ahead(const Completion& wc) const noexcept;
  void forget_strays();
  bool send();
  bool send_message(const Step& step);
  bool take_acks();
  bool receive();
  bool received(const Step& step, const Completion& wc);
  bool fail(Partner partner, std::string_view why);

  Transport& transport_;
  std::uint32_t rank_, ranks_;
  MessageShape shape_;
  std::vector<Connection> connections_;
  std::vector<QpEnd> ends_;
  std::vector<std::uint8_t> memory_;  ///< what may come, by partner
  std::uint32_t key_ = 0;             ///< of it
  Work work_;
  Place sent_, acked_, arrived_;
  std::uint64_t outstanding_ = 0;  ///< messages that were sent and are not acknowledged
  std::uint64_t number_ = 0;       ///< of the work
  std::uint64_t strays_ = 0;       ///< messages of no work that is under way, which nobody waits to be acknowledged
  std::uint32_t round_ = 0;
  bool behind_ = false;
  std::string error_;
};

}  // namespace weft::inc::comm
