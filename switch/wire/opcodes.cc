// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/opcodes.h"

namespace weft::wire {

std::string_view opcode_name(std::uint8_t raw) noexcept {
  if (!opcode_info(raw).known()) return "UNKNOWN";
  switch (static_cast<Opcode>(raw)) {
#define WEFT_NAME(o) \
  case Opcode::o:    \
    return #o
    WEFT_NAME(RC_SEND_FIRST);
    WEFT_NAME(RC_SEND_MIDDLE);
    WEFT_NAME(RC_SEND_LAST);
    WEFT_NAME(RC_SEND_LAST_IMM);
    WEFT_NAME(RC_SEND_ONLY);
    WEFT_NAME(RC_SEND_ONLY_IMM);
    WEFT_NAME(RC_RDMA_WRITE_FIRST);
    WEFT_NAME(RC_RDMA_WRITE_MIDDLE);
    WEFT_NAME(RC_RDMA_WRITE_LAST);
    WEFT_NAME(RC_RDMA_WRITE_LAST_IMM);
    WEFT_NAME(RC_RDMA_WRITE_ONLY);
    WEFT_NAME(RC_RDMA_WRITE_ONLY_IMM);
    WEFT_NAME(RC_RDMA_READ_REQUEST);
    WEFT_NAME(RC_RDMA_READ_RESPONSE_FIRST);
    WEFT_NAME(RC_RDMA_READ_RESPONSE_MIDDLE);
    WEFT_NAME(RC_RDMA_READ_RESPONSE_LAST);
    WEFT_NAME(RC_RDMA_READ_RESPONSE_ONLY);
    WEFT_NAME(RC_ACKNOWLEDGE);
    WEFT_NAME(RC_ATOMIC_ACKNOWLEDGE);
    WEFT_NAME(RC_CMP_SWAP);
    WEFT_NAME(RC_FETCH_ADD);
    WEFT_NAME(RC_SEND_LAST_INV);
    WEFT_NAME(RC_SEND_ONLY_INV);
    WEFT_NAME(UC_SEND_FIRST);
    WEFT_NAME(UC_SEND_MIDDLE);
    WEFT_NAME(UC_SEND_LAST);
    WEFT_NAME(UC_SEND_LAST_IMM);
    WEFT_NAME(UC_SEND_ONLY);
    WEFT_NAME(UC_SEND_ONLY_IMM);
    WEFT_NAME(UC_RDMA_WRITE_FIRST);
    WEFT_NAME(UC_RDMA_WRITE_MIDDLE);
    WEFT_NAME(UC_RDMA_WRITE_LAST);
    WEFT_NAME(UC_RDMA_WRITE_LAST_IMM);
    WEFT_NAME(UC_RDMA_WRITE_ONLY);
    WEFT_NAME(UC_RDMA_WRITE_ONLY_IMM);
    WEFT_NAME(UD_SEND_ONLY);
    WEFT_NAME(UD_SEND_ONLY_IMM);
    WEFT_NAME(CNP);
#undef WEFT_NAME
  }
  return "UNKNOWN";
}

std::optional<Opcode> opcode_from_name(std::string_view name) noexcept {
  for (unsigned raw = 0; raw < kOpcodeTable.size(); ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (opcode_info(opcode).known() && opcode_name(opcode) == name) return static_cast<Opcode>(opcode);
  }
  return std::nullopt;
}

}  // namespace weft::wire
