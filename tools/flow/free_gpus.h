// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which GPUs a job gets.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "switch/base/rng.h"
#include "tools/flow/fabric.h"

namespace weft::flow {

enum class Placement : std::uint8_t {
  packed,  ///< the free servers with the lowest numbers
  random,  ///< any free servers
};
[[nodiscard]] std::string_view to_string(Placement placement) noexcept;

/// Free GPUs, by servers. A job gets whole servers, and what is left over on one server that has room for it: that with
/// the least.
class FreeGpus {
 public:
  FreeGpus(std::uint32_t gpus, std::uint32_t per_server, Placement placement, std::uint64_t seed);

  /// In ascending order; nullopt when there are too few.
  [[nodiscard]] std::optional<std::vector<Gpu>> take(std::uint32_t count);
  void give_back(const std::vector<Gpu>& gpus);
  [[nodiscard]] std::uint32_t free() const noexcept { return free_; }

 private:
  void take_from(std::uint32_t server, std::uint32_t count, std::vector<Gpu>& out);

  std::uint32_t per_server_ = 1, free_ = 0;
  Placement placement_;
  Rng rng_;
  std::vector<bool> is_free_;
  std::vector<std::uint32_t> room_;  ///< by server
};

}  // namespace weft::flow
