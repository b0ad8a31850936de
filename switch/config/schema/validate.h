// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Applies a schema to a document.
#pragma once

#include "switch/config/schema/document.h"
#include "switch/config/schema/schema.h"

namespace weft::config {

/// The stages that a list of stages may name, as Schema::stages() needs them.
class StageSchemas {
 public:
  /// The schema of a stage's options; nullptr when there is no such stage.
  [[nodiscard]] virtual const Schema* options_of(std::string_view stage) const noexcept = 0;
  /// Names of all stages.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;

 protected:
  ~StageSchemas() = default;
};

/// Checks `node` against `schema`, reports every mistake, and returns the values with defaults filled in. Whatever was
/// wrong is null in the result (or its default where there is one), so that a caller may go on to find more mistakes;
/// only a result without errors keeps the promises of the schema.
/// @param what  how messages call the node, a key or "" for the document
/// @param known  resolves Schema::stages(); may be nullptr when the schema has none
[[nodiscard]] Value validate(const Schema& schema, const DocumentNode& node, const std::string& what,
                             const StageSchemas* known, Diagnostics& diagnostics);

}  // namespace weft::config
