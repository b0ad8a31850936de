// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every opcode against the server's memory. The server says what it received by a hash, and the client reads it back.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/weft-rnic/channel.h"
#include "tools/weft-rnic/tests.h"

namespace weft::rnic_tool {
namespace {

using nic::WrOpcode;

constexpr std::uint32_t kLargest = 1 << 18;
constexpr std::uint32_t kPiecePackets = 40;
/// Immediates of messages; smaller ones ask for hashes.
constexpr std::uint32_t kImmediates = 0x57000000;

class Verify {
 public:
  explicit Verify(Options& options) : options_(options) {}

  int run() {
    options_.size = kLargest;
    if (const auto failure = session_.open(options_)) return fail(*failure);
    if (const auto failure = connect_channel(session_, options_, 2ull * kLargest, channel_)) return fail(*failure);
    auto failure = every_size();
    if (!failure) failure = atomics();
    std::optional<Statistics> statistics;
    if (!failure) failure = read_server(statistics);
    if (!failure) failure = closed_window();
    if (failure) {
      session_.disconnect_all();
      return fail(*failure);
    }
    print(statistics);
    session_.disconnect_all();
    return kExitFine;
  }

 private:
  std::optional<Failure> every_size() {
    const std::uint32_t mtu = options_.qp.path_mtu;
    for (const std::uint32_t size :
         {0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 5 * mtu + 7, 33 * mtu, kLargest}) {
      if (size > kLargest) continue;
      for (const WrOpcode op :
           {WrOpcode::send, WrOpcode::send_imm, WrOpcode::send_inv, WrOpcode::write, WrOpcode::write_imm}) {
        if (auto failure = there_and_back(op, size)) return failure;
      }
    }
    return std::nullopt;
  }

  /// Brings fresh data there, compares the server's hash of it, reads it back, and compares again.
  std::optional<Failure> there_and_back(WrOpcode op, std::uint32_t size) {
    auto* out = channel_.memory.data();
    for (std::uint32_t i = 0; i < size; ++i) {
      state_ = state_ * 1664525 + 1013904223;
      // Odd and below 128: Wireshark takes a payload that begins with an ethertype for more than data.
      out[i] = static_cast<std::uint8_t>((state_ >> 25) | 1);
    }
    const std::uint64_t sent = hash({out, size});
    std::memset(out + kLargest, 0, kLargest);
    std::optional<Statistics> before, after;
    if (auto failure = read_server(before)) return failure;
    nic::SendWr there;
    there.opcode = op;
    there.immediate = kImmediates + static_cast<std::uint32_t>(messages_);
    there.with(channel_.sge(0, size));
    address(there);
    if (op == WrOpcode::send_inv) there.invalidate_rkey = before->window_rkey.value();
    // Through the window, which a SEND with Invalidate will close.
    if (op == WrOpcode::write) use_window(there, *before);
    if (auto failure = complete(there, size)) return failure;
    if (auto failure = await_hash(*before, size, after)) return failure;
    if (auto problem = difference(op, sent, there, *before, *after); !problem.empty()) {
      return Failure{kExitFailed, std::string(name(op)) + " of " + std::to_string(size) + " bytes: " + problem};
    }
    if (auto failure = read_back(size)) return failure;
    bytes_ += 2ull * size;
    if (hash({out + kLargest, size}) == sent) return std::nullopt;
    return Failure{kExitFailed, "READ of " + std::to_string(size) + " bytes: the data is not the same"};
  }

  static std::string difference(WrOpcode op, std::uint64_t sent, const nic::SendWr& wr, const Statistics& before,
                                const Statistics& after) {
    if (after.hash.value() != sent) return "the data that the server has is not the same";
    const bool immediate = op == WrOpcode::send_imm || op == WrOpcode::write_imm;
    if (immediate && after.last_immediate.value() != wr.immediate) return "the server got another immediate";
    const std::uint32_t closed = after.invalidations.value() - before.invalidations.value();
    if (closed != (op == WrOpcode::send_inv ? 1u : 0u))
      return "the server closed " + std::to_string(closed) + " windows";
    return {};
  }

  /// In pieces: nothing holds back the packets of a READ response, and queues on the way have an end.
  std::optional<Failure> read_back(std::uint32_t size) {
    const std::uint32_t piece = kPiecePackets * options_.qp.path_mtu;
    for (std::uint32_t at = 0; at == 0 || at < size; at += piece) {
      nic::SendWr back;
      back.opcode = WrOpcode::read;
      const std::uint32_t bytes = std::min(size - at, piece);
      back.with(channel_.sge(kLargest + at, bytes));
      address(back).remote_address += at;
      if (auto failure = complete(back, bytes)) return failure;
    }
    return std::nullopt;
  }

  /// What the server publishes, read by READ.
  std::optional<Failure> read_server(std::optional<Statistics>& out) {
    out = read_statistics(session_, options_, channel_);
    if (out) return std::nullopt;
    return Failure{kExitFailed, interrupted() ? "interrupted" : "the server's statistics cannot be read"};
  }

  /// Asks for the hash of what has arrived, and waits for it.
  std::optional<Failure> await_hash(const Statistics& before, std::uint32_t size, std::optional<Statistics>& after) {
    nic::SendWr question;
    question.opcode = WrOpcode::write_imm;
    question.immediate = size;
    if (auto failure = complete(address(question), 0)) return failure;
    const nic::Time end = nic::monotonic_now() + static_cast<nic::Time>(options_.timeout_s * 1e9);
    do {
      if (auto failure = read_server(after)) return failure;
      if (after->hashes.value() == before.hashes.value() + 1) return std::nullopt;
    } while (nic::monotonic_now() < end);
    return Failure{kExitFailed, "the server does not say what it received"};
  }

  static void use_window(nic::SendWr& wr, const Statistics& server) {
    wr.remote_address = server.window_address.value();
    wr.rkey = server.window_rkey.value();
  }

  /// The last act: a window that was closed is closed, and the queue pair ends.
  std::optional<Failure> closed_window() {
    std::optional<Statistics> server;
    if (auto failure = read_server(server)) return failure;
    nic::SendWr close;
    close.opcode = WrOpcode::send_inv;
    close.invalidate_rkey = server->window_rkey.value();
    if (auto failure = complete(close, 0)) return failure;
    nic::SendWr write;
    write.opcode = WrOpcode::write;
    write.with(channel_.sge(0, 8));
    use_window(write, *server);
    const auto failure = complete(write, 8);
    // The NAK that refuses it is sent once: where it is lost, the server ends the connection.
    for (const auto status :
         {nic::WcStatus::remote_access_error, nic::WcStatus::flushed, nic::WcStatus::retry_exceeded}) {
      if (failure && failure->message.ends_with(name(status))) return std::nullopt;
    }
    return Failure{kExitFailed, "a WRITE through a closed window: " + (failure ? failure->message : "was executed")};
  }

  std::optional<Failure> atomics() {
    std::uint64_t expected = 0;
    std::memcpy(channel_.memory.data(), &expected, sizeof expected);
    nic::SendWr zero;
    zero.opcode = WrOpcode::write;
    zero.with(channel_.sge(0, 8));
    if (auto failure = complete(address(zero), 8)) return failure;
    for (std::uint64_t i = 1; i <= 100; ++i) {
      nic::SendWr wr;
      wr.opcode = i % 3 == 0 ? WrOpcode::compare_swap : WrOpcode::fetch_add;
      wr.with(channel_.sge(0, 8));
      wr.compare_add = i % 3 == 0 ? expected : i;
      wr.swap = i * 1000;
      if (auto failure = complete(address(wr), 8)) return failure;
      std::uint64_t original = 0;
      std::memcpy(&original, channel_.memory.data(), sizeof original);
      if (original != expected)
        return Failure{kExitFailed, "an atomic operation found a value that is not the one left there"};
      expected = i % 3 == 0 ? wr.swap : expected + i;
    }
    return std::nullopt;
  }

  nic::SendWr& address(nic::SendWr& wr) const {
    wr.remote_address = channel_.server.address.value();
    wr.rkey = channel_.server.rkey.value();
    return wr;
  }

  std::optional<Failure> complete(const nic::SendWr& wr, std::uint32_t size) {
    if (channel_.qp->post_send(wr) != nic::PostResult::ok) return Failure{kExitFailed, "a work request was refused"};
    nic::Wc done;
    bool there = false;
    session_.run_until([&] { return there = channel_.cq->poll({&done, 1}) == 1; }, options_.timeout_s);
    const std::string what = std::string(name(wr.opcode)) + " of " + std::to_string(size) + " bytes";
    if (!there) return Failure{kExitFailed, what + (interrupted() ? ": interrupted" : " does not end")};
    if (done.status != nic::WcStatus::success)
      return Failure{kExitFailed, what + ": " + std::string(name(done.status))};
    ++messages_;
    return std::nullopt;
  }

  void print(const std::optional<Statistics>& statistics) {
    auto row = describe(*channel_.qp);
    if (statistics) row["spurious"] = statistics->duplicates.value();
    if (options_.json) {
      const nlohmann::ordered_json all{{"test", "verify"}, {"messages", messages_}, {"bytes", bytes_}, {"qps", {row}}};
      std::printf("%s\n", all.dump(2).c_str());
    } else {
      std::printf("%llu messages, %llu bytes: all as sent (%s retransmitted, %s naks, %s timeouts)\n",
                  static_cast<unsigned long long>(messages_), static_cast<unsigned long long>(bytes_),
                  row["retransmitted"].dump().c_str(), row["naks"].dump().c_str(), row["timeouts"].dump().c_str());
    }
  }

  Options& options_;
  Session session_;
  Channel channel_;
  std::uint32_t state_ = 1;
  std::uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace

int run_verify(Options options) {
  return Verify(options).run();
}

}  // namespace weft::rnic_tool
