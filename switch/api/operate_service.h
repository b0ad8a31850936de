// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>

#include "switch/api/backend.h"

namespace grpc {
class Service;
}

namespace weft::api {

/// The service Operate of operate.proto, for a server that also has Control. `backend` must outlive it.
[[nodiscard]] std::unique_ptr<grpc::Service> make_operate_service(Backend& backend);

}  // namespace weft::api
