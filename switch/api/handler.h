// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "switch/api/caller.h"
#include "switch/api/rpc_server.h"

namespace weft::api {

class Backend;

struct Handler {
  std::unique_ptr<grpc::Service> service;
  AsyncCalls* streams = nullptr;  ///< those of the service's calls that take no thread while they wait; its own
};

/// The calls of weft.proto, for a server. `backend` must outlive it.
/// @param operators  who may make all of them; others may run the verbs of which Backend::checks_peer() is true
[[nodiscard]] Handler make_handler(Backend& backend, Operators operators);

}  // namespace weft::api
