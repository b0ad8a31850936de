// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Where the RDMA WRITEs of a peer are aimed (Mode I). The switch takes their bytes into its receive buffers, as it does
// those of SENDs: it turns the opcodes of WRITEs into those of SENDs, and keeps what the RETH of a message's first
// packet says until the message is there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nic/rnic/packet.h"

namespace weft::inc {

/// SEND in place of RDMA WRITE, of the same part of a message and with the same immediate.
[[nodiscard]] constexpr wire::Opcode send_of_write(wire::Opcode write) noexcept {
  constexpr int kToSend =
      static_cast<int>(wire::Opcode::RC_SEND_FIRST) - static_cast<int>(wire::Opcode::RC_RDMA_WRITE_FIRST);
  static_assert(static_cast<int>(wire::Opcode::RC_RDMA_WRITE_ONLY_IMM) + kToSend ==
                static_cast<int>(wire::Opcode::RC_SEND_ONLY_IMM));
  return static_cast<wire::Opcode>(static_cast<int>(write) + kToSend);
}

[[nodiscard]] constexpr bool is_write(wire::Opcode opcode) noexcept {
  return opcode >= wire::Opcode::RC_RDMA_WRITE_FIRST && opcode <= wire::Opcode::RC_RDMA_WRITE_ONLY_IMM;
}

class Landings {
 public:
  struct Landing {
    wire::Psn psn{};           ///< of the message's first packet
    std::uint64_t offset = 0;  ///< from the address of the peer's endpoint
    std::uint32_t bytes = 0;   ///< of the message, as its RETH says

    friend bool operator==(const Landing&, const Landing&) = default;
  };

  /// @param messages  that the peer may have under way
  explicit Landings(std::size_t messages) : most_(2 * messages) { all_.reserve(most_); }

  /// A message that begins. One that is sent again may say something else: what is said last is what arrives.
  /// False: there are more than can be under way, and the packet is better lost.
  [[nodiscard]] bool note(const Landing& landing) {
    const auto at = find(landing.psn);
    if (at != all_.end()) {
      *at = landing;
      return true;
    }
    if (all_.size() == most_) return false;
    all_.push_back(landing);
    return true;
  }

  /// A whole message has arrived. nullopt: it was no WRITE.
  [[nodiscard]] std::optional<Landing> take(wire::Psn first) {
    const auto at = find(first);
    if (at == all_.end()) return std::nullopt;
    const Landing out = *at;
    all_.erase(at);
    return out;
  }

  friend bool operator==(const Landings&, const Landings&) = default;
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(all_.size());
    for (const Landing& l : all_) {
      h(std::uint64_t{l.psn.value()} << 32 | l.bytes);
      h(l.offset);
    }
  }

 private:
  [[nodiscard]] std::vector<Landing>::iterator find(wire::Psn psn) {
    return std::find_if(all_.begin(), all_.end(), [&](const Landing& l) { return l.psn == psn; });
  }

  std::size_t most_;
  std::vector<Landing> all_;
};

}  // namespace weft::inc
