// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/operate_service.h"

#include <exception>
#include <utility>

#include "switch/api/operate.grpc.pb.h"
#include "switch/api/operator.h"

namespace weft::api {

namespace v1 = control::v1;
namespace {

constexpr std::uint32_t kMinSnaplen = 14;
constexpr std::uint32_t kMaxSnaplen = 1 << 18;
constexpr std::uint32_t kMaxBufferMib = 256;
constexpr std::uint32_t kMaxTraced = 10'000;
constexpr int kMaxWords = 1000;
constexpr std::uint64_t kMinPeriodNs = 1000;
constexpr std::uint64_t kMaxPeriodNs = 3'600'000'000'000;
constexpr std::uint32_t kQueues = 8;

grpc::Status invalid(std::string text) {
  return {grpc::StatusCode::INVALID_ARGUMENT, std::move(text)};
}

// Texts of any length reach the error message; strings that are no UTF-8 do not arrive at all.
grpc::Status read_query(const v1::PacketQuery& from, capture::Query& to) {
  if (from.ports_size() + from.drops_size() + from.dest_qps_size() + from.opcodes_size() + from.psns_size() >
      kMaxWords) {
    return invalid("more than " + std::to_string(kMaxWords) + " conditions");
  }
  to.switch_name = from.switch_name();
  to.ports.assign(from.ports().begin(), from.ports().end());
  to.rx = from.rx();
  to.tx = from.tx();
  to.drops.assign(from.drops().begin(), from.drops().end());
  to.dest_qps.assign(from.dest_qps().begin(), from.dest_qps().end());
  to.opcodes.assign(from.opcodes().begin(), from.opcodes().end());
  for (const auto& range : from.psns()) to.psns.push_back({range.first(), range.last()});
  return grpc::Status::OK;
}

class OperateHandler final : public v1::Operate::Service {
 public:
  explicit OperateHandler(Backend& backend) : backend_(backend) {}

  grpc::Status StartCapture(grpc::ServerContext*, const v1::StartCaptureRequest* request,
                            v1::StartReply* reply) override {
    return guarded([&](Operator& op) {
      CaptureRequest wanted;
      if (auto status = read_query(request->query(), wanted.query); !status.ok()) return status;
      if (request->snaplen() != 0) wanted.snaplen = request->snaplen();
      if (request->buffer_mib() != 0) wanted.buffer_mib = request->buffer_mib();
      wanted.max_packets = request->max_packets();
      wanted.max_bytes = request->max_bytes();
      wanted.duration_ms = request->duration_ms();
      if (wanted.snaplen < kMinSnaplen || wanted.snaplen > kMaxSnaplen) return invalid("snaplen is 14 to 262144 bytes");
      if (wanted.buffer_mib > kMaxBufferMib) return invalid("a buffer has at most 256 MiB");
      return started(op.start_capture(wanted), *reply);
    });
  }

  grpc::Status StartTrace(grpc::ServerContext*, const v1::StartTraceRequest* request, v1::StartReply* reply) override {
    return guarded([&](Operator& op) {
      TraceRequest wanted;
      if (auto status = read_query(request->query(), wanted.query); !status.ok()) return status;
      if (request->packets() != 0) wanted.packets = request->packets();
      wanted.duration_ms = request->duration_ms();
      if (wanted.packets > kMaxTraced) return invalid("a trace follows at most 10000 packets");
      return started(op.start_trace(wanted), *reply);
    });
  }

  grpc::Status StartRecord(grpc::ServerContext*, const v1::StartRecordRequest* request,
                           v1::StartReply* reply) override {
    return guarded([&](Operator& op) {
      if (request->ports_size() + request->queues_size() > kMaxWords) {
        return invalid("more than " + std::to_string(kMaxWords) + " conditions");
      }
      RecordRequest wanted;
      wanted.switch_name = request->switch_name();
      wanted.ports.assign(request->ports().begin(), request->ports().end());
      wanted.queues.assign(request->queues().begin(), request->queues().end());
      if (request->period_ns() != 0) wanted.period_ns = request->period_ns();
      wanted.max_samples = request->max_samples();
      wanted.duration_ms = request->duration_ms();
      if (request->buffer_mib() != 0) wanted.buffer_mib = request->buffer_mib();
      for (const std::uint32_t queue : wanted.queues) {
        if (queue >= kQueues) return invalid("a port has queues 0 to 7, and no queue " + std::to_string(queue));
      }
      if (wanted.period_ns < kMinPeriodNs || wanted.period_ns > kMaxPeriodNs) {
        return invalid("samples follow each other after a microsecond to an hour");
      }
      if (wanted.buffer_mib > kMaxBufferMib) return invalid("a buffer has at most 256 MiB");
      return started(op.start_record(wanted), *reply);
    });
  }

  grpc::Status ReadSession(grpc::ServerContext*, const v1::SessionRequest* request,
                           v1::ReadSessionReply* reply) override {
    return guarded([&](Operator& op) {
      SessionPart part = op.read_session(request->session());
      if (!part.error.empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, part.error);
      reply->set_data(std::move(part.data));
      reply->set_ended(part.ended);
      reply->set_reason(std::move(part.reason));
      reply->set_packets(part.packets);
      reply->set_lost(part.lost);
      reply->set_missed(part.missed);
      return grpc::Status::OK;
    });
  }

  grpc::Status StopSession(grpc::ServerContext*, const v1::SessionRequest* request, v1::StopSessionReply*) override {
    return guarded([&](Operator& op) {
      if (op.stop_session(request->session())) return grpc::Status::OK;
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such session");
    });
  }

  grpc::Status Clear(grpc::ServerContext*, const v1::ClearRequest* request, v1::DoneReply* reply) override {
    return guarded([&](Operator& op) {
      return done(op.clear({request->tables().begin(), request->tables().end()}, request->switch_name()), *reply);
    });
  }

  grpc::Status Set(grpc::ServerContext*, const v1::SetRequest* request, v1::DoneReply* reply) override {
    return guarded([&](Operator& op) {
      if (request->words_size() > kMaxWords) return invalid("more than " + std::to_string(kMaxWords) + " words");
      return done(op.set({request->name(), {request->words().begin(), request->words().end()}, request->switch_name()}),
                  *reply);
    });
  }

 private:
  // A defect of what it calls must not end the process that forwards packets.
  template <typename F>
  grpc::Status guarded(F&& body) {
    Operator* op = backend_.operate();
    if (op == nullptr) return {grpc::StatusCode::UNIMPLEMENTED, "this process cannot be operated"};
    try {
      return body(*op);
    } catch (const std::exception& e) {
      return {grpc::StatusCode::INTERNAL, std::string("weft could not answer: ") + e.what()};
    }
  }

  static grpc::Status started(const SessionStart& start, v1::StartReply& reply) {
    if (!start.error.empty()) return invalid(start.error);
    reply.set_session(start.id);
    return grpc::Status::OK;
  }

  static grpc::Status done(const Outcome& outcome, v1::DoneReply& reply) {
    if (!outcome.error.empty()) return invalid(outcome.error);
    reply.set_text(outcome.done);
    return grpc::Status::OK;
  }

  Backend& backend_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_operate_service(api::Backend& backend) {
  return std::make_unique<OperateHandler>(backend);
}

}  // namespace weft::api
