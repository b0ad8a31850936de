// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

namespace google::protobuf {
class Message;
}

namespace weft::inc_tool {

/// Prints a message as one line of JSON, all of its fields under their names in the .proto file; the exit status.
int print_json(const google::protobuf::Message& message);

}  // namespace weft::inc_tool
