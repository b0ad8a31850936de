// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/json.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <string>

#include "tools/weft-inc/commands.h"

namespace weft::inc_tool {

std::optional<std::string> json_text(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return std::nullopt;
  return text;
}

int print_json(const google::protobuf::Message& message) {
  const auto text = json_text(message);
  if (!text) return fail("the answer is no JSON", kExitFailed);
  std::puts(text->c_str());
  return kExitFine;
}

}  // namespace weft::inc_tool
