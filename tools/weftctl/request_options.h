// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The command lines of capture, trace, record, clear and set, and of commands of stages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "switch/api/requests.h"

namespace CLI {
class App;
}

namespace weft::weftctl {

/// What the command line of these commands holds.
struct RequestOptions {
  enum class Request : std::uint8_t { none, capture, trace, record, clear, set, stage };
  Request command = Request::none;
  api::CaptureRequest capture{};
  api::TraceRequest trace{};
  api::RecordRequest record{};
  std::string file{};  ///< capture, record: "-" is stdout; record: may be empty
  std::string svg{};   ///< record: a picture; may be empty
  std::vector<std::string> tables{};
  api::SetRequest set{};
  api::CommandRequest stage{};
  std::string switch_name{};

  // As written; read by finish_request().
  std::vector<std::string> psns{};
  double duration_s = 0;
  double rate_hz = 10'000;
};

/// Adds the commands to the command line.
void add_requests(CLI::App& app, RequestOptions& options);

/// After the command line was read: what CLI11 could not check. A sentence, or nothing.
[[nodiscard]] std::optional<std::string> finish_request(RequestOptions& options);

}  // namespace weft::weftctl
