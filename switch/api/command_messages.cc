// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/command_messages.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace weft::api {

namespace v1 = control::v1;

v1::StageCommandRequest message_of(const CommandRequest& request) {
  v1::StageCommandRequest out;
  out.set_switch_name(request.switch_name);
  out.set_stage(request.stage);
  out.set_verb(request.verb);
  for (const auto& word : request.words) out.add_arguments(word);
  return out;
}

CommandResult result_of(v1::StageCommandReply& reply) {
  CommandResult result;
  result.done = std::move(*reply.mutable_text());
  for (const auto& row : reply.rows_json()) {
    result.rows.push_back(nlohmann::ordered_json::parse(row, nullptr, false));
  }
  return result;
}

}  // namespace weft::api
