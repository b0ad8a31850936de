// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/operate_client.h"

#include <utility>

#include "switch/api/client_impl.h"
#include "switch/api/operate.grpc.pb.h"

namespace weft::api {
namespace {

void write_query(const capture::Query& from, v1::PacketQuery& to) {
  to.set_switch_name(from.switch_name);
  to.set_rx(from.rx);
  to.set_tx(from.tx);
  for (const auto& port : from.ports) to.add_ports(port);
  for (const auto& drop : from.drops) to.add_drops(drop);
  for (const auto qp : from.dest_qps) to.add_dest_qps(qp);
  for (const auto& opcode : from.opcodes) to.add_opcodes(opcode);
  for (const auto& range : from.psns) {
    auto* added = to.add_psns();
    added->set_first(range.first);
    added->set_last(range.last);
  }
}

}  // namespace

struct OperateClient::Impl {
  explicit Impl(Client::Impl& impl) : connection(impl), stub(v1::Operate::NewStub(impl.channel)) {}

  template <typename Method, typename Request, typename Reply>
  [[nodiscard]] std::optional<CallError> call(Method method, const Request& request, Reply& reply) {
    return connection.call([&](auto& context) { return (stub.get()->*method)(&context, request, &reply); });
  }
  // Begins a session, whatever it does.
  template <typename Method, typename Request>
  [[nodiscard]] std::optional<CallError> start(Method method, const Request& request, std::uint64_t& session) {
    v1::StartReply reply;
    auto error = call(method, request, reply);
    session = reply.session();
    return error;
  }

  Client::Impl& connection;
  std::unique_ptr<v1::Operate::Stub> stub;
};

OperateClient::OperateClient(Client& client) : impl_(std::make_unique<Impl>(*client.impl_)) {}
OperateClient::~OperateClient() = default;

std::optional<CallError> OperateClient::start(const CaptureRequest& request, std::uint64_t& session) {
  v1::StartCaptureRequest wanted;
  write_query(request.query, *wanted.mutable_query());
  wanted.set_snaplen(request.snaplen);
  wanted.set_max_packets(request.max_packets);
  wanted.set_max_bytes(request.max_bytes);
  wanted.set_duration_ms(request.duration_ms);
  wanted.set_buffer_mib(request.buffer_mib);
  return impl_->start(&v1::Operate::Stub::StartCapture, wanted, session);
}

std::optional<CallError> OperateClient::start(const TraceRequest& request, std::uint64_t& session) {
  v1::StartTraceRequest wanted;
  write_query(request.query, *wanted.mutable_query());
  wanted.set_packets(request.packets);
  wanted.set_duration_ms(request.duration_ms);
  return impl_->start(&v1::Operate::Stub::StartTrace, wanted, session);
}

std::optional<CallError> OperateClient::start(const RecordRequest& request, std::uint64_t& session) {
  v1::StartRecordRequest wanted;
  wanted.set_switch_name(request.switch_name);
  for (const auto& port : request.ports) wanted.add_ports(port);
  for (const auto queue : request.queues) wanted.add_queues(queue);
  wanted.set_period_ns(request.period_ns);
  wanted.set_max_samples(request.max_samples);
  wanted.set_duration_ms(request.duration_ms);
  wanted.set_buffer_mib(request.buffer_mib);
  return impl_->start(&v1::Operate::Stub::StartRecord, wanted, session);
}

std::optional<CallError> OperateClient::read(std::uint64_t session, SessionPart& part) {
  v1::SessionRequest request;
  request.set_session(session);
  v1::ReadSessionReply reply;
  auto error = impl_->call(&v1::Operate::Stub::ReadSession, request, reply);
  part = {std::move(*reply.mutable_data()),
          reply.ended(),
          reply.reason(),
          reply.packets(),
          reply.lost(),
          reply.missed(),
          ""};
  return error;
}

std::optional<CallError> OperateClient::stop(std::uint64_t session) {
  v1::SessionRequest request;
  request.set_session(session);
  v1::StopSessionReply reply;
  return impl_->call(&v1::Operate::Stub::StopSession, request, reply);
}

std::optional<CallError> OperateClient::clear(const std::vector<std::string>& tables, const std::string& switch_name,
                                              std::string& text) {
  v1::ClearRequest request;
  for (const auto& table : tables) request.add_tables(table);
  request.set_switch_name(switch_name);
  v1::DoneReply reply;
  auto error = impl_->call(&v1::Operate::Stub::Clear, request, reply);
  text = reply.text();
  return error;
}

std::optional<CallError> OperateClient::set(const SetRequest& request, std::string& text) {
  v1::SetRequest wanted;
  wanted.set_name(request.name);
  for (const auto& word : request.words) wanted.add_words(word);
  wanted.set_switch_name(request.switch_name);
  v1::DoneReply reply;
  auto error = impl_->call(&v1::Operate::Stub::Set, wanted, reply);
  text = reply.text();
  return error;
}

}  // namespace weft::api
