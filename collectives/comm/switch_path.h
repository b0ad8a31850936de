// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank's connection with its switch, and the collectives that switches run: a control message and data for each, in
// messages of M packets, with W of them under way (EPIC 3.3.2, Figure 4).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/host_path.h"
#include "collectives/comm/transport.h"
#include "collectives/engine/control_message.h"

namespace weft::inc::comm {

/// One collective of the switches.
struct Invocation {
  Primitive primitive{};
  Op op{};
  DataType type{};
  std::uint16_t root = 0;
  std::uint64_t bytes = 0;             ///< at most kMaxInvocationBytes
  const std::uint8_t* send = nullptr;  ///< where this rank sends
  std::uint32_t send_key = 0;          ///< of registered memory; not looked at if it is copied
  std::uint8_t* receive = nullptr;     ///< where it receives
  /// Of a Reduce's root: its own contribution, which no switch has; it may be `receive`.
  const std::uint8_t* own = nullptr;
  bool copied = false;     ///< what this rank sends, before it leaves: see SwitchPath::kMostCopied
  Turn turn = Turn::none;  ///< of a Barrier. One that gives a turn back begins when all before is acknowledged
};

class SwitchPath {
 public:
  /// @param transport  outlives it
  SwitchPath(Transport& transport, std::uint32_t rank, const MessageShape& shape);
  ~SwitchPath();
  SwitchPath(const SwitchPath&) = delete;
  SwitchPath& operator=(const SwitchPath&) = delete;

  [[nodiscard]] QpEnd end() const { return qp_->end(); }
  /// Connects to the switch's end. To be called again while it gives `waiting`.
  /// @param window  messages that the group takes from a rank, at most that of the shape
  [[nodiscard]] ConnectState connect(const QpEnd& peer, std::uint32_t group, std::uint32_t window);

  /// What a rank gives is better copied up to so many bytes, and needs not be registered. An invocation that everybody
  /// gives to is over with its result then: the acknowledgements, which come a round trip later, are awaited for the
  /// copies alone.
  static constexpr std::uint64_t kMostCopied = 16 * 1024;

  /// Begins when all that earlier ones bring this rank has come; many may wait.
  void submit(const Invocation& invocation);
  /// Invocations so far, and those that are over: all has come, and nobody looks at what was to be sent any more.
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] std::uint64_t completed() const noexcept { return acknowledged() + over_; }
  /// Sends and receives what can be. True when something went on.
  bool progress();
  /// In words, once something has gone wrong; nothing goes on then.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Whether the error is that the switch does not answer.
  [[nodiscard]] bool silent() const noexcept { return silent_; }
  /// Whether an invocation brings this rank something, and all of it has come: then this rank has done its part, too.
  /// They are counted from 0.
  [[nodiscard]] bool has_all(std::uint64_t invocation) const noexcept;
  /// Whether this rank has sent all of it and got all that it brings: the next one may have begun.
  [[nodiscard]] bool is_through(std::uint64_t invocation) const noexcept;
  /// Of its data, which comes from the first byte on, what has come.
  [[nodiscard]] std::uint64_t bytes_come(std::uint64_t invocation) const noexcept;
  /// Whether the last Barrier that took a turn got one; nullopt: its result has not come.
  [[nodiscard]] std::optional<bool> turn() const noexcept { return turn_; }
  /// Whether all that is submitted has been sent.
  [[nodiscard]] bool all_posted() const noexcept;
  /// Ends the connection: nothing looks at what was to be sent any more, and nothing goes on.
  void close(const std::string& why) {
    fail(why);
    qp_.reset();
  }

 private:
  struct Pending {
    Invocation what;
    ControlMessage control;
    std::uint64_t posted = 0, acked = 0, arrived = 0;  ///< messages
  };
  /// Invocations that have left the queue: all has come, and all that was sent is acknowledged.
  [[nodiscard]] std::uint64_t acknowledged() const noexcept { return submitted_ - queue_.size(); }
  [[nodiscard]] bool is_over(const Pending& p) const noexcept;
  /// Memory for a message that is sent from here, until it is acknowledged.
  [[nodiscard]] std::uint8_t* next_copy() noexcept { return memory_.data() + copied_++ % shape_.window * slot_bytes_; }
  [[nodiscard]] std::uint64_t messages(const Pending& p) const noexcept;
  [[nodiscard]] bool all_sent(const Pending& p) const noexcept;
  [[nodiscard]] bool all_came(const Pending& p) const noexcept;
  [[nodiscard]] std::uint8_t* receive_slot(std::uint64_t slot) noexcept;
  bool take_acks();
  bool receive();
  bool received(Pending& p, const Completion& wc);
  bool received_data(Pending& p, const Completion& wc);
  bool post();
  bool post_message(Pending& p);
  void post_receive(std::uint64_t slot);
  bool fail(std::string_view why);

  Transport& transport_;
  std::uint32_t rank_;
  MessageShape shape_;
  std::uint32_t window_ = 0, group_ = 0;
  std::uint32_t receives_;
  std::size_t slot_bytes_;
  std::unique_ptr<QueuePair> qp_;
  std::vector<std::uint8_t> memory_;  ///< copies that are under way, then what may come
  std::uint32_t key_ = 0;
  std::deque<Pending> queue_;
  std::size_t over_ = 0;  ///< of the queue's first: they wait for acknowledgements alone
  std::uint32_t outstanding_ = 0;
  std::uint64_t submitted_ = 0, copied_ = 0;
  std::optional<bool> turn_;
  std::string error_;
  bool silent_ = false;
};

}  // namespace weft::inc::comm
