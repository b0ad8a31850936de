// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Commands of stages as messages of weft.proto, for clients.
#pragma once

#include "switch/api/requests.h"
#include "switch/api/weft.pb.h"

namespace weft::api {

[[nodiscard]] control::v1::StageCommandRequest message_of(const CommandRequest& request);
/// Takes the texts out of the reply.
[[nodiscard]] CommandResult result_of(control::v1::StageCommandReply& reply);

}  // namespace weft::api
