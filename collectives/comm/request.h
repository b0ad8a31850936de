// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A collective that a program has begun: its buffers, and what switches or hosts make of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/comm/host_path.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/switch_path.h"

namespace weft::inc::comm {

/// A collective as the program asks for it.
struct Call {
  Collective collective{};
  const void* send = nullptr;  ///< a Broadcast has one buffer, `receive`
  void* receive = nullptr;
  std::uint64_t count = 0;  ///< of elements: of one block for ReduceScatter and AllGather
  DataType type{};
  Op op{};
  std::uint32_t root = 0;
};

/// What is wrong with a call, in words, or an empty string.
[[nodiscard]] std::string check(const Call& call, std::uint32_t rank, std::uint32_t ranks);

/// Whether all ranks have the same result, each when all others have given theirs.
[[nodiscard]] bool shares_result(Collective collective) noexcept;

/// A collective that switches have run for this rank, and what it takes to run it once more for ranks that lack it: the
/// result, where all have the same; what this rank gave, otherwise. The pointers of the call lead nowhere.
struct Past {
  Call call;
  std::vector<std::uint8_t> vector;
};

class Request {
 public:
  enum class State : std::uint8_t { waiting, running, done, failed };

  Request(Memory& memory, const Call& call, std::uint32_t rank, std::uint32_t ranks);
  /// For ranks that lack what this one has behind it: no program waits for it. Not of collectives that share a result.
  Request(Memory& memory, Past past, std::uint32_t rank, std::uint32_t ranks);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Gives a switch all that it has to run.
  void start(SwitchPath& to);
  /// Gives it to the hosts, which run nothing else.
  void start(HostPath& to);
  /// A group of one rank: the result is what it gives.
  void run_alone();
  /// All has come and all was sent.
  void finish();
  void fail(std::string why);
  /// Whether `from` has brought all of the result.
  [[nodiscard]] bool has_all(const SwitchPath& from) const noexcept;
  [[nodiscard]] bool shares_result() const noexcept { return comm::shares_result(call_.collective); }
  /// Of those that share it.
  [[nodiscard]] std::span<std::uint8_t> shared_result() const noexcept;
  /// Whether its end says that all ranks have begun it, and so have all before it behind them.
  [[nodiscard]] bool shows_others() const noexcept;
  /// What is kept of it when it is over: of no more than this many bytes.
  [[nodiscard]] std::size_t past_bytes() const noexcept;
  /// @param memory  what it is kept in
  [[nodiscard]] Past past(std::vector<std::uint8_t> memory) const;
  /// Whether this rank has given all of it and has all of the result, whether or not the others have.
  [[nodiscard]] bool is_through(const SwitchPath& from) const noexcept;
  /// How much of this rank's result of an AllReduce, Reduce or ReduceScatter `from` has brought, from its first byte
  /// on; 0 of all others. If some has come, all ranks have begun it, and are through with what was before it.
  [[nodiscard]] std::uint64_t come(const SwitchPath& from) const noexcept;
  /// Whether this rank has the result of a Reduce, which nobody else lacks.
  [[nodiscard]] bool is_root_of_reduce() const noexcept {
    return call_.collective == Collective::reduce && call_.root == rank_;
  }
  /// Of the largest buffer that a rank has in it; the same at all ranks.
  [[nodiscard]] std::uint64_t largest_bytes() const noexcept;
  [[nodiscard]] Collective collective() const noexcept { return call_.collective; }
  /// Waits again. Nothing looks at its memory any more. What `from` has brought of a Reduce or ReduceScatter stays: it
  /// may have come in the place of what this rank gave. Hosts run all of it again, and what becomes of that part is not
  /// used.
  void begin_again(const SwitchPath& from);

  bool eligible = false;  ///< a switch would run it, if the group has one
  bool by_switch = false;
  bool confirms = false;        ///< switches end it when all ranks are through with it, not when this one is
  bool again = false;           ///< this rank has it behind it
  bool has_turn = false;        ///< the switches' memory, which other groups have, too, is its group's
  bool refused = false;         ///< it is another group's now: hosts run this one
  bool counted = true;          ///< among the group's calls, by who runs it
  std::uint64_t begins_at = 0;  ///< of an AllReduce by hosts: the bytes before are there
  HostAlgorithm algorithm{};    ///< where it is not
  State state = State::waiting;
  std::uint64_t first_invocation = 0;  ///< SwitchPath::submitted() in front of it
  std::uint64_t last_invocation = 0;   ///< and behind it
  std::string error;                   ///< of failed

 private:
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return call_.count * element_bytes(call_.type); }
  [[nodiscard]] const std::uint8_t* send() const noexcept { return static_cast<const std::uint8_t*>(call_.send); }
  [[nodiscard]] std::uint8_t* receive() const noexcept { return static_cast<std::uint8_t*>(call_.receive); }
  [[nodiscard]] bool scatters() const noexcept { return call_.collective == Collective::reduce_scatter; }
  std::uint32_t key_of(const void* data, std::size_t bytes);
  void release();
  void submit(SwitchPath& to, Invocation whole);
  void give_vector(HostPath::Work& to);
  [[nodiscard]] std::uint8_t* scratch(std::size_t bytes);

  Memory& memory_;
  Call call_;
  std::uint32_t rank_, ranks_;
  std::vector<Memory::Use> uses_;            ///< of registered memory, until it is over
  std::uint64_t there_ = 0;                  ///< of the result, which hosts do not bring once more
  std::vector<std::uint8_t> own_;            ///< of what runs again: its buffers
  std::unique_ptr<std::uint8_t[]> scratch_;  ///< sums on their way through a rank that gets none, or a part of them
};

}  // namespace weft::inc::comm
