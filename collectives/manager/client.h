// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Client of the manager (inc.proto). Answers are its messages.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "switch/config/tls_files.h"

namespace weft::inc::v1 {
class CreateGroupReply;
class CreateGroupRequest;
class DestroyGroupReply;
class DestroyGroupRequest;
class ListGroupsReply;
class RenewLeaseReply;
class RenewLeaseRequest;
class ReportNeighboursReply;
class ReportNeighboursRequest;
class ShowActivityReply;
class ShowTopologyReply;
class WhyEndedReply;
class WhyEndedRequest;
}  // namespace weft::inc::v1

namespace weft::inc::manager {

/// Calls block, from one thread at a time. Errors are sentences for an operator.
class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Connects to the unix socket `path`; replaces an earlier connection.
  [[nodiscard]] std::optional<std::string> connect(const std::string& path, std::chrono::milliseconds call_time);
  /// Several managers, of which one leads: calls go to the first that is there.
  /// @param addresses  HOST:PORT, or several of them with commas between; a manager's certificate must name the host
  /// @param first      which of them is asked first
  [[nodiscard]] std::optional<std::string> connect_tls(const std::string& addresses, const config::TlsFiles& files,
                                                       std::chrono::milliseconds call_time, std::size_t first = 0);

  /// Of the calls from now on, over the connection that there is.
  void set_call_time(std::chrono::milliseconds call_time) noexcept;
  /// Whether further calls may go over the connection that there is. False: none was made, or the manager has ended it.
  [[nodiscard]] bool is_open() const noexcept;
  /// Which of the addresses answered the last call.
  [[nodiscard]] std::size_t answered_by() const noexcept;
  /// Whether the last call failed because nobody answered; otherwise the manager did not take it.
  [[nodiscard]] bool unanswered() const noexcept;

  [[nodiscard]] std::optional<std::string> create(const v1::CreateGroupRequest& request, v1::CreateGroupReply& reply);
  [[nodiscard]] std::optional<std::string> explain(const v1::CreateGroupRequest& request, v1::CreateGroupReply& reply);
  [[nodiscard]] std::optional<std::string> renew(const v1::RenewLeaseRequest& request, v1::RenewLeaseReply& reply);
  [[nodiscard]] std::optional<std::string> destroy(const v1::DestroyGroupRequest& request,
                                                   v1::DestroyGroupReply& reply);
  [[nodiscard]] std::optional<std::string> groups(v1::ListGroupsReply& reply);
  [[nodiscard]] std::optional<std::string> topology(v1::ShowTopologyReply& reply);
  [[nodiscard]] std::optional<std::string> activity(v1::ShowActivityReply& reply);
  [[nodiscard]] std::optional<std::string> why_ended(const v1::WhyEndedRequest& request, v1::WhyEndedReply& reply);
  [[nodiscard]] std::optional<std::string> report(const v1::ReportNeighboursRequest& request,
                                                  v1::ReportNeighboursReply& reply);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::inc::manager
