// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft.inc.v1 (inc.proto), answered by a running manager.
#pragma once

#include <memory>

#include "collectives/manager/running.h"

namespace grpc {
class Service;
}

namespace weft::inc::manager {

/// The calls of inc.proto, for an api::RpcServer. `manager` must outlive it. Who calls is found out by the manager's
/// tenants.
[[nodiscard]] std::unique_ptr<grpc::Service> make_service(RunningManager& manager);

}  // namespace weft::inc::manager
