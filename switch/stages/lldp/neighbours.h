// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who is at the other ends of a switch's ports, as LLDP says. A protocol unit: no clock, and no allocation after it was
// made.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/base/time.h"
#include "switch/wire/lldp.h"

namespace weft::stages {

/// A text or identity of somebody else, as it came.
struct LldpText {
  std::uint8_t size = 0;
  std::array<std::uint8_t, wire::kLldpTextBytes> bytes{};

  void set(std::span<const std::uint8_t> from) noexcept;
  [[nodiscard]] std::span<const std::uint8_t> view() const noexcept { return {bytes.data(), size}; }
};

struct LldpNeighbour {
  TimeNs until = 0;  ///< it holds; 0: this place is free
  TimeNs heard = 0;  ///< for the last time
  std::uint8_t chassis_kind = 0, port_kind = 0;
  LldpText chassis, port, port_description, system;
};

/// "mac 02:00:00:00:00:01", "ifname eth1", ...: as lldpd names kinds. What is no text in UTF-8 or of no known kind is
/// written in hexadecimal digits.
[[nodiscard]] std::string lldp_chassis_text(std::uint8_t kind, std::span<const std::uint8_t> id);
[[nodiscard]] std::string lldp_port_text(std::uint8_t kind, std::span<const std::uint8_t> id);
/// Printable characters; others become '?'.
[[nodiscard]] std::string lldp_plain_text(std::span<const std::uint8_t> bytes);

class LldpNeighbours {
 public:
  /// Of a port: a cable has one other end; a hub or a bridge that floods LLDP may have more.
  static constexpr std::size_t kPerPort = 4;
  enum class Heard : std::uint8_t { fresh, known, gone, no_room };

  explicit LldpNeighbours(std::size_t ports) : ports_(ports) {}

  /// What a unit says; one with a time to live of 0 ends its neighbour.
  Heard on_unit(TimeNs now, std::size_t port, const wire::LldpUnit& unit) noexcept;
  /// Forgets those that do not hold any more.
  void on_timer(TimeNs now) noexcept;
  /// When on_timer() has something to do; kNever: nobody is known.
  [[nodiscard]] TimeNs next_deadline() const noexcept;
  /// All of a port, free places included.
  [[nodiscard]] std::span<const LldpNeighbour, kPerPort> of(std::size_t port) const noexcept { return ports_[port]; }
  [[nodiscard]] std::size_t ports() const noexcept { return ports_.size(); }
  [[nodiscard]] std::size_t count() const noexcept;
  /// A port's neighbours are those of a port of `from`.
  void take(std::size_t port, const LldpNeighbours& from, std::size_t its) noexcept { ports_[port] = from.ports_[its]; }
  /// A port without a link has none.
  void forget(std::size_t port) noexcept { ports_[port] = {}; }

 private:
  std::vector<std::array<LldpNeighbour, kPerPort>> ports_;
};

}  // namespace weft::stages
