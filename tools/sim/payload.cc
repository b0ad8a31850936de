// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/payload.h"

#include <algorithm>

namespace weft::sim {
namespace {

// What memory holds before a transfer is written to it.
constexpr std::uint8_t kUntouched = 0xa5;

// Byte `at` of a transfer.
std::uint8_t random_byte(std::uint64_t key, std::uint64_t at) {
  std::uint64_t v = key + (at / 8 + 1) * 0x9e3779b97f4a7c15;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
  v = (v ^ v >> 27) * 0x94d049bb133111eb;
  return static_cast<std::uint8_t>((v ^ v >> 31) >> at % 8 * 8);
}

std::uint64_t key_of(std::uint64_t seed, std::uint32_t transfer) {
  return (seed ^ (std::uint64_t{transfer} + 1) * 0xd6e8feb86659fd93) * 0xff51afd7ed558ccd;
}

}  // namespace

void RandomPayload::fill(std::uint32_t transfer, std::span<std::uint8_t> out) const {
  const std::uint64_t key = key_of(seed_, transfer);
  for (std::uint64_t i = 0; i < out.size(); ++i) out[i] = random_byte(key, i);
}

std::optional<std::uint64_t> RandomPayload::first_wrong(std::uint32_t transfer,
                                                        std::span<const std::uint8_t> got) const {
  const std::uint64_t key = key_of(seed_, transfer);
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    if (got[i] != random_byte(key, i)) return i;
  }
  return std::nullopt;
}

PayloadMemory::PayloadMemory(const Plan& plan, std::uint32_t hosts, const PayloadSource& source)
    : plan_(plan), source_(source), memory_(hosts), places_(plan.transfers.size()) {
  std::vector<std::uint64_t> used(hosts, 0);
  const auto take = [&](std::uint32_t host, std::uint64_t bytes) {
    used[host] += bytes;
    return used[host] - bytes;
  };
  for (std::size_t i = 0; i < plan.transfers.size(); ++i) {
    const Transfer& t = plan.transfers[i];
    places_[i].from = take(t.from, t.bytes);
    places_[i].to = take(t.to, t.bytes);
  }
  for (std::uint32_t h = 0; h < hosts; ++h) memory_[h].assign(used[h], kUntouched);
}

nic::Mr PayloadMemory::register_with(std::uint32_t host, nic::Device& device) {
  return device.reg_mr_iova({1}, memory_[host].data(), memory_[host].size(), nic::Access::all, 0);
}

void PayloadMemory::fill(std::uint32_t transfer) {
  const Transfer& t = plan_.transfers[transfer];
  source_.fill(transfer, std::span(memory_[t.from]).subspan(places_[transfer].from, t.bytes));
}

void PayloadMemory::compare(std::uint32_t transfer) {
  const Transfer& t = plan_.transfers[transfer];
  Place& place = places_[transfer];
  const auto at = source_.first_wrong(transfer, std::span(memory_[t.to]).subspan(place.to, t.bytes));
  if (!place.wrong) place.wrong = at;
}

void PayloadMemory::check(std::uint32_t transfer) {
  places_[transfer].received = true;
  compare(transfer);
}

std::string PayloadMemory::check_all() {
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i].received) compare(i);
    if (!places_[i].wrong) continue;
    const Transfer& t = plan_.transfers[i];
    return "transfer " + std::to_string(i) + " from host " + std::to_string(t.from) + " to host " +
           std::to_string(t.to) + " has a wrong value at byte " + std::to_string(*places_[i].wrong) + " of " +
           std::to_string(t.bytes);
  }
  return "";
}

std::uint64_t PayloadMemory::checked() const noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.received; }));
}

}  // namespace weft::sim
