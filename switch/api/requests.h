// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a client may ask of a process besides tables: captures, traces, recordings, changed settings, commands of
// stages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "switch/capture/query.h"

namespace weft::api {

/// A capture. Every bound may end it; 0 means no bound.
struct CaptureRequest {
  capture::Query query{};
  std::uint32_t snaplen = 65535;  ///< bytes of a packet that are kept at most, at least 14
  std::uint64_t max_packets = 0;
  std::uint64_t max_bytes = 0;  ///< of the file
  std::uint64_t duration_ms = 0;
  std::uint32_t buffer_mib = 16;  ///< per worker, for copies that the control plane has not fetched yet, 1 to 256
};

struct TraceRequest {
  capture::Query query{};
  std::uint32_t packets = 10;  ///< 1 to 10,000
  std::uint64_t duration_ms = 0;
};

/// A recording of the depths of class queues. Every bound may end it; 0 means no bound.
struct RecordRequest {
  std::string switch_name{};            ///< empty: all that have qos
  std::vector<std::string> ports{};     ///< "h1", or "tor1/h1"; empty: all
  std::vector<std::uint32_t> queues{};  ///< 0 to 7; empty: all
  std::uint64_t period_ns = 100'000;    ///< between two samples, at least 1000
  std::uint64_t max_samples = 0;
  std::uint64_t duration_ms = 0;
  std::uint32_t buffer_mib = 16;  ///< for samples that the client has not fetched yet, 1 to 256
};

/// A capture, a trace or a recording that runs; it ends by itself when nobody reads for some seconds.
struct SessionStart {
  std::uint64_t id = 0;
  std::string error{};  ///< empty when it runs
};

/// What a session has had to say since the last time.
struct SessionPart {
  /// A capture: the next bytes of a pcapng file. A trace: lines, each the JSON text of one packet's way. A recording:
  /// lines of CSV.
  std::string data{};
  bool ended = false;         ///< nothing will follow; the session is gone
  std::string reason{};       ///< why it ended
  std::uint64_t packets = 0;  ///< so far; of a recording: samples
  std::uint64_t lost = 0;     ///< packets that matched, or samples that were taken, and were not kept, so far
  std::uint64_t missed = 0;   ///< samples that were not taken because their time had passed, so far
  std::string error{};        ///< there is no such session
};

/// What came of a request to change something: one sentence.
struct Outcome {
  std::string done{};
  std::string error{};  ///< empty when it was done
  /// Nothing was done, and why.
  [[nodiscard]] static Outcome refused(std::string why) { return {"", std::move(why)}; }
};

/// A setting to change: `name` is log-level, port, paths, or a stage's; see `weftctl set --help`.
struct SetRequest {
  std::string name{};
  std::vector<std::string> words{};
  std::string switch_name{};  ///< empty: all
};

/// A verb of a stage. `words` are KEY=VALUE, or what else the verb takes.
struct CommandRequest {
  std::string stage{};
  std::string verb{};
  std::vector<std::string> words{};
  std::string switch_name{};  ///< empty: every switch that has the stage
  std::string peer{};  ///< Caller::text(): names in the client's certificate; empty: it came over the unix socket
};

/// What came of a command.
struct CommandResult {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();  ///< objects; the first key is "switch"
  std::string done{};                                             ///< one sentence, or nothing
  std::string error{};                                            ///< empty when it was done
};

/// A verb that some stage of the process knows.
struct CommandInfo {
  std::string stage;
  std::string verb;
  std::string summary;                                                  ///< one sentence
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();  ///< JSON Schema of an object: KEY=VALUE words
};

}  // namespace weft::api
