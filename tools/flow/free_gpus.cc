// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/free_gpus.h"

#include <algorithm>
#include <utility>

namespace weft::flow {

FreeGpus::FreeGpus(std::uint32_t gpus, std::uint32_t per_server, Placement placement, std::uint64_t seed)
    : per_server_(per_server),
      free_(gpus),
      placement_(placement),
      rng_(seed),
      is_free_(gpus, true),
      room_((gpus + per_server - 1) / per_server, per_server) {
  if (gpus % per_server != 0) room_.back() = gpus % per_server;
}

void FreeGpus::take_from(std::uint32_t server, std::uint32_t count, std::vector<Gpu>& out) {
  room_[server] -= count;
  free_ -= count;
  for (Gpu g = server * per_server_; count > 0; ++g) {
    if (!is_free_[g]) continue;
    is_free_[g] = false;
    out.push_back(g);
    --count;
  }
}

std::optional<std::vector<Gpu>> FreeGpus::take(std::uint32_t count) {
  std::vector<std::uint32_t> whole;
  for (std::uint32_t s = 0; s < room_.size(); ++s) {
    if (room_[s] == per_server_) whole.push_back(s);
  }
  const std::uint32_t servers = count / per_server_, rest = count % per_server_;
  if (whole.size() < servers) return std::nullopt;
  if (placement_ == Placement::random) {
    for (std::size_t i = 0; i < servers; ++i) std::swap(whole[i], whole[i + rng_.below(whole.size() - i)]);
  }
  // The rest goes where it leaves the least.
  std::optional<std::uint32_t> last;
  const auto taken = whole.begin() + servers;
  for (std::uint32_t s = 0; s < room_.size() && rest > 0; ++s) {
    if (room_[s] < rest || std::find(whole.begin(), taken, s) != taken) continue;
    if (!last || room_[s] < room_[*last]) last = s;
  }
  if (rest > 0 && !last) return std::nullopt;
  std::vector<Gpu> out;
  std::for_each(whole.begin(), taken, [&](std::uint32_t s) { take_from(s, per_server_, out); });
  if (last) take_from(*last, rest, out);
  std::sort(out.begin(), out.end());
  return out;
}

void FreeGpus::give_back(const std::vector<Gpu>& gpus) {
  for (const Gpu g : gpus) {
    is_free_[g] = true;
    ++room_[g / per_server_];
  }
  free_ += static_cast<std::uint32_t>(gpus.size());
}

std::string_view to_string(Placement placement) noexcept {
  return placement == Placement::packed ? "packed" : "random";
}

}  // namespace weft::flow
