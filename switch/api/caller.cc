// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/caller.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <algorithm>

namespace weft::api {

std::string Caller::text() const {
  if (!remote) return "";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list.empty() ? "(nobody)" : list;
}

bool Caller::is_operator(const Operators& operators) const {
  if (!remote || !operators) return true;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(operators->begin(), operators->end(), name) != operators->end();
  });
}

Caller caller_of(const grpc::ServerContext& context) {
  Caller caller;
  const auto identity = context.auth_context();
  if (identity == nullptr) return caller;
  // A certificate without any name is no identity for gRPC; it came over TLS nevertheless.
  for (const auto& type : identity->FindPropertyValues("transport_security_type")) {
    caller.remote = caller.remote || type == "ssl" || type == "tls";
  }
  caller.remote = caller.remote || identity->IsPeerAuthenticated();
  if (!caller.remote) return caller;
  for (const char* property : {"x509_common_name", "x509_subject_alternative_name"}) {
    for (const auto& value : identity->FindPropertyValues(property)) {
      std::string name(value.data(), value.size());
      if (!name.empty() && name.find(',') == std::string::npos) caller.names.push_back(std::move(name));
    }
  }
  return caller;
}

}  // namespace weft::api
