// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/client.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "switch/api/call_queue.h"
#include "switch/api/channel.h"
#include "switch/api/command_messages.h"
#include "switch/api/command_stream.h"
#include "switch/api/unix_socket.h"
#include "switch/api/weft.grpc.pb.h"

namespace weft::api {

namespace v1 = control::v1;
namespace {

using Kind = CallError::Kind;

CallError unreachable(const std::string& path, int error) {
  if (error == EACCES || error == EPERM) {
    return {Kind::unreachable,
            "cannot open " + path + ": permission denied; only the user who runs weft-switch, and root, may"};
  }
  const std::string why = error == ECONNREFUSED ? "nobody listens" : std::generic_category().message(error);
  return {Kind::unreachable, "cannot reach " + path + ": " + why + "; is weft-switch running?"};
}

ReloadResult result_of(const v1::ChangesReply& reply) {
  ReloadResult result;
  for (const auto& row : reply.changes_json()) {
    result.changes.push_back(nlohmann::ordered_json::parse(row, nullptr, false));
  }
  result.mistakes.assign(reply.mistakes().begin(), reply.mistakes().end());
  result.notes.assign(reply.notes().begin(), reply.notes().end());
  result.applied = reply.applied();
  return result;
}

void write_query(const capture::Query& from, v1::PacketQuery& to) {
  to.set_switch_name(from.switch_name);
  to.set_rx(from.rx);
  to.set_tx(from.tx);
  for (const auto& port : from.ports) to.add_ports(port);
  for (const auto& drop : from.drops) to.add_drops(drop);
  for (const auto qp : from.dest_qps) to.add_dest_qps(qp);
  for (const auto group : from.groups) to.add_groups(group);
  for (const auto& opcode : from.opcodes) to.add_opcodes(opcode);
  for (const auto& range : from.psns) {
    auto* added = to.add_psns();
    added->set_first(range.first);
    added->set_last(range.last);
  }
}

/// A command that does not block its caller: made again as long as the process has no thread for it, as call_until()
/// does.
struct BegunCommand {
  v1::StageCommandRequest request;
  std::function<void(const grpc::Status&, v1::StageCommandReply&)> done;
  std::chrono::system_clock::time_point deadline;
  std::chrono::milliseconds pause = kFirstPause;
};

void begin(v1::Control::Stub& stub, CallQueue& queue, BegunCommand command);

class CommandCall final : public CallQueue::Call {
 public:
  CommandCall(v1::Control::Stub& stub, CallQueue& queue, BegunCommand command)
      : stub_(stub), queue_(queue), command_(std::move(command)) {}

  /// Hands itself over to the queue.
  static void begin(std::unique_ptr<CommandCall> call) {
    CommandCall& c = *call.release();
    c.context_.set_deadline(c.command_.deadline);
    c.reader_ = c.stub_.AsyncStageCommand(&c.context_, c.command_.request, &c.queue_.completions());
    c.reader_->Finish(&c.reply_, &c.status_, &c);
  }

  void over() override {
    const auto pause = command_.pause;
    if (!lacked_a_thread(status_) || std::chrono::system_clock::now() + pause >= command_.deadline) {
      return command_.done(status_, reply_);
    }
    command_.pause = std::min(2 * pause, kLongestPause);
    const auto again = std::make_shared<BegunCommand>(std::move(command_));
    queue_.post([again, &stub = stub_, &queue = queue_] { weft::api::begin(stub, queue, std::move(*again)); }, pause);
  }

 private:
  v1::Control::Stub& stub_;
  CallQueue& queue_;
  BegunCommand command_;
  grpc::ClientContext context_;
  v1::StageCommandReply reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StageCommandReply>> reader_;
};

void begin(v1::Control::Stub& stub, CallQueue& queue, BegunCommand command) {
  CommandCall::begin(std::make_unique<CommandCall>(stub, queue, std::move(command)));
}

// Why a connection to the socket broke. A process that has as many connections as it takes ends further ones before it
// says anything; others begin with settings of HTTP/2.
CallError broken(const std::string& path) {
  constexpr int kPatienceMs = 200;
  bool turned_away = false;
  if (const Connection again = connect_unix(path, std::chrono::milliseconds{0}); again.fd >= 0) {
    pollfd wait{again.fd, POLLIN, 0};
    char byte = 0;
    turned_away = poll(&wait, 1, kPatienceMs) == 1 && recv(again.fd, &byte, 1, MSG_DONTWAIT) == 0;
    ::close(again.fd);
  }
  if (!turned_away) return {Kind::unreachable, "the connection to " + path + " broke; is weft-switch running?"};
  return {Kind::refused,
          "the process on " + path + " has as many connections as it takes; try again: each ends within a minute"};
}

}  // namespace

struct Client::Impl {
  ~Impl() {
    if (watched >= 0) ::close(watched);
  }

  /// Makes a call within `call_time`.
  template <typename Call>
  [[nodiscard]] std::optional<CallError> call(Call&& body) const {
    return to_error(call_until(std::chrono::system_clock::now() + call_time, std::forward<Call>(body)));
  }

  /// A call that answers once.
  template <typename Method, typename Request, typename Reply>
  [[nodiscard]] std::optional<CallError> call(Method method, const Request& request, Reply& reply) const {
    return call([&](auto& context) { return (stub.get()->*method)(&context, request, &reply); });
  }
  /// Begins a session, whatever it does.
  template <typename Method, typename Request>
  [[nodiscard]] std::optional<CallError> start(Method method, const Request& request, std::uint64_t& session) const {
    v1::StartReply reply;
    auto error = call(method, request, reply);
    session = reply.session();
    return error;
  }

  std::string path;  ///< or HOST:PORT
  bool tls = false;
  std::chrono::milliseconds call_time{};
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;
  int watched = -1;  ///< the connection's socket once more: gRPC closes its own when it likes

  [[nodiscard]] std::optional<CallError> to_error(const grpc::Status& status) const;
};

std::optional<CallError> Client::Impl::to_error(const grpc::Status& status) const {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return std::nullopt;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return CallError{Kind::unreachable, "no answer on " + path + " within " + std::to_string(call_time.count()) +
                                              " ms; is weft-switch running?"};
    case grpc::StatusCode::UNAVAILABLE:
      if (tls) return CallError{Kind::unreachable, "cannot use " + path + ": " + status.error_message()};
      [[fallthrough]];
    case grpc::StatusCode::CANCELLED:
      return broken(path);
    case grpc::StatusCode::UNIMPLEMENTED:
      return CallError{Kind::refused, "the process on " + path + " does not know this request: another version?"};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (lacked_a_thread(status)) {
        return CallError{Kind::refused, "the process on " + path + " answers too many calls at once; try again"};
      }
      [[fallthrough]];
    default:
      return CallError{Kind::refused, status.error_message()};
  }
}

Client::Client() = default;
Client::~Client() = default;

std::optional<CallError> Client::connect(const std::string& path, std::chrono::milliseconds call_time,
                                         std::optional<std::chrono::milliseconds> connect_time) {
  impl_.reset();
  const Connection connection = connect_unix(path, connect_time.value_or(call_time));
  if (connection.fd < 0) return unreachable(path, connection.error);
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->call_time = call_time;
  impl->watched = fcntl(connection.fd, F_DUPFD_CLOEXEC, 0);
  impl->channel = unix_channel(connection.fd);
  impl->stub = v1::Control::NewStub(impl->channel);
  impl_ = std::move(impl);
  return std::nullopt;
}

std::optional<CallError> Client::connect_tls(const std::string& address, const config::TlsFiles& files,
                                             std::chrono::milliseconds call_time) {
  impl_.reset();
  config::TlsTexts texts;
  if (const auto mistakes = config::read_tls_files(files, texts); !mistakes.empty()) {
    return CallError{Kind::unreachable, mistakes.front().text};
  }
  auto impl = std::make_unique<Impl>();
  impl->path = address;
  impl->tls = true;
  impl->call_time = call_time;
  impl->channel = tls_channel(address, texts);
  impl->stub = v1::Control::NewStub(impl->channel);
  impl_ = std::move(impl);
  return std::nullopt;
}

bool Client::is_open() const {
  if (impl_ == nullptr || impl_->tls) return impl_ != nullptr;
  pollfd socket{impl_->watched, POLLRDHUP, 0};
  return impl_->watched >= 0 && poll(&socket, 1, 0) == 0;
}

std::optional<CallError> Client::about(ProcessInfo& info) {
  v1::AboutReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->About(&context, {}, &reply); })) return error;
  info.facts = nlohmann::ordered_json::parse(reply.facts_json(), nullptr, false);
  info.switches.assign(reply.switches().begin(), reply.switches().end());
  if (!info.facts.is_object()) return CallError{Kind::refused, "the process on " + impl_->path + " answers no JSON"};
  return std::nullopt;
}

std::optional<CallError> Client::tables(std::vector<TableInfo>& tables) {
  v1::ListTablesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->ListTables(&context, {}, &reply); }))
    return error;
  tables.clear();
  for (const auto& table : reply.tables()) tables.push_back({table.name(), table.summary()});
  return std::nullopt;
}

std::optional<CallError> Client::diff(const std::string& path, ReloadResult& result) {
  v1::DiffRequest request;
  request.set_path(path);
  v1::ChangesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->Diff(&context, request, &reply); }))
    return error;
  result = result_of(reply);
  return std::nullopt;
}

std::optional<CallError> Client::reload(ReloadResult& result) {
  v1::ChangesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->Reload(&context, {}, &reply); })) return error;
  result = result_of(reply);
  return std::nullopt;
}

std::optional<CallError> Client::show(const Question& question,
                                      const std::function<void(const std::string& row_json)>& on_row,
                                      ShowSummary& summary) {
  v1::ShowRequest request;
  request.set_table(question.table);
  request.set_switch_name(question.switch_name);
  request.set_max_rows(question.max_rows);
  summary = {};
  return impl_->call([&](auto& context) {
    const auto reader = impl_->stub->Show(&context, request);
    v1::ShowReply reply;
    while (reader->Read(&reply)) {
      for (const auto& row : reply.rows_json()) on_row(row);
      for (const auto& name : reply.switches()) summary.switches.push_back(name);
      summary.truncated = reply.truncated();
    }
    return reader->Finish();
  });
}

std::optional<CallError> Client::start(const CaptureRequest& request, std::uint64_t& session) {
  v1::StartCaptureRequest wanted;
  write_query(request.query, *wanted.mutable_query());
  wanted.set_snaplen(request.snaplen);
  wanted.set_max_packets(request.max_packets);
  wanted.set_max_bytes(request.max_bytes);
  wanted.set_duration_ms(request.duration_ms);
  wanted.set_buffer_mib(request.buffer_mib);
  return impl_->start(&v1::Control::Stub::StartCapture, wanted, session);
}

std::optional<CallError> Client::start(const TraceRequest& request, std::uint64_t& session) {
  v1::StartTraceRequest wanted;
  write_query(request.query, *wanted.mutable_query());
  wanted.set_packets(request.packets);
  wanted.set_duration_ms(request.duration_ms);
  return impl_->start(&v1::Control::Stub::StartTrace, wanted, session);
}

std::optional<CallError> Client::start(const RecordRequest& request, std::uint64_t& session) {
  v1::StartRecordRequest wanted;
  wanted.set_switch_name(request.switch_name);
  for (const auto& port : request.ports) wanted.add_ports(port);
  for (const auto queue : request.queues) wanted.add_queues(queue);
  wanted.set_period_ns(request.period_ns);
  wanted.set_max_samples(request.max_samples);
  wanted.set_duration_ms(request.duration_ms);
  wanted.set_buffer_mib(request.buffer_mib);
  return impl_->start(&v1::Control::Stub::StartRecord, wanted, session);
}

std::optional<CallError> Client::read(std::uint64_t session, SessionPart& part) {
  v1::SessionRequest request;
  request.set_session(session);
  v1::ReadSessionReply reply;
  auto error = impl_->call(&v1::Control::Stub::ReadSession, request, reply);
  part = {std::move(*reply.mutable_data()),
          reply.ended(),
          reply.reason(),
          reply.packets(),
          reply.lost(),
          reply.missed(),
          ""};
  return error;
}

std::optional<CallError> Client::stop(std::uint64_t session) {
  v1::SessionRequest request;
  request.set_session(session);
  v1::StopSessionReply reply;
  return impl_->call(&v1::Control::Stub::StopSession, request, reply);
}

std::optional<CallError> Client::clear(const std::vector<std::string>& tables, const std::string& switch_name,
                                       std::string& text) {
  v1::ClearRequest request;
  for (const auto& table : tables) request.add_tables(table);
  request.set_switch_name(switch_name);
  v1::DoneReply reply;
  auto error = impl_->call(&v1::Control::Stub::Clear, request, reply);
  text = reply.text();
  return error;
}

std::optional<CallError> Client::set(const SetRequest& request, std::string& text) {
  v1::SetRequest wanted;
  wanted.set_name(request.name);
  for (const auto& word : request.words) wanted.add_words(word);
  wanted.set_switch_name(request.switch_name);
  v1::DoneReply reply;
  auto error = impl_->call(&v1::Control::Stub::Set, wanted, reply);
  text = reply.text();
  return error;
}

std::optional<CallError> Client::commands(std::vector<CommandInfo>& commands) {
  v1::ListCommandsReply reply;
  if (auto error = impl_->call(&v1::Control::Stub::ListCommands, v1::ListCommandsRequest(), reply)) return error;
  commands.clear();
  for (const auto& one : reply.commands()) {
    commands.push_back({one.stage(), one.verb(), one.summary(),
                        nlohmann::ordered_json::parse(one.arguments_schema_json(), nullptr, false)});
  }
  return std::nullopt;
}

std::optional<CallError> Client::run_command(const CommandRequest& request, CommandResult& result) {
  v1::StageCommandReply reply;
  if (auto error = impl_->call(&v1::Control::Stub::StageCommand, message_of(request), reply)) return error;
  result = result_of(reply);
  return std::nullopt;
}

void Client::begin_command(const CommandRequest& request, CallQueue& queue, CommandDone done) {
  const auto told = [impl = impl_.get(), done = std::move(done)](const grpc::Status& status,
                                                                 v1::StageCommandReply& reply) {
    CommandResult result;
    if (status.ok()) result = result_of(reply);
    done(impl->to_error(status), result);
  };
  begin(*impl_->stub, queue, {message_of(request), told, std::chrono::system_clock::now() + impl_->call_time});
}

std::unique_ptr<CommandStream> Client::open_stream() {
  return std::make_unique<CommandStream>(
      impl_->channel, [impl = impl_.get()](const grpc::Status& status) { return impl->to_error(status); });
}

}  // namespace weft::api
