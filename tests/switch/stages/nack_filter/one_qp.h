// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One queue pair of a filter, for tests of nack_filter's unit.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "switch/stages/nack_filter/unit.h"

namespace weft::stages {

class OneQp {
 public:
  explicit OneQp(const NackRules& rules) : unit(rules), memory_(unit.bytes() / sizeof(Line) + 1) {
    unit.start(qp(), std::nullopt);
  }
  NackQp qp() { return unit.view(reinterpret_cast<std::byte*>(memory_.data())); }
  NackState& state() { return qp().state(); }
  [[nodiscard]] bool has(std::uint8_t flags) { return (state().flags & flags) != 0; }
  /// By two uplinks in turn.
  DataVerdict data(std::uint32_t psn, std::uint32_t psns = 1) { return data_through(psn % 2, psn, psns); }
  DataVerdict data_through(std::uint32_t uplink, std::uint32_t psn, std::uint32_t psns = 1) {
    return unit.on_data(qp(), wire::Psn(psn), uplink, psns);
  }
  void all(std::initializer_list<std::uint32_t> psns) {
    for (const auto psn : psns) data(psn);
  }
  NackVerdict nack(std::uint32_t psn, std::uint64_t now = 0, std::uint32_t msn = 0) {
    return unit.on_nack(qp(), now, wire::Psn(psn), msn);
  }
  void ack(std::uint32_t psn) { unit.on_receipt(qp(), wire::Psn(psn)); }

  NackFilterUnit unit;

 private:
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<Line> memory_;
};

}  // namespace weft::stages
