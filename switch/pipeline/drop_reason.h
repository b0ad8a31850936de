// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Why packets are dropped. The engine's reasons are enumerators; a module that drops for reasons of its own declares
// them in its own folder (declare_drops.h) and names them in StageType::drops. A binary's Registry composes all of
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::pipeline {

/// How much a drop should worry an operator.
enum class Severity : std::uint8_t { info, warning, error };

/// Why a packet was dropped: the engine's reasons by name, see drop_reason.def; modules' reasons have other values.
/// A value is an index below kDropReasonSlots, so that counting a drop is one addition to an array.
enum class DropReason : std::uint8_t {
#define WEFT_DROP(name, severity, text) name,
#include "switch/pipeline/drop_reason.def"
#undef WEFT_DROP
};

inline constexpr std::size_t kDropReasonSlots = 256;
/// Reasons that a module may have at most, and the first block of these that is not the engine's.
inline constexpr std::uint8_t kDropsPerBlock = 16;
inline constexpr std::uint8_t kFirstBlockOfModules = 2;

/// One row of a drop_reason.def.
struct DropReasonInfo {
  std::string_view name;  ///< in counters, YAML, captures and metrics
  Severity severity;
  std::string_view text;  ///< a sentence
};

/// The reasons of one module: `reasons[i]` describes DropReason{first + i}. Lives as long as the program.
struct DropBlock {
  std::string_view module;
  std::uint8_t first;
  std::span<const DropReasonInfo> reasons;
};

inline constexpr std::array kEngineDrops{
#define WEFT_DROP(name, severity, text) DropReasonInfo{#name, Severity::severity, text},
#include "switch/pipeline/drop_reason.def"
#undef WEFT_DROP
};
static_assert(kEngineDrops.size() <= std::size_t{kDropsPerBlock} * kFirstBlockOfModules);

/// The reasons that a binary knows: the engine's, and those of the modules that it was composed of.
class DropReasons {
 public:
  DropReasons();

  /// Adds a module's reasons; the same block may come again. Two modules that claim the same values or the same name
  /// are our own mistake: aborts, naming them.
  void add(const DropBlock& block);

  /// Describes a reason. One that nobody declared is called `undeclared`, so that its packets are not overlooked.
  [[nodiscard]] const DropReasonInfo& operator[](DropReason reason) const noexcept;
  [[nodiscard]] const DropReasonInfo& operator[](std::size_t value) const noexcept {
    return (*this)[static_cast<DropReason>(value)];
  }
  /// The reason spelled `name`, if there is one.
  [[nodiscard]] std::optional<DropReason> find(std::string_view name) const noexcept;
  /// All that were declared, in the order of their values.
  [[nodiscard]] std::vector<DropReason> all() const;

 private:
  std::array<const DropReasonInfo*, kDropReasonSlots> infos_{};
  std::array<std::string_view, kDropReasonSlots> modules_{};
};

[[nodiscard]] constexpr std::string_view to_string(Severity s) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"info", "warning", "error"};
  return kNames[static_cast<std::size_t>(s)];
}

}  // namespace weft::pipeline
