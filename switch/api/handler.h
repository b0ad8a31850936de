// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>

#include "switch/api/caller.h"

namespace grpc {
class Service;
}

namespace weft::api {

class Backend;

/// The calls of weft.proto, for a server. `backend` must outlive it.
/// @param operators  who may make all of them; others may run the verbs of which Backend::checks_peer() is true
[[nodiscard]] std::unique_ptr<grpc::Service> make_handler(Backend& backend, Operators operators);

}  // namespace weft::api
