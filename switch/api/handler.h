// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace weft::api {

class Backend;

/// The calls of weft.proto, for a server. `backend` must outlive it.
[[nodiscard]] std::unique_ptr<grpc::Service> make_handler(Backend& backend);

}  // namespace weft::api
