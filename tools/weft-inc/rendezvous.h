// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the ranks of a measurement find each other: over TCP, by rank 0, which everybody knows the address of.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "nic/host/interface.h"

namespace weft::inc_tool {

class Rendezvous {
 public:
  using Bytes = std::vector<std::uint8_t>;

  /// Rank 0 listens at the address, the others connect to it, and wait for it if need be.
  /// @param where  ADDRESS:PORT, of IPv6 [ADDRESS]:PORT
  /// @param limit  for all to come, and after which a rank whose host does not answer any more counts as gone (2 s at
  ///               least)
  /// @return what went wrong, in words, or an empty string
  [[nodiscard]] std::string meet(const std::string& where, std::uint32_t rank, std::uint32_t ranks,
                                 std::chrono::seconds limit);
  /// Gives what every rank has to say, by rank. All say as many bytes, and 1 MiB at most. Empty: somebody is gone.
  [[nodiscard]] std::vector<Bytes> allgather(const Bytes& ours);

 private:
  std::uint32_t rank_ = 0, ranks_ = 0;
  std::vector<nic::Descriptor> peers_;  ///< rank 0: by rank; the others: rank 0
};

}  // namespace weft::inc_tool
