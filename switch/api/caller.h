// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who makes a call, by the certificate that the connection was opened with, and what it may ask.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace grpc {
class ServerContext;
}

namespace weft::api {

/// Names in certificates of clients that may do everything; nullopt: all clients may.
using Operators = std::optional<std::vector<std::string>>;

struct Caller {
  bool remote = false;               ///< it came over TLS; the unix socket lets in only who may do everything
  std::vector<std::string> names{};  ///< in its certificate: common name, then alternative names

  /// The names, separated by commas; "" for the unix socket. A certificate without names is "(nobody)", which is no
  /// name of a host.
  [[nodiscard]] std::string text() const;
  /// It may ask for anything. Names are compared as they are, without regard for wildcards.
  [[nodiscard]] bool is_operator(const Operators& operators) const;
};

/// Names that hold a comma are left out, because lists of names are separated by commas: nobody passes for two.
[[nodiscard]] Caller caller_of(const grpc::ServerContext& context);

}  // namespace weft::api
