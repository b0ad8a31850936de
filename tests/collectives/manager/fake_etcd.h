// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the manager uses of etcd, in the test's process: keys, transactions, leases, and a network that can fail.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "collectives/manager/etcd.grpc.pb.h"

namespace weft::inc::manager {

/// Members share this.
class EtcdData {
 public:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::int64_t made = 0;
    std::string value;
    std::int64_t lease = 0;
  };

  etcdserverpb::RangeResponse read(const etcdserverpb::RangeRequest& r) {
    const std::lock_guard lock(mutex_);
    expire();
    return range(r);
  }
  etcdserverpb::TxnResponse txn(const etcdserverpb::TxnRequest& r) {
    const std::lock_guard lock(mutex_);
    expire();
    etcdserverpb::TxnResponse out;
    out.set_succeeded(std::all_of(r.compare().begin(), r.compare().end(), [&](const auto& c) { return holds(c); }));
    const auto& operations = out.succeeded() ? r.success() : r.failure();
    largest_ = std::max(largest_, operations.size());
    ++revision_;
    for (const auto& op : operations) run(op, *out.add_responses());
    out.mutable_header()->set_revision(revision_);
    ++transactions_;
    return out;
  }
  std::int64_t grant(std::int64_t seconds) {
    const std::lock_guard lock(mutex_);
    leases_[++last_lease_] = {seconds, Clock::now() + std::chrono::seconds(seconds)};
    return last_lease_;
  }
  std::int64_t keep_alive(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    expire();
    const auto at = leases_.find(id);
    if (at == leases_.end()) return 0;
    at->second.second = Clock::now() + std::chrono::seconds(at->second.first);
    return at->second.first;
  }
  void revoke(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    end(id);
  }
  /// As if nobody had been heard of for longer than any lease.
  void end_leases() {
    const std::lock_guard lock(mutex_);
    while (!leases_.empty()) end(leases_.begin()->first);
  }
  std::map<std::string, std::string> values() {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::string> out;
    for (const auto& [key, entry] : keys_) out[key] = entry.value;
    return out;
  }
  int largest() {
    const std::lock_guard lock(mutex_);
    return largest_;
  }
  int transactions() {
    const std::lock_guard lock(mutex_);
    return transactions_;
  }

 private:
  bool holds(const etcdserverpb::Compare& c) const {
    const auto at = keys_.find(c.key());
    // A key that is not there has version 0 and revision 0; what matters here is whether it is.
    if (c.target() == etcdserverpb::Compare::CREATE) {
      return (at == keys_.end() ? 0 : at->second.made) == c.create_revision();
    }
    return (at == keys_.end() ? 0 : 1) == c.version();
  }
  etcdserverpb::RangeResponse range(const etcdserverpb::RangeRequest& r) const {
    etcdserverpb::RangeResponse out;
    for (const auto& [key, entry] : keys_) {
      if (r.range_end().empty() ? key != r.key() : key < r.key() || key >= r.range_end()) continue;
      auto& kv = *out.add_kvs();
      kv.set_key(key);
      kv.set_value(entry.value);
    }
    return out;
  }
  void run(const etcdserverpb::RequestOp& op, etcdserverpb::ResponseOp& out) {
    if (op.has_request_range()) {
      *out.mutable_response_range() = range(op.request_range());
    } else if (op.has_request_put()) {
      Entry& entry = keys_[op.request_put().key()];
      if (entry.made == 0) entry.made = revision_;
      entry.value = op.request_put().value();
      entry.lease = op.request_put().lease();
    } else {
      keys_.erase(op.request_delete_range().key());
    }
  }
  void expire() {
    for (auto at = leases_.begin(); at != leases_.end();) {
      const std::int64_t id = at->first;
      const bool over = at->second.second < Clock::now();
      ++at;
      if (over) end(id);
    }
  }
  void end(std::int64_t id) {
    leases_.erase(id);
    std::erase_if(keys_, [&](const auto& k) { return k.second.lease == id; });
  }

  std::mutex mutex_;
  std::map<std::string, Entry> keys_;
  std::map<std::int64_t, std::pair<std::int64_t, Clock::time_point>> leases_;  ///< seconds, end
  std::int64_t revision_ = 1, last_lease_ = 0;
  int largest_ = 0, transactions_ = 0;
};

/// One that listens on a port of its own.
class EtcdMember final : public etcdserverpb::KV::Service, public etcdserverpb::Lease::Service {
 public:
  explicit EtcdMember(EtcdData& data) : data_(data) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Lease::Service*>(this));
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  ~EtcdMember() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::atomic<bool> reachable = true;       ///< false: as a member without a leader
  std::atomic<bool> answers_writes = true;  ///< false: writes are carried out, and nobody hears of it
  std::string address;

 private:
  grpc::Status status() const {
    return reachable ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader");
  }
  grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* r,
                     etcdserverpb::RangeResponse* out) override {
    if (reachable) *out = data_.read(*r);
    return status();
  }
  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* r, etcdserverpb::TxnResponse* out) override {
    if (reachable) *out = data_.txn(*r);
    if (!answers_writes) return {grpc::StatusCode::UNAVAILABLE, "etcdserver: request timed out"};
    return status();
  }
  grpc::Status LeaseGrant(grpc::ServerContext*, const etcdserverpb::LeaseGrantRequest* r,
                          etcdserverpb::LeaseGrantResponse* out) override {
    if (reachable) out->set_id(data_.grant(r->ttl()));
    return status();
  }
  grpc::Status LeaseRevoke(grpc::ServerContext*, const etcdserverpb::LeaseRevokeRequest* r,
                           etcdserverpb::LeaseRevokeResponse*) override {
    if (reachable) data_.revoke(r->id());
    return status();
  }
  grpc::Status LeaseKeepAlive(grpc::ServerContext*,
                              grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                                                       etcdserverpb::LeaseKeepAliveRequest>* stream) override {
    etcdserverpb::LeaseKeepAliveRequest r;
    while (reachable && stream->Read(&r)) {
      etcdserverpb::LeaseKeepAliveResponse out;
      out.set_ttl(data_.keep_alive(r.id()));
      stream->Write(out);
    }
    return status();
  }

  EtcdData& data_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace weft::inc::manager
