// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flow_key.h"

namespace weft::stages {
namespace {

std::string hex(std::uint64_t bits) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, bits >>= 4) *digit = "0123456789abcdef"[bits & 15];
  return text;
}

}  // namespace

std::string FlowKey::to_string() const {
  const auto number = [](std::uint64_t bits) { return std::to_string(bits & 0xffff); };
  return "addresses " + hex(addresses) + " protocol " + std::to_string(ports & 0xff) + " ports " + number(ports >> 32) +
         " " + number(ports >> 16) + (qp() == wire::Qpn(0) ? "" : " qp " + std::to_string(qp().value()));
}

}  // namespace weft::stages
