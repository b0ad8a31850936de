// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/work.h"

namespace weft::nic {
namespace {

constexpr std::array<std::string_view, 8> kOpcodes{"SEND",      "SEND_IMM", "SEND_INV", "WRITE",
                                                   "WRITE_IMM", "READ",     "CMP_SWAP", "FETCH_ADD"};
constexpr std::array<std::string_view, 9> kStatuses{
    "success",
    "local length error",
    "local protection error",
    "flushed",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
};
constexpr std::array<std::string_view, 5> kPostResults{"ok", "queue full", "invalid state", "invalid length",
                                                       "invalid scatter/gather list"};

}  // namespace

std::string_view name(WrOpcode op) noexcept {
  return kOpcodes[static_cast<std::size_t>(op)];
}
std::string_view name(WcStatus s) noexcept {
  return kStatuses[static_cast<std::size_t>(s)];
}
std::string_view name(PostResult r) noexcept {
  return kPostResults[static_cast<std::size_t>(r)];
}

}  // namespace weft::nic
