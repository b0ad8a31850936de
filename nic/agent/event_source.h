// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nic/agent/qp_event.h"

namespace weft::agent {

/// Where calls that change queue pairs are seen.
class QpEventSource {
 public:
  using Sink = std::function<void(const weft_qp_event&)>;
  virtual ~QpEventSource() = default;

  /// Readable when there are events.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Gives those that are there, and does not wait.
  virtual void read(const Sink& sink) = 0;
  /// Events that found no room, since the start.
  [[nodiscard]] virtual std::uint64_t lost() const = 0;
  /// Where it looks, for people.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace weft::agent
