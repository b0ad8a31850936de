// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/request.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::inc::comm {
namespace {

/// Of all buffers of a call: what can be counted without overflow, whatever the number of ranks.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 46;

bool overlap(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) noexcept {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

bool reduces(Collective c) noexcept {
  return c == Collective::allreduce || c == Collective::reduce || c == Collective::reduce_scatter;
}

}  // namespace

std::string check(const Call& call, std::uint32_t rank, std::uint32_t ranks) {
  if (call.collective == Collective::barrier) return "";
  const std::uint64_t element = element_bytes(call.type);
  if (element == 0) return "there is no type " + std::to_string(static_cast<unsigned>(call.type));
  if (reduces(call.collective) && arithmetic(call.type, call.op) == nullptr) {
    return "there is no operation " + std::to_string(static_cast<unsigned>(call.op)) + " of type " +
           std::string(to_string(call.type));
  }
  const bool rooted = call.collective == Collective::reduce || call.collective == Collective::broadcast;
  if (rooted && call.root >= ranks) {
    return "the root is rank " + std::to_string(call.root) + " of a group of " + std::to_string(ranks);
  }
  if (call.count > kMaxBytes / element / ranks) return "a count of " + std::to_string(call.count) + " is too large";
  if (call.count == 0) return "";
  const bool sends = call.collective != Collective::broadcast;
  const bool receives = call.collective != Collective::reduce || call.root == rank;
  if (sends && call.send == nullptr) return "the send buffer is a null pointer";
  if (receives && call.receive == nullptr) return "the receive buffer is a null pointer";
  if (!sends || !receives) return "";
  const std::uint64_t block = call.count * element;
  const std::uint64_t send_bytes = call.collective == Collective::reduce_scatter ? block * ranks : block;
  const std::uint64_t receive_bytes = call.collective == Collective::allgather ? block * ranks : block;
  const auto* send = static_cast<const std::uint8_t*>(call.send);
  const auto* receive = static_cast<const std::uint8_t*>(call.receive);
  const bool in_place = call.collective == Collective::reduce_scatter ? receive == send + rank * block
                        : call.collective == Collective::allgather    ? send == receive + rank * block
                                                                      : send == receive;
  if (!in_place && overlap(send, send_bytes, receive, receive_bytes)) {
    return "send and receive buffers overlap, and are not in place";
  }
  return "";
}

Request::Request(Memory& memory, const Call& call, std::uint32_t rank, std::uint32_t ranks)
    : memory_(memory), call_(call), rank_(rank), ranks_(ranks) {}

Request::Request(Memory& memory, Past past, std::uint32_t rank, std::uint32_t ranks)
    : memory_(memory), call_(past.call), rank_(rank), ranks_(ranks), own_(std::move(past.vector)) {
  again = true;
  // Of a Reduce the root has no copy: its result is known to nobody else.
  if (call_.collective == Collective::reduce && call_.root == rank) own_.resize(block_bytes());
  call_.send = own_.data();
  call_.receive = own_.data();
  if (call_.collective == Collective::reduce_scatter) call_.receive = own_.data() + rank * block_bytes();
}

Request::~Request() {
  release();
}

std::uint32_t Request::key_of(const void* data, std::size_t bytes) {
  uses_.push_back(memory_.use(data, bytes));
  return uses_.back().key;
}

void Request::release() {
  for (const Memory::Use& use : uses_) memory_.done(use);
  uses_.clear();
}

/// One invocation takes kMaxInvocationBytes at most.
void Request::submit(SwitchPath& to, Invocation whole) {
  const std::uint64_t bytes = whole.bytes;
  std::uint64_t done = 0;
  do {
    Invocation piece = whole;
    piece.bytes = std::min(kMaxInvocationBytes, bytes - done);
    if (whole.send != nullptr) piece.send = whole.send + done;
    if (whole.receive != nullptr) piece.receive = whole.receive + done;
    if (whole.own != nullptr) piece.own = whole.own + done;
    to.submit(piece);
    done += piece.bytes;
  } while (done < bytes);
}

void Request::start(SwitchPath& to) {
  first_invocation = to.submitted();
  const std::uint64_t bytes = block_bytes();
  Invocation one;
  one.copied = bytes <= SwitchPath::kMostCopied;
  const auto key = [&](const void* data, std::uint64_t all) { return one.copied ? 0 : key_of(data, all); };
  one.op = call_.op;
  one.type = call_.type;
  one.bytes = bytes;
  switch (call_.collective) {
    case Collective::barrier:
      submit(to, {Primitive::barrier, {}, {}, 0, 0, nullptr, 0, nullptr, nullptr, false});
      break;
    case Collective::allreduce:
      one.primitive = Primitive::allreduce;
      one.send = send();
      one.send_key = key(send(), bytes);
      one.receive = receive();
      submit(to, one);
      break;
    case Collective::reduce:
    case Collective::reduce_scatter: {
      const bool scatter = scatters();
      one.primitive = Primitive::reduce;
      one.send_key = key(send(), scatter ? bytes * ranks_ : bytes);
      for (std::uint32_t root = scatter ? 0 : call_.root; root < (scatter ? ranks_ : call_.root + 1); ++root) {
        const std::uint8_t* from = scatter ? send() + root * bytes : send();
        one.root = static_cast<std::uint16_t>(root);
        one.send = from;
        one.own = root == rank_ ? from : nullptr;
        one.receive = root == rank_ ? receive() : nullptr;
        submit(to, one);
      }
      break;
    }
    case Collective::broadcast:
      one.primitive = Primitive::broadcast;
      one.root = static_cast<std::uint16_t>(call_.root);
      one.op = {};
      one.send = one.receive = receive();
      one.send_key = key(receive(), bytes);
      submit(to, one);
      break;
    case Collective::allgather:
      one.primitive = Primitive::broadcast;
      one.op = {};
      one.send = send();
      one.send_key = key(send(), bytes);
      for (std::uint32_t root = 0; root < ranks_; ++root) {
        one.root = static_cast<std::uint16_t>(root);
        one.receive = receive() + root * bytes;
        submit(to, one);
      }
      break;
  }
  if (confirms) submit(to, {Primitive::barrier, {}, {}, 0, 0, nullptr, 0, nullptr, nullptr, false});
  last_invocation = to.submitted();
  state = State::running;
}

/// Without zeros, whose pages would all be touched at once.
std::uint8_t* Request::scratch(std::size_t bytes) {
  scratch_ = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
  return scratch_.get();
}

/// The vector that hosts work in, and where this rank's contribution is.
void Request::give_vector(HostPath::Work& to) {
  const std::uint64_t bytes = block_bytes();
  to.own = send();
  switch (call_.collective) {
    case Collective::barrier:
      break;
    case Collective::broadcast:
      to.own = to.vector = receive();
      break;
    case Collective::allgather:
      to.vector = receive();
      to.own_at = rank_ * bytes;
      break;
    case Collective::reduce_scatter:
      to.vector = scratch(bytes * ranks_);
      if (there_ > 0) break;
      to.result = receive();
      to.result_at = rank_ * bytes;
      to.result_end = to.result_at + bytes;
      break;
    case Collective::reduce:
      if (is_root_of_reduce() && there_ == 0) {
        to.vector = receive();
      } else if (!is_root_of_reduce() && to.schedule.size() == 1) {
        // A leaf of the tree only sends; nothing is written to what it gives.
        to.vector = const_cast<std::uint8_t*>(send());
      } else {
        to.vector = scratch(bytes);
      }
      break;
    case Collective::allreduce:
      to.vector = receive() + begins_at;
      to.own = send() + begins_at;
      break;
  }
  to.key = key_of(to.vector, largest_bytes() - begins_at);
  if (to.own == to.vector + to.own_at) {
    to.own = nullptr;
  } else {
    to.own_key = key_of(to.own, bytes * (scatters() ? ranks_ : 1) - begins_at);
  }
}

void Request::start(HostPath& to) {
  HostPath::Work work;
  const std::uint64_t count = call_.count - (begins_at == 0 ? 0 : begins_at / element_bytes(call_.type));
  work.schedule = host_schedule(call_.collective, algorithm, rank_, ranks_, call_.root, count,
                                static_cast<std::uint32_t>(element_bytes(call_.type)));
  if (call_.collective != Collective::barrier && call_.count > 0) give_vector(work);
  work.type = call_.type;
  work.op = call_.op;
  to.begin(std::move(work));
  state = State::running;
}

void Request::run_alone() {
  const bool moves = call_.collective != Collective::barrier && call_.collective != Collective::broadcast;
  if (moves && call_.count > 0 && call_.receive != call_.send) std::memcpy(receive(), send(), block_bytes());
  state = State::done;
}

void Request::finish() {
  // Hosts have run what had come in part: the rest is theirs.
  if (scratch_ != nullptr && there_ > 0 && (scatters() || is_root_of_reduce())) {
    const std::uint8_t* result = scratch_.get() + (scatters() ? rank_ * block_bytes() : 0);
    std::copy(result + there_, result + block_bytes(), receive() + there_);
  }
  release();
  scratch_.reset();
  state = State::done;
}

bool Request::has_all(const SwitchPath& from) const noexcept {
  if (state != State::running || !by_switch) return false;
  for (std::uint64_t i = first_invocation; i < last_invocation; ++i) {
    if (!from.has_all(i)) return false;
  }
  return true;
}

bool shares_result(Collective c) noexcept {
  return c == Collective::allreduce || c == Collective::barrier || c == Collective::allgather;
}

std::span<std::uint8_t> Request::shared_result() const noexcept {
  if (call_.collective == Collective::barrier) return {};
  return {receive(), block_bytes() * (call_.collective == Collective::allgather ? ranks_ : 1)};
}

bool Request::shows_others() const noexcept {
  const bool gets =
      call_.collective == Collective::reduce_scatter || (call_.collective == Collective::reduce && call_.root == rank_);
  return shares_result() || gets;
}

std::size_t Request::past_bytes() const noexcept {
  switch (call_.collective) {
    case Collective::barrier:
      return 0;
    case Collective::reduce:
      return call_.root == rank_ ? 0 : block_bytes();
    case Collective::allgather:
    case Collective::reduce_scatter:
      return block_bytes() * ranks_;
    case Collective::allreduce:
    case Collective::broadcast:
      break;
  }
  return block_bytes();
}

Past Request::past(std::vector<std::uint8_t> memory) const {
  // Of a ReduceScatter in place, this rank's own block is its result: nobody else needs what was there.
  const bool gave = call_.collective == Collective::reduce || call_.collective == Collective::reduce_scatter;
  const std::uint8_t* from = gave ? send() : receive();
  memory.assign(from, from + past_bytes());
  return {call_, std::move(memory)};
}

std::uint64_t Request::largest_bytes() const noexcept {
  if (call_.collective == Collective::barrier) return 0;
  return block_bytes() * (scatters() || call_.collective == Collective::allgather ? ranks_ : 1);
}

bool Request::is_through(const SwitchPath& from) const noexcept {
  if (state != State::running || !by_switch) return false;
  for (std::uint64_t i = first_invocation; i + (confirms ? 1 : 0) < last_invocation; ++i) {
    if (!from.is_through(i)) return false;
  }
  return true;
}

std::uint64_t Request::come(const SwitchPath& from) const noexcept {
  const bool gets = reduces(call_.collective) && (call_.collective != Collective::reduce || call_.root == rank_);
  if (!gets || state != State::running || !by_switch) return 0;
  const std::uint64_t pieces = (block_bytes() + kMaxInvocationBytes - 1) / kMaxInvocationBytes;
  const std::uint64_t first = first_invocation + (scatters() ? rank_ * pieces : 0);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = first; i < first + pieces; ++i) {
    const std::uint64_t piece = std::min(kMaxInvocationBytes, block_bytes() - bytes);
    const std::uint64_t there = i < from.completed() ? piece : from.bytes_come(i);
    bytes += there;
    if (there < piece) break;
  }
  return bytes;
}

void Request::begin_again(const SwitchPath& from) {
  if (call_.collective != Collective::allreduce) there_ = come(from);
  release();
  state = State::waiting;
}

void Request::fail(std::string why) {
  error = std::move(why);
  state = State::failed;
}

}  // namespace weft::inc::comm
