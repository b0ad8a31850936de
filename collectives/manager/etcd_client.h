// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Calls to a cluster of etcd, version 3: to one member, and to the next one when that does not answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/tls_files.h"

namespace etcdserverpb {
class RangeRequest;
class RangeResponse;
class TxnRequest;
class TxnResponse;
}  // namespace etcdserverpb
namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace weft::inc::manager {

/// Where etcd is, and what the manager may call its own there.
struct EtcdPlace {
  std::vector<std::string> endpoints;     ///< HOST:PORT of members, one at least
  std::optional<config::TlsFiles> files;  ///< nullopt: without TLS
  std::string prefix = "/weft/inc-manager";
  std::uint32_t lease_s = 5;  ///< after which another manager may lead when this one is not heard of; 1 or more
};

/// May be used by several threads. Errors are sentences that name the member that was asked last.
class EtcdClient {
 public:
  EtcdClient();
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  /// @return what is wrong with the certificates; whether members answer, the first call finds out
  [[nodiscard]] std::optional<std::string> open(const EtcdPlace& place);

  [[nodiscard]] std::optional<std::string> range(const etcdserverpb::RangeRequest& request,
                                                 etcdserverpb::RangeResponse& reply);
  /// Without an answer it may have been carried out nevertheless; it may be sent again if that does no harm.
  [[nodiscard]] std::optional<std::string> txn(const etcdserverpb::TxnRequest& request,
                                               etcdserverpb::TxnResponse& reply);
  /// @return the lease's number in `id`
  [[nodiscard]] std::optional<std::string> grant(std::uint32_t seconds, std::int64_t& id);
  /// @return seconds that it is good for in `left`; 0: it has ended
  [[nodiscard]] std::optional<std::string> keep_alive(std::int64_t id, std::int64_t& left);
  [[nodiscard]] std::optional<std::string> revoke(std::int64_t id);

 private:
  struct Member;
  /// Each member once, beginning with the one that answered last, until one answers.
  [[nodiscard]] std::optional<std::string> each(
      const std::function<grpc::Status(Member& member, grpc::ClientContext& context)>& call);

  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<std::size_t> current_{0};
};

}  // namespace weft::inc::manager
