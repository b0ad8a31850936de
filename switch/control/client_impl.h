// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The connection of a client, for the sources that make calls over it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "switch/control/client.h"
#include "switch/control/weft.grpc.pb.h"

namespace weft::control {

struct Client::Impl {
  /// Sets the deadline that every call has.
  void limit(grpc::ClientContext& context) const;
  [[nodiscard]] std::optional<CallError> to_error(const grpc::Status& status) const;

  std::string path;  ///< or HOST:PORT
  bool tls = false;
  std::chrono::milliseconds call_time{};
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;
};

}  // namespace weft::control
