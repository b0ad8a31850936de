// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Configurations that are wrong by construction: a valid document, one mistake made in it on purpose, and what the
// loader must say about it, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "switch/config/schema/document.h"
#include "switch/pipeline/registry.h"

namespace weft::testing {

/// A wrong configuration.
struct Mutant {
  std::string name;      ///< of the mistake
  std::string text;      ///< YAML
  std::string expected;  ///< a line of the loader's report begins with it; the file is called "f"
  bool structural;       ///< a JSON Schema can see it
};

/// Writes a document as YAML, one value per line, and stores every node's position in it.
[[nodiscard]] std::string write_yaml(config::DocumentNode& root);

/// Makes mistakes in copies of documents.
class Mutator {
 public:
  /// @param documents  valid configurations
  Mutator(std::vector<config::DocumentNode> documents, const pipeline::Registry& registry, std::uint64_t seed);

  /// One wrong configuration with the given kind of mistake, in a document and at a place drawn at random among those
  /// where it can be made.
  [[nodiscard]] Mutant make(std::size_t kind);
  [[nodiscard]] std::size_t kinds() const noexcept;

 private:
  std::vector<config::DocumentNode> documents_;
  const pipeline::Registry& registry_;
  std::mt19937_64 random_;
};

}  // namespace weft::testing
