// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Applies a schema to a document.
#pragma once

#include "switch/pipeline/document.h"
#include "switch/pipeline/schema.h"

namespace weft::pipeline {

class Registry;

/// Checks `node` against `schema`, reports every mistake, and returns the values with defaults filled in. Whatever was
/// wrong is null in the result (or its default where there is one), so that a caller may go on to find more mistakes;
/// only a result without errors keeps the promises of the schema.
/// @param what  how messages call the node, a key or "" for the document
/// @param registry  resolves Schema::stages(); may be nullptr when the schema has none
[[nodiscard]] Value validate(const Schema& schema, const DocumentNode& node, const std::string& what,
                             const Registry* registry, Diagnostics& diagnostics);

}  // namespace weft::pipeline
