// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The connection of a client, for the sources that make calls over it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "switch/api/client.h"
#include "switch/api/weft.grpc.pb.h"

namespace weft::api {

namespace v1 = control::v1;

struct Client::Impl {
  /// Makes a call within `call_time`; again, as long as the server had no thread for it, for then nothing of it ran.
  template <typename Call>
  [[nodiscard]] std::optional<CallError> call(Call&& body) const {
    const auto deadline = std::chrono::system_clock::now() + call_time;
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      const grpc::Status status = body(context);
      if (!lacked_a_thread(status) || std::chrono::system_clock::now() + pause >= deadline) return to_error(status);
      std::this_thread::sleep_for(pause);
    }
  }

  std::string path;  ///< or HOST:PORT
  bool tls = false;
  std::chrono::milliseconds call_time{};
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;

 private:
  static constexpr std::chrono::milliseconds kFirstPause{5};
  static constexpr std::chrono::milliseconds kLongestPause{100};

  static bool lacked_a_thread(const grpc::Status& status);
  [[nodiscard]] std::optional<CallError> to_error(const grpc::Status& status) const;
};

}  // namespace weft::api
