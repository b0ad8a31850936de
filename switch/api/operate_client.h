// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch/api/client.h"
#include "switch/api/operator.h"

namespace weft::api {

/// Calls of operate.proto over the connection of a Client, as its calls. Sessions outlive connections: connect the
/// client again, make another of these, and read on.
class OperateClient {
 public:
  /// `client` is connected, and outlives it.
  explicit OperateClient(Client& client);
  ~OperateClient();
  OperateClient(const OperateClient&) = delete;
  OperateClient& operator=(const OperateClient&) = delete;

  [[nodiscard]] std::optional<CallError> start(const CaptureRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> start(const TraceRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> start(const RecordRequest& request, std::uint64_t& session);
  [[nodiscard]] std::optional<CallError> read(std::uint64_t session, SessionPart& part);
  [[nodiscard]] std::optional<CallError> stop(std::uint64_t session);
  [[nodiscard]] std::optional<CallError> clear(const std::vector<std::string>& tables, const std::string& switch_name,
                                               std::string& text);
  [[nodiscard]] std::optional<CallError> set(const SetRequest& request, std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
