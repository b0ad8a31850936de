// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Calls as the BPF programs report them.
#pragma once

#include <cstring>
#include <string>

#include "nic/agent/qp_event.h"
#include "switch/wire/addresses.h"

namespace weft::testing {

inline weft_qp_event qp_event(std::uint32_t kind, std::uint32_t qpn, std::uint32_t pid = 50) {
  weft_qp_event e{};
  e.kind = kind;
  e.qpn = qpn;
  e.pid = pid;
  e.type = 2;  // RC
  std::strcpy(e.device, "mlx5_0");
  std::strcpy(e.process, "program");
  return e;
}
/// With the masks of every RC program: to RTR, to RTS.
inline weft_qp_event to_rtr(std::uint32_t qpn, const std::string& remote, std::uint32_t remote_qpn) {
  weft_qp_event e = qp_event(WEFT_QP_MODIFY, qpn);
  e.mask = 0x129181;
  e.state = WEFT_STATE_RTR;
  e.path_mtu = 3;
  e.dest_qpn = remote_qpn;
  e.rq_psn = 900;
  e.port = 1;
  e.sgid_index = 3;
  const auto bytes = wire::IpAddress::parse(remote)->bytes();
  std::memcpy(e.dgid, bytes.data(), sizeof e.dgid);
  return e;
}
inline weft_qp_event to_rts(std::uint32_t qpn, std::uint32_t sq_psn) {
  weft_qp_event e = qp_event(WEFT_QP_MODIFY, qpn);
  e.mask = 0x12e01;
  e.state = WEFT_STATE_RTS;
  e.sq_psn = sq_psn;
  return e;
}

}  // namespace weft::testing
