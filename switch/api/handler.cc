// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/handler.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "switch/api/backend.h"
#include "switch/api/caller.h"
#include "switch/api/command_streams.h"
#include "switch/config/schema/suggest.h"

namespace weft::api {

namespace v1 = control::v1;
namespace {

constexpr std::uint64_t kMaxRows = 1'000'000;                // weft.proto promises it
constexpr std::size_t kChunkBytes = std::size_t{64} * 1024;  // of row text in one reply
constexpr int kMaxShows = 4;                                 // calls that hold rows at the same time
constexpr int kMaxCommands = 2;                              // of stages, at the same time
constexpr std::uint32_t kMinSnaplen = 14;
constexpr std::uint32_t kMaxSnaplen = 1 << 18;
constexpr std::uint32_t kMaxBufferMib = 256;
constexpr std::uint32_t kMaxTraced = 10'000;
constexpr int kMaxWords = 1000;
constexpr std::uint64_t kMinPeriodNs = 1000;
constexpr std::uint64_t kMaxPeriodNs = 3'600'000'000'000;
constexpr std::uint32_t kQueues = 8;

std::string to_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// "unknown table 'prts'; did you mean 'ports'? Tables: drops, ports."
grpc::Status unknown(const std::string& kind, const std::string& list, const std::string& name,
                     const std::vector<std::string>& known) {
  const std::string guess = config::closest(name, known);
  std::string text = "unknown " + kind + " " + config::quote(name);
  text += guess.empty() ? "." : "; did you mean '" + guess + "'?";
  text += known.empty() ? " There are none." : " " + list + ": " + config::joined(known) + ".";
  return {grpc::StatusCode::NOT_FOUND, text};
}

// One of `places`, while it lives.
class Place {
 public:
  Place(std::atomic<int>& taken, int places) : taken_(taken), mine_(taken.fetch_add(1) < places) {}
  ~Place() { taken_.fetch_sub(1); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  explicit operator bool() const { return mine_; }

 private:
  std::atomic<int>& taken_;
  bool mine_;
};

grpc::Status invalid(std::string text) {
  return {grpc::StatusCode::INVALID_ARGUMENT, std::move(text)};
}

// Texts of any length reach the error message; strings that are no UTF-8 do not arrive at all.
grpc::Status read_query(const v1::PacketQuery& from, capture::Query& to) {
  if (from.ports_size() + from.drops_size() + from.dest_qps_size() + from.groups_size() + from.opcodes_size() +
          from.psns_size() >
      kMaxWords) {
    return invalid("more than " + std::to_string(kMaxWords) + " conditions");
  }
  to.switch_name = from.switch_name();
  to.ports.assign(from.ports().begin(), from.ports().end());
  to.rx = from.rx();
  to.tx = from.tx();
  to.drops.assign(from.drops().begin(), from.drops().end());
  to.dest_qps.assign(from.dest_qps().begin(), from.dest_qps().end());
  to.groups.assign(from.groups().begin(), from.groups().end());
  to.opcodes.assign(from.opcodes().begin(), from.opcodes().end());
  for (const auto& range : from.psns()) to.psns.push_back({range.first(), range.last()});
  return grpc::Status::OK;
}

class ControlHandler final : public ControlService {
 public:
  ControlHandler(Backend& backend, Operators operators)
      : backend_(backend),
        operators_(std::move(operators)),
        streams_(*this, [this](const grpc::ServerContext& context, const v1::StageCommandRequest& request,
                               v1::StageCommandReply& reply) { return command_of_agent(context, request, reply); }) {}

  [[nodiscard]] AsyncCalls& streams() noexcept { return streams_; }

  grpc::Status About(grpc::ServerContext* context, const v1::AboutRequest*, v1::AboutReply* reply) override {
    return guarded(*context, [&] {
      reply->set_facts_json(to_text(backend_.about()));
      for (auto& name : backend_.switch_names()) reply->add_switches(std::move(name));
      return grpc::Status::OK;
    });
  }

  grpc::Status ListTables(grpc::ServerContext* context, const v1::ListTablesRequest*,
                          v1::ListTablesReply* reply) override {
    return guarded(*context, [&] {
      for (auto& table : backend_.tables()) {
        auto* added = reply->add_tables();
        added->set_name(std::move(table.name));
        added->set_summary(std::move(table.summary));
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status Diff(grpc::ServerContext* context, const v1::DiffRequest* request, v1::ChangesReply* reply) override {
    return guarded(*context, [&] {
      if (request->path().starts_with('/')) return answer(backend_.diff(request->path()), *reply);
      return invalid("expected an absolute path, found " + config::quote(request->path()));
    });
  }

  grpc::Status Reload(grpc::ServerContext* context, const v1::ReloadRequest*, v1::ChangesReply* reply) override {
    return guarded(*context, [&] { return answer(backend_.reload(), *reply); });
  }

  grpc::Status Show(grpc::ServerContext* context, const v1::ShowRequest* request,
                    grpc::ServerWriter<v1::ShowReply>* writer) override {
    return guarded(*context, [&] {
      const Place place(shows_, kMaxShows);
      if (place) return show(*request, *writer);
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                          "too many tables are being read at the same time; try again");
    });
  }

  grpc::Status StartCapture(grpc::ServerContext* context, const v1::StartCaptureRequest* request,
                            v1::StartReply* reply) override {
    return guarded(*context, [&] {
      CaptureRequest wanted;
      if (auto status = read_query(request->query(), wanted.query); !status.ok()) return status;
      if (request->snaplen() != 0) wanted.snaplen = request->snaplen();
      if (request->buffer_mib() != 0) wanted.buffer_mib = request->buffer_mib();
      wanted.max_packets = request->max_packets();
      wanted.max_bytes = request->max_bytes();
      wanted.duration_ms = request->duration_ms();
      if (wanted.snaplen < kMinSnaplen || wanted.snaplen > kMaxSnaplen) return invalid("snaplen is 14 to 262144 bytes");
      if (wanted.buffer_mib > kMaxBufferMib) return invalid("a buffer has at most 256 MiB");
      return started(backend_.start_capture(wanted), *reply);
    });
  }

  grpc::Status StartTrace(grpc::ServerContext* context, const v1::StartTraceRequest* request,
                          v1::StartReply* reply) override {
    return guarded(*context, [&] {
      TraceRequest wanted;
      if (auto status = read_query(request->query(), wanted.query); !status.ok()) return status;
      if (request->packets() != 0) wanted.packets = request->packets();
      wanted.duration_ms = request->duration_ms();
      if (wanted.packets > kMaxTraced) return invalid("a trace follows at most 10000 packets");
      return started(backend_.start_trace(wanted), *reply);
    });
  }

  grpc::Status StartRecord(grpc::ServerContext* context, const v1::StartRecordRequest* request,
                           v1::StartReply* reply) override {
    return guarded(*context, [&] {
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
      return started(backend_.start_record(wanted), *reply);
    });
  }

  grpc::Status ReadSession(grpc::ServerContext* context, const v1::SessionRequest* request,
                           v1::ReadSessionReply* reply) override {
    return guarded(*context, [&] {
      SessionPart part = backend_.read_session(request->session());
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

  grpc::Status StopSession(grpc::ServerContext* context, const v1::SessionRequest* request,
                           v1::StopSessionReply*) override {
    return guarded(*context, [&] {
      if (backend_.stop_session(request->session())) return grpc::Status::OK;
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such session");
    });
  }

  grpc::Status Clear(grpc::ServerContext* context, const v1::ClearRequest* request, v1::DoneReply* reply) override {
    return guarded(*context, [&] {
      return done(backend_.clear({request->tables().begin(), request->tables().end()}, request->switch_name()), *reply);
    });
  }

  grpc::Status Set(grpc::ServerContext* context, const v1::SetRequest* request, v1::DoneReply* reply) override {
    return guarded(*context, [&] {
      if (request->words_size() > kMaxWords) return invalid("more than " + std::to_string(kMaxWords) + " words");
      return done(
          backend_.set({request->name(), {request->words().begin(), request->words().end()}, request->switch_name()}),
          *reply);
    });
  }

  grpc::Status ListCommands(grpc::ServerContext* context, const v1::ListCommandsRequest*,
                            v1::ListCommandsReply* reply) override {
    const Caller caller = caller_of(*context);
    return answered([&] {
      for (auto& command : backend_.commands()) {
        if (!may_run(caller, command.stage, command.verb)) continue;
        auto* added = reply->add_commands();
        added->set_stage(std::move(command.stage));
        added->set_verb(std::move(command.verb));
        added->set_summary(std::move(command.summary));
        added->set_arguments_schema_json(to_text(command.arguments));
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status StageCommand(grpc::ServerContext* context, const v1::StageCommandRequest* request,
                            v1::StageCommandReply* reply) override {
    const Caller caller = caller_of(*context);
    return answered([&] {
      if (!may_run(caller, request->stage(), request->verb())) return forbidden(caller);
      // Each holds a thread of the service for as long as it takes: some must be left for others.
      const Place place(commands_, kMaxCommands);
      if (place) return run(caller, *request, *reply);
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many commands run at the same time; try again");
    });
  }

 private:
  // Others may take long, and all streams would wait for them.
  grpc::Status command_of_agent(const grpc::ServerContext& context, const v1::StageCommandRequest& request,
                                v1::StageCommandReply& reply) {
    const Caller caller = caller_of(context);
    return answered([&] {
      if (backend_.checks_peer(request.stage(), request.verb())) return run(caller, request, reply);
      return invalid("a stream takes verbs for agents alone, and " + config::quote(request.verb()) + " of " +
                     config::quote(request.stage()) + " is none");
    });
  }

  grpc::Status run(const Caller& caller, const v1::StageCommandRequest& request, v1::StageCommandReply& reply) {
    if (request.arguments_size() > kMaxWords) {
      return invalid("more than " + std::to_string(kMaxWords) + " arguments");
    }
    CommandResult result = backend_.run_command({request.stage(),
                                                 request.verb(),
                                                 {request.arguments().begin(), request.arguments().end()},
                                                 request.switch_name(),
                                                 caller.text()});
    if (!result.error.empty()) return invalid(std::move(result.error));
    for (const auto& row : result.rows) reply.add_rows_json(to_text(row));
    reply.set_text(std::move(result.done));
    return grpc::Status::OK;
  }

  // For those who may do everything.
  template <typename F>
  grpc::Status guarded(const grpc::ServerContext& context, F&& body) {
    const Caller caller = caller_of(context);
    return caller.is_operator(operators_) ? answered(body) : forbidden(caller);
  }

  [[nodiscard]] bool may_run(const Caller& caller, const std::string& stage, const std::string& verb) const {
    return caller.is_operator(operators_) || backend_.checks_peer(stage, verb);
  }

  static grpc::Status forbidden(const Caller& caller) {
    return {grpc::StatusCode::PERMISSION_DENIED,
            "the certificate names " + caller.text() +
                ", and none of control: tcp: operators; others may only run commands for agents"};
  }

  // A defect of a table must not end the process that forwards packets.
  template <typename F>
  grpc::Status answered(F&& body) {
    try {
      return body();
    } catch (const std::exception& e) {
      return {grpc::StatusCode::INTERNAL, std::string("weft could not answer: ") + e.what()};
    }
  }

  static grpc::Status answer(ReloadResult result, v1::ChangesReply& reply) {
    for (const auto& change : result.changes) reply.add_changes_json(to_text(change));
    for (auto& line : result.mistakes) reply.add_mistakes(std::move(line));
    for (auto& line : result.notes) reply.add_notes(std::move(line));
    reply.set_applied(result.applied);
    return grpc::Status::OK;
  }

  grpc::Status check(const v1::ShowRequest& request, const std::vector<std::string>& switches) {
    std::vector<std::string> tables;
    for (auto& table : backend_.tables()) tables.push_back(std::move(table.name));
    if (std::find(tables.begin(), tables.end(), request.table()) == tables.end()) {
      static const std::vector<std::string> kNeedQos{"queues", "buffers", "pfc", "wred"};
      const bool qos = std::find(kNeedQos.begin(), kNeedQos.end(), request.table()) != kNeedQos.end();
      if (qos)
        return {grpc::StatusCode::NOT_FOUND, "table " + config::quote(request.table()) + " needs a switch with `qos`"};
      return unknown("table", "Tables", request.table(), tables);
    }
    const std::string& name = request.switch_name();
    if (!name.empty() && std::find(switches.begin(), switches.end(), name) == switches.end()) {
      return unknown("switch", "Switches", name, switches);
    }
    return grpc::Status::OK;
  }

  grpc::Status show(const v1::ShowRequest& request, grpc::ServerWriter<v1::ShowReply>& writer) {
    const std::vector<std::string> switches = backend_.switch_names();
    if (auto status = check(request, switches); !status.ok()) return status;
    const std::uint64_t limit = request.max_rows() == 0 ? kMaxRows : std::min(request.max_rows(), kMaxRows);
    ShowResult result = backend_.show(request.table(), request.switch_name(), limit);
    if (!result.error.empty()) return {grpc::StatusCode::INVALID_ARGUMENT, result.error};

    v1::ShowReply reply;
    if (!request.switch_name().empty()) {
      reply.add_switches(request.switch_name());
    } else {
      for (const auto& name : switches) reply.add_switches(name);
    }
    std::size_t bytes = 0;
    for (auto& slot : result.rows) {
      // Moved, so that a slow reader holds only the rows that it has not had.
      const nlohmann::ordered_json row = std::move(slot);
      std::string text = to_text(row);
      bytes += text.size();
      reply.add_rows_json(std::move(text));
      if (bytes < kChunkBytes) continue;
      if (!writer.Write(reply)) return grpc::Status::CANCELLED;
      reply.Clear();
      bytes = 0;
    }
    reply.set_truncated(result.truncated);
    return writer.Write(reply) ? grpc::Status::OK : grpc::Status::CANCELLED;
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
  const Operators operators_;
  std::atomic<int> commands_{0};
  std::atomic<int> shows_{0};
  CommandStreams streams_;
};

}  // namespace

Handler make_handler(Backend& backend, Operators operators) {
  auto service = std::make_unique<ControlHandler>(backend, std::move(operators));
  AsyncCalls& streams = service->streams();
  return {std::move(service), &streams};
}

}  // namespace weft::api
