// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "collectives/manager/etcd.grpc.pb.h"
#include "switch/api/channel.h"

namespace weft::inc::manager {
namespace {

/// For one member. A cluster that elects a leader answers later than usual.
constexpr std::chrono::milliseconds kMemberTime{1000};

}  // namespace

struct EtcdClient::Member {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<etcdserverpb::KV::Stub> kv;
  std::unique_ptr<etcdserverpb::Lease::Stub> lease;
};

EtcdClient::EtcdClient() = default;
EtcdClient::~EtcdClient() = default;

std::optional<std::string> EtcdClient::open(const EtcdPlace& place) {
  config::TlsTexts texts;
  if (place.files) {
    if (const auto mistakes = config::read_tls_files(*place.files, texts); !mistakes.empty()) {
      return mistakes.front().text;
    }
  }
  members_.clear();
  current_ = 0;
  for (const std::string& address : place.endpoints) {
    auto member = std::make_unique<Member>();
    member->address = address;
    member->channel = place.files ? api::tls_channel(address, texts) : api::plain_channel(address);
    member->kv = etcdserverpb::KV::NewStub(member->channel);
    member->lease = etcdserverpb::Lease::NewStub(member->channel);
    members_.push_back(std::move(member));
  }
  return std::nullopt;
}

std::optional<std::string> EtcdClient::each(
    const std::function<grpc::Status(Member& member, grpc::ClientContext& context)>& call) {
  std::string error = "no member of etcd is known";
  const std::size_t first = current_;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::size_t at = (first + i) % members_.size();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kMemberTime);
    const grpc::Status status = call(*members_[at], context);
    if (status.ok()) {
      current_ = at;
      return std::nullopt;
    }
    error = "etcd at " + members_[at]->address + ": " +
            (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
                 ? "no answer within " + std::to_string(kMemberTime.count()) + " ms"
                 : status.error_message());
    if (!api::went_unanswered(status)) return error;
  }
  return error;
}

std::optional<std::string> EtcdClient::range(const etcdserverpb::RangeRequest& request,
                                             etcdserverpb::RangeResponse& reply) {
  return each([&](Member& m, grpc::ClientContext& context) { return m.kv->Range(&context, request, &reply); });
}

std::optional<std::string> EtcdClient::txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& reply) {
  return each([&](Member& m, grpc::ClientContext& context) { return m.kv->Txn(&context, request, &reply); });
}

std::optional<std::string> EtcdClient::grant(std::uint32_t seconds, std::int64_t& id) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcdserverpb::LeaseGrantResponse reply;
  auto error =
      each([&](Member& m, grpc::ClientContext& context) { return m.lease->LeaseGrant(&context, request, &reply); });
  if (!error && !reply.error().empty()) error = "etcd: " + reply.error();
  id = reply.id();
  return error;
}

std::optional<std::string> EtcdClient::keep_alive(std::int64_t id, std::int64_t& left) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(id);
  etcdserverpb::LeaseKeepAliveResponse reply;
  auto error = each([&](Member& m, grpc::ClientContext& context) {
    const auto stream = m.lease->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&reply);
    if (!answered) {
      const grpc::Status status = stream->Finish();
      return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer about the lease") : status;
    }
    // The stream would go on for further requests.
    context.TryCancel();
    static_cast<void>(stream->Finish());
    return grpc::Status::OK;
  });
  left = reply.ttl();
  return error;
}

std::optional<std::string> EtcdClient::revoke(std::int64_t id) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(id);
  etcdserverpb::LeaseRevokeResponse reply;
  return each([&](Member& m, grpc::ClientContext& context) { return m.lease->LeaseRevoke(&context, request, &reply); });
}

}  // namespace weft::inc::manager
