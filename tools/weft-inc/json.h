// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <optional>
#include <string>

namespace google::protobuf {
class Message;
}

namespace weft::inc_tool {

/// A message as one line of JSON, all of its fields under their names in the .proto file; nothing: it cannot be.
[[nodiscard]] std::optional<std::string> json_text(const google::protobuf::Message& message);

/// Prints a message as one line of JSON, all of its fields under their names in the .proto file; the exit status.
int print_json(const google::protobuf::Message& message);

}  // namespace weft::inc_tool
