// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the environment says of the process's RNIC and of its groups: a launcher such as torchrun passes it on.
#pragma once

#include <memory>

#include "collectives/comm/weft_inc.h"

namespace weft::inc::pytorch {

/// The process's RNIC, which its groups share: WEFT_TORCH_DEVICE, _INTERFACE, _ADDRESS and WEFT_INC_SOCKET. It is
/// opened when the first group wants it, and closed with the last one.
/// @throws std::runtime_error  with libweftinc's words: there is no such device, or no right to use it
[[nodiscard]] std::shared_ptr<weft_inc_context> shared_context();

/// Of a group: WEFT_TORCH_BACKEND, _MTU, _REPRODUCIBLE. All ranks of a group have to have the same.
/// @param deterministic  what the program has asked PyTorch for; REPRODUCIBLE overrides it
/// @throws std::runtime_error  names the variable whose value is none
[[nodiscard]] weft_inc_group_options group_options(bool deterministic);

}  // namespace weft::inc::pytorch
