// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Values of an experiment that the command line replaces.
#pragma once

#include <string>
#include <vector>

#include "switch/config/schema/document.h"
#include "switch/config/schema/schema.h"

namespace weft::experiment {

/// `key=value` of the command line: replaces or adds what stands under the key, whose parts are separated by dots.
struct Override {
  std::string key;
  std::string value;
};

/// Arguments of --set, each with a '=' that is not its first character.
[[nodiscard]] std::vector<Override> overrides_of(const std::vector<std::string>& sets);

/// Replaces a value in a document. Mistakes have "--set KEY" for a file.
void apply(const Override& change, config::DocumentNode& document, config::Diagnostics& diagnostics);

}  // namespace weft::experiment
