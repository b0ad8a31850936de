// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "switch/config/schema/validate.h"
#include "switch/pipeline/drop_reason.h"
#include "switch/pipeline/stage.h"

namespace weft::pipeline {

/// The stage types that a binary offers. Each binary composes its own: no static constructors, nothing that a linker
/// could leave out.
class Registry final : public config::StageSchemas {
 public:
  /// Adds a type. A second type of the same name is our own mistake and aborts, naming it.
  void add(StageType type);

  /// nullptr when unknown.
  [[nodiscard]] const StageType* find(std::string_view name) const noexcept;
  [[nodiscard]] const std::vector<StageType>& types() const noexcept { return types_; }
  /// Why stages of these types, and the engine, may drop.
  [[nodiscard]] const DropReasons& drop_reasons() const noexcept { return drop_reasons_; }
  /// Names of all types, in the order of add().
  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] const config::Schema* options_of(std::string_view stage) const noexcept override;

 private:
  std::vector<StageType> types_;
  DropReasons drop_reasons_;
};

/// Checks the order of a pipeline: every need is provided by an earlier stage, no stage stands twice, and what
/// StageType::before, after, adjacent and option_order say holds. Each mistake is reported at the position of its
/// stage, or of the option that asks.
void check_order(const Registry& registry, const std::vector<StageSpec>& stages, config::Diagnostics& diagnostics);

/// The same for a pipeline in which the stage at a position gets other options while it runs.
/// @return empty, or all mistakes in one line
[[nodiscard]] std::string order_mistakes(const Registry& registry, std::vector<StageSpec> stages, std::size_t stage,
                                         const config::Value& options);

}  // namespace weft::pipeline
